"""What most servers are: `BareServer`, with nothing that only some can do. A server is a subclass of it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.address import Address
from cluster.credentials import Login
from cluster.data_files import DataFiles
from cluster.persistence import Policy
from cluster.server import (
    Group,
    OpenKeyEvents,
    OpenKeyReader,
    Place,
    ProbeLinks,
    Query,
    ReadClock,
    ReadDenials,
    Server,
    ShutDown,
    WriteErrors,
)

if TYPE_CHECKING:
    from cluster.requests import Decode


@dataclass(frozen=True, slots=True, kw_only=True)
class BareServer:
    """`cluster.server.Server`, but for `version_in`, `arguments`, `answers`, `running_version`, `ping` and `url`. It
    asks for no password, has no files, and its configuration cannot be asked."""

    name: str
    help: str
    family: str
    programs: tuple[str, ...]
    policies: tuple[Policy, ...]
    probe_links: ProbeLinks
    version_option: str = "--version"
    needs_tree: bool = False
    takes_logins: bool = False
    is_scriptable: bool = False
    session_ends_with_connection: bool = False
    group: Group | None = None
    shut_down: ShutDown | None = None
    read_clock: ReadClock | None = None
    key_events: OpenKeyEvents | None = None
    key_reader: OpenKeyReader | None = None
    data_files: DataFiles | None = None
    write_errors: WriteErrors | None = None
    read_denials: ReadDenials | None = None
    query: Query | None = None

    @property
    def decode(self) -> Decode | None:
        return None

    @property
    def sentinel(self) -> Server | None:
        return None

    @property
    def elsewhere(self) -> Server | None:
        return None

    def files(self, place: Place) -> Mapping[str, bytes]:
        del place
        return {}

    def reread(self, content: bytes) -> bytes:
        return content

    def effective_config(self, address: Address, timeout_ms: float) -> Mapping[str, str]:
        del address, timeout_ms
        return {}

    def config_mismatch(self, policy: Policy, effective: Mapping[str, str]) -> str | None:
        del policy, effective
        return None

    def log_in(self, connection: socket.socket, login: Login) -> None:
        """It has no logins."""

"""Where to dial, who dials whom, and what a probe of such a link saw."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cluster.credentials import Login

LinkKey = tuple[str, str]
"""Who dials, and who is dialled: a client and a node (or `cluster.base.RESOURCE`)."""


class Address(NamedTuple):
    """Where to dial, always by number so that no spelling of a name can differ."""

    host: str
    port: int

    @property
    def login(self) -> Login | None:
        """As whom to log in there. It is no part of the value: it is neither compared, nor shown, nor encoded."""
        return None

    def behind(self, login: Login | None) -> Address:
        """The same address, with a login."""
        guarded = _Guarded(*self)
        guarded.known_login = login
        return guarded

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class _Guarded(Address):
    known_login: Login | None = None

    @property
    def login(self) -> Login | None:
        return self.known_login


class ProbeResult(NamedTuple):
    """What one probe through one link saw.

    `answered`: a reply came back within the time. `applied`: the node executed the command (asked directly, so None
    when the node itself could not be asked). `refused`: the connection was refused, reset or closed.
    `elapsed_ms`: until the reply, or until the probe gave up.
    """

    answered: bool
    applied: bool | None
    refused: bool
    elapsed_ms: float

"""ZooKeeper: members of one group that elect a leader (Zab).

A member answers at `PORT`; the others dial it at `_FOLLOWERS`, if it leads, and at `_ELECTION`. It says by a word of
four letters that it is well, with or without a majority behind it, and by another one whether it leads.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from cluster import zookeeper_messages as zookeeper
from cluster.address import Address
from cluster.credentials import Login
from cluster.marks import by_marks
from cluster.parallel import at_once
from cluster.persistence import Policy
from cluster.probe import MARK_PREFIX
from cluster.server import Group, Place, ProbeLinks, Server

if TYPE_CHECKING:
    from cluster.requests import Decode

PORT: Final = 2181
_FOLLOWERS: Final = 2888
_ELECTION: Final = 3888
_FILE: Final = "zoo.cfg"
_DIRECT_MS: Final = 500.0
_VERSION: Final = re.compile(r"^Apache ZooKeeper, version (\S+)", re.MULTILINE)
_RUNS: Final = re.compile(r"^zookeeper\.version=([\d.]+)", re.MULTILINE)
_LEADS: Final = re.compile(r"^Zxid: 0x([0-9a-f]+)$.*^Mode: leader$", re.MULTILINE | re.DOTALL)
_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JAVA: Final = (
    *("-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    # Its folder may be its root directory, which has no /dev/random. Java would take seconds to make up for that.
    "-Djava.security.egd=file:/dev/urandom",
)
_SETTINGS: Final = {
    # As in the file that comes with it, but for the tick, which is 2 s there. Sessions last 2 ticks or more, so this
    # makes them as short as the leases of other systems. A silent member is noticed after 3 ticks.
    "tickTime": "500",
    "initLimit": "10",
    "syncLimit": "3",
    "dataDir": "./data",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "ruok,srvr,envi",
}


def leader(members: Mapping[str, Address], timeout_ms: float) -> str | None:
    """A leader that was cut off says for a while that it leads. So of several leaders the one of the latest epoch
    counts, which is the upper half of its last transaction's number."""
    said = at_once(partial(_said, address, "srvr", timeout_ms) for address in members.values())
    epochs = {
        name: int(found[1], 16) >> 32
        for name, answer in zip(members, said, strict=True)
        if (found := _LEADS.search(answer))
    }
    return max(epochs, key=lambda name: epochs[name], default=None)


def _said(address: Address, four_letters: str, timeout_ms: float) -> str:
    """Empty without an answer."""
    try:
        return zookeeper.word(address, four_letters, timeout_ms)
    except OSError:
        return ""


def serves(address: Address, timeout_ms: float) -> bool:
    """A session and a write through the member itself, at a path that no lock uses."""
    path = f"/{MARK_PREFIX}{os.urandom(4).hex()}"
    try:
        zookeeper.ask(address, timeout_ms, zookeeper.create(path), zookeeper.close())
    except OSError:
        return False
    return True


def _leave(link: Address, mark: str, timeout_ms: float) -> None:
    """It vanishes with its session."""
    zookeeper.ask(link, timeout_ms, zookeeper.create(f"/{mark}"), is_link=True)


def _find(node: Address, prefix: str) -> list[str]:
    """All that is at the top of the tree, as this node sees it. Without a majority behind it, a node closes every
    connection."""
    del prefix
    there, _ = zookeeper.ask(node, _DIRECT_MS, zookeeper.children("/"), zookeeper.close())
    return zookeeper.names(there)


_PROBE_LINKS: Final = by_marks(_leave, _find)
_GROUP: Final = Group(PORT, leader, serves, forms_within_s=45.0, settles_within_ms=3_500.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperServer(Server):
    """It asks for no password: who reaches it may use it. Each member has the whole tree of set-up, the
    Java that runs it among it."""

    name: str = "zookeeper"
    help: str = "ZooKeeper, the nodes are the members of one group"
    family: str = "zookeeper"
    programs: tuple[str, ...] = ("zookeeper",)
    policies: tuple[Policy, ...] = ("none", "aof-always")
    group: Group | None = _GROUP
    needs_tree: bool = True
    probe_links: ProbeLinks = _PROBE_LINKS

    @property
    def decode(self) -> Decode | None:
        from cluster.zookeeper_requests import decode  # slow to import, and few commands come here

        return decode

    def version_in(self, output: str) -> str | None:
        found = _VERSION.search(output)
        return found[1] if found else None

    def arguments(self, place: Place) -> list[str]:
        keeps = "no" if place.policy == "none" else "yes"
        logs = "-Dorg.slf4j.simpleLogger.showDateTime=true"
        return [*_JAVA, logs, f"-Dzookeeper.forceSync={keeps}", _MAIN, _FILE]

    def files(self, place: Place) -> Mapping[str, bytes]:
        members = {
            f"server.{number}": f"{host}:{_FOLLOWERS}:{_ELECTION}"
            for number, host in enumerate(place.members.values(), 1)
        }
        settings = {**_SETTINGS, "clientPort": str(place.port), "clientPortAddress": place.host, **members}
        number = list(place.members).index(place.name) + 1
        return {
            _FILE: "".join(f"{name}={value}\n" for name, value in settings.items()).encode(),
            "data/myid": f"{number}\n".encode(),
        }

    def answers(self, address: Address, timeout_ms: float, pid: int | None = None) -> bool:
        """No other process can have its port: the member has its own network."""
        del pid
        return _said(address, "ruok", timeout_ms) == "imok"

    def running_version(self, address: Address, timeout_ms: float) -> str:
        if (found := _RUNS.search(said := zookeeper.word(address, "envi", timeout_ms))) is None:
            raise OSError(f"{address} answered envi with {said!r}")
        return found[1]

    def log_in(self, connection: socket.socket, login: Login) -> None:
        """Open a session, without which a connection takes no second request."""
        del login
        zookeeper.open_session(connection)

    def ping(self, connection: socket.socket) -> None:
        zookeeper.ping(connection)

    def url(self, host: str, port: int, password: str | None = None) -> str:
        """A part of the connection string."""
        del password
        return f"{host}:{port}"


SERVER = ZookeeperServer()

"""Hazelcast: members of one CP group that elect a leader (Raft). What goes over links is recorded as connections and
bytes.

Clients and other members dial `PORT`. At a second port each member says what its operator sees: whether it leads, and
whether it is one of the group. The free edition keeps nothing of the group: a member that was killed comes back as
another one, which has the group replace the one that it was (`fencepost/setup/hazelcast/Member.java`).
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from cluster import hazelcast_messages as hazelcast
from cluster.address import Address
from cluster.credentials import Login
from cluster.marks import by_marks
from cluster.parallel import at_once
from cluster.persistence import Policy
from cluster.server import Group, Place, ProbeLinks, Server

PORT: Final = 5701
_FILE: Final = "hazelcast.yaml"
_DIRECT_MS: Final = 500.0
_VERSION: Final = re.compile(r"^Hazelcast, version (\S+)", re.MULTILINE)
_LEADS: Final = re.compile(r"in term (\d+)")
_OPENED: Final = (
    *("java.base/java.lang", "java.base/sun.nio.ch", "java.management/sun.management"),
    "jdk.management/com.sun.management.internal",
)
"""As Hazelcast's own scripts open them."""
_JAVA: Final = (
    *("-Xms32m", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    "-Djava.security.egd=file:/dev/urandom",
    *("--add-modules", "java.se", "--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED"),
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
)
_PROPERTIES: Final = {
    "hazelcast.phone.home.enabled": "false",
    "hazelcast.socket.bind.any": "false",
    "hazelcast.logging.type": "jdk",
    "hazelcast.shutdownhook.enabled": "false",
    "hazelcast.wait.seconds.before.join": "0",
    # A member that was cut off leaves the cluster after 60 s by default, and is taken back 300 s after the heal. A run
    # is shorter than that.
    "hazelcast.heartbeat.interval.seconds": "1",
    "hazelcast.max.no.heartbeat.seconds": "10",
    "hazelcast.merge.first.run.delay.seconds": "2",
    "hazelcast.merge.next.run.delay.seconds": "2",
    "hazelcast.operation.call.timeout.millis": "5000",
}
_CP_SUBSYSTEM: Final = {
    # By default 300 s, 5 s, and 4 hours: as short as the leases of other systems, and no member is removed unasked.
    "session-time-to-live-seconds": 3,
    "session-heartbeat-interval-seconds": 1,
    "missing-cp-member-auto-removal-seconds": 0,
    # By default a silent leader is noticed after 25 s, here after 1.5 s.
    "raft-algorithm": {
        "leader-election-timeout-in-millis": 500,
        "leader-heartbeat-period-in-millis": 500,
        "max-missed-leader-heartbeat-count": 3,
    },
}


def leader(members: Mapping[str, Address], timeout_ms: float) -> str | None:
    """Of several that say that they lead, the one of the latest term does: the others were cut off, or stopped."""
    said = at_once(partial(_said, address, "leads", timeout_ms) for address in members.values())
    terms = {name: int(found[1]) for name, answer in zip(members, said, strict=True) if (found := _LEADS.match(answer))}
    return max(terms, key=lambda name: terms[name], default=None)


def serves(address: Address, timeout_ms: float) -> bool:
    """A write through the member itself, which is one of the group."""
    return _said(address, "write", timeout_ms) == "yes"


def _said(address: Address, question: str, timeout_ms: float) -> str:
    """Empty without an answer."""
    try:
        return hazelcast.ask(address, question, timeout_ms)
    except OSError:
        return ""


def _find(node: Address, prefix: str) -> list[str]:
    del prefix
    return hazelcast.ask(node, "clients", _DIRECT_MS).split()


_PROBE_LINKS: Final = by_marks(hazelcast.connect_through, _find)
_GROUP: Final = Group(PORT, leader, serves, forms_within_s=90.0, settles_within_ms=6_000.0, forgets=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class HazelcastServer(Server):
    """It asks for no password: who reaches it may use it. Each member has the whole tree of set-up, the
    Java that runs it among it."""

    name: str = "hazelcast"
    help: str = "Hazelcast's CP subsystem, the nodes are the members of one group"
    family: str = "hazelcast"
    programs: tuple[str, ...] = ("hazelcast",)
    policies: tuple[Policy, ...] = ("none",)
    group: Group | None = _GROUP
    needs_tree: bool = True
    probe_links: ProbeLinks = _PROBE_LINKS

    def version_in(self, output: str) -> str | None:
        found = _VERSION.search(output)
        return found[1] if found else None

    def arguments(self, place: Place) -> list[str]:
        return [*_JAVA, "Member", place.host, str(hazelcast.OPERATOR)]

    def files(self, place: Place) -> Mapping[str, bytes]:
        """YAML, of which JSON is a part."""
        others = {"enabled": True, "connection-timeout-seconds": 1, "member-list": list(place.members.values())}
        network = {
            "public-address": f"{place.host}:{place.port}",
            "port": {"port": place.port, "auto-increment": False},
            "join": {"auto-detection": {"enabled": False}, "multicast": {"enabled": False}, "tcp-ip": others},
        }
        count = len(place.members)
        settings = {
            "cluster-name": hazelcast.CLUSTER,
            "properties": {**_PROPERTIES, "hazelcast.local.localAddress": place.host},
            "network": network,
            "cp-subsystem": {"cp-member-count": count, "group-size": count, **_CP_SUBSYSTEM},
        }
        return {_FILE: json.dumps({"hazelcast": settings}, indent=2).encode()}

    def answers(self, address: Address, timeout_ms: float, pid: int | None = None) -> bool:
        """Its program runs. No other process can have its port: the member has its own network."""
        del pid
        return _said(address, "version", timeout_ms) != ""

    def running_version(self, address: Address, timeout_ms: float) -> str:
        return hazelcast.ask(address, "version", timeout_ms)

    def log_in(self, connection: socket.socket, login: Login) -> None:
        """Without this a connection takes no request."""
        del login
        hazelcast.log_in(connection, "fencepost", 1_000.0)

    def ping(self, connection: socket.socket) -> None:
        hazelcast.ping(connection, 1_000.0)

    def url(self, host: str, port: int, password: str | None = None) -> str:
        del password
        return f"{host}:{port}"


SERVER = HazelcastServer()

"""etcd: members of one group that elect a leader (Raft). What goes over links is recorded as connections and bytes.

A member answers on two ports: `PORT`, which clients dial, and `_PEERS`, which the other members dial. The second one
works as soon as the member does, the first one when it has first had a majority behind it.
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cluster.address import Address
from cluster.etcd_gateway import coded, decoded, get, post, range_of
from cluster.marks import by_marks
from cluster.parallel import at_once
from cluster.persistence import Policy
from cluster.probe import MARK_PREFIX
from cluster.server import Group, Place, ProbeLinks, Server

PORT: Final = 2379
_PEERS: Final = 2380
_DATA: Final = "/proc/self/cwd/data"
"""It would make a relative path absolute, and cannot enter the folders above its own."""
_DIRECT_MS: Final = 500.0
_VERSION: Final = re.compile(r"^etcd Version: (\S+)", re.MULTILINE)
_GET: Final = b"GET /version HTTP/1.1\r\nHost: etcd\r\n\r\n"


def leader(members: Mapping[str, Address], timeout_ms: float) -> str | None:
    """Of the members that answer, those in the latest term count."""
    asked = at_once(partial(_status, address, timeout_ms) for address in members.values())
    status = {name: answer for name, answer in zip(members, asked, strict=True) if answer is not None}
    latest = max((_term(answer) for answer in status.values()), default=0)
    named = Counter(answer["leader"] for answer in status.values() if _term(answer) == latest and "leader" in answer)
    ids = {answer["header"]["member_id"]: name for name, answer in status.items()}
    return next((ids[number] for number, _ in named.most_common(1) if number in ids and len(named) == 1), None)


def _status(address: Address, timeout_ms: float) -> Any:
    try:
        return post(address, "maintenance/status", {}, timeout_ms)
    except OSError:
        return None


def _term(status: Any) -> int:
    return int(status.get("raftTerm", 0))


def serves(address: Address, timeout_ms: float) -> bool:
    """A write through the member itself, to a key that no lock uses."""
    try:
        _leave(address, f"{MARK_PREFIX}serves", timeout_ms)
    except OSError:
        return False
    return True


def _leave(link: Address, mark: str, timeout_ms: float) -> None:
    post(link, "kv/put", {"key": coded(mark), "value": ""}, timeout_ms)


def _find(node: Address, prefix: str) -> list[str]:
    """Deletes them."""
    answer = post(node, "kv/deleterange", {**range_of(prefix), "prev_kv": True}, _DIRECT_MS)
    return [decoded(each["key"]) for each in answer.get("prev_kvs", ())]


_PROBE_LINKS: Final = by_marks(_leave, _find)
_GROUP: Final = Group(PORT, leader, serves, forms_within_s=20.0, settles_within_ms=3_000.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdServer(Server):
    """It asks for no password: who reaches it may use it."""

    name: str = "etcd"
    help: str = "etcd, the nodes are the members of one group"
    family: str = "etcd"
    programs: tuple[str, ...] = ("etcd",)
    policies: tuple[Policy, ...] = ("none", "aof-always")
    group: Group | None = _GROUP
    probe_links: ProbeLinks = _PROBE_LINKS

    def version_in(self, output: str) -> str | None:
        found = _VERSION.search(output)
        return found[1] if found else None

    def arguments(self, place: Place) -> list[str]:
        """Its own defaults, as people run it: a heartbeat every 100 ms, an election after 1 to 2 s of silence."""
        clients, peers = (f"http://{place.host}:{port}" for port in (place.port, _PEERS))
        members = ",".join(f"{name}=http://{host}:{_PEERS}" for name, host in place.members.items())
        settings = {
            "name": place.name,
            "data-dir": _DATA,
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": members,
            "initial-cluster-state": "new",
        }
        if place.policy == "none":
            settings["unsafe-no-fsync"] = "true"
        return [f"--{name}={value}" for name, value in settings.items()]

    def answers(self, address: Address, timeout_ms: float, pid: int | None = None) -> bool:
        """By its port for other members. No other process can have that port: the member has its own network."""
        del pid
        try:
            get(Address(address.host, _PEERS), "/version", timeout_ms)
        except OSError:
            return False
        return True

    def running_version(self, address: Address, timeout_ms: float) -> str:
        return str(get(Address(address.host, _PEERS), "/version", timeout_ms)["etcdserver"])

    def ping(self, connection: socket.socket) -> None:
        connection.sendall(_GET)
        read = b""
        while not read.rstrip().endswith(b"}"):
            if not (some := connection.recv(4096)):
                raise ConnectionError("the server closed the connection")
            read += some

    def url(self, host: str, port: int, password: str | None = None) -> str:
        del password
        return f"http://{host}:{port}"


SERVER = EtcdServer()

"""The systems that are compared, what is done to them, and how many clients want their lock, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from fencepost.text import plural

TTL_MS: Final = 2_000
"""The shortest lease that etcd grants; all others get the same."""

Kind = Literal["one", "independent", "primary", "group"]
"""What the servers are to each other. `primary`: one of them, which the others copy."""


@dataclass(frozen=True, slots=True)
class System:
    """`says`: what it is, for people. `options`: of `fencepost test`. `takes_tokens`: whether its data can be guarded
    by fencing tokens; in one transaction with the lock they need none."""

    name: str
    says: str
    kind: Kind
    options: Mapping[str, str]
    takes_tokens: bool = True


_GROUP: Final = {"nodes": "3", "persistence": "aof-always"}

SYSTEMS: Final = (
    System("redlock", "Redlock on five independent Redis servers", "independent", {"lock": "redlock", "nodes": "5"}),
    System("set-nx-px", "SET NX PX on one Redis server", "one", {"lock": "set-nx-px", "nodes": "1"}),
    System(
        "sentinel",
        "SET NX PX on a Redis primary with two replicas, watched by three sentinels",
        "primary",
        {"lock": "primary-by-sentinel", "nodes": "3", "replication": "sentinel", "witness": "off"},
    ),
    System(
        "postgres-advisory",
        "pg_try_advisory_lock, held by a session of PostgreSQL",
        "one",
        {"lock": "postgres-advisory"},
    ),
    System("postgres-row", "SELECT … FOR UPDATE, held by a transaction of PostgreSQL", "one", {"lock": "postgres-row"}),
    System(
        "postgres-transaction",
        "lock and data in one transaction of PostgreSQL",
        "one",
        {"lock": "postgres-transaction"},
        takes_tokens=False,
    ),
    System("etcd", "etcd's lock service, three members", "group", {"lock": "etcd", **_GROUP}),
    System("zookeeper", "kazoo's Lock on ZooKeeper, three members", "group", {"lock": "zookeeper", **_GROUP}),
    System(
        "hazelcast",
        "FencedLock on Hazelcast's CP subsystem, three members, which keep nothing on disk",
        "group",
        {"lock": "hazelcast-fenced", "nodes": "3", "persistence": "none"},
    ),
)

NO_FAULT: Final = "no fault"
PAUSED: Final = "client paused"
KILLED: Final = "client killed"
LED: Final = "server killed"


@dataclass(frozen=True, slots=True)
class SystemFault:
    """`says`: what it is, for people. `nemesis`: of `fencepost test`; `instead`: another one for some kinds of system.
    `with_tokens`: whether it is also played with fencing tokens. `is_quick`: part of the quick form."""

    name: str
    says: str
    nemesis: str
    instead: Mapping[Kind, str] = field(default_factory=dict)
    with_tokens: bool = False
    is_quick: bool = True

    def of(self, system: System) -> str:
        return self.instead.get(system.kind, self.nemesis)


FAULTS: Final = (
    SystemFault(NO_FAULT, "nothing goes wrong", "none", is_quick=False),
    SystemFault(
        "partition",
        "links between clients and servers are cut, and members of a group from each other",
        "partition:interval=2s,duration=1s",
        {"group": "partition:interval=2s,duration=1s+members:interval=4s,duration=2s"},
        is_quick=False,
    ),
    SystemFault(
        PAUSED,
        "a client that is inside is stopped for one and a half TTLs, and then goes on",
        "pause:targets=inside,interval=2s,duration=1.5ttl",
        with_tokens=True,
    ),
    SystemFault(
        KILLED,
        "a client that is inside is killed, and started again",
        "crash:targets=inside,interval=2s,restart-delay=300ms",
    ),
    SystemFault(
        LED,
        "the leader, the primary or the only server is killed (of independent servers any one), and is back after 4 s",
        "crash:targets=one,restart-delay=4s,interval=8s",
        {
            "group": "leader:how=kill,duration=4s,interval=8s",
            "primary": "crash:targets=n1,restart-delay=4s,interval=8s",
        },
    ),
)

TOKENS: Final[Mapping[str, Mapping[str, str]]] = {"without tokens": {}, "with tokens": {"fencing": "all"}}
"""How the data is guarded, and the options for that."""
WITHOUT, WITH = TOKENS


@dataclass(frozen=True, slots=True)
class Crowd:
    """So many clients for so many keys, that never rest."""

    clients: int
    keys: int

    @property
    def name(self) -> str:
        return f"{plural(self.clients, 'client')}, {plural(self.keys, 'key')}"


CROWDS: Final = (Crowd(1, 1), Crowd(16, 1), Crowd(16, 16), Crowd(64, 1), Crowd(64, 64))
ALONE: Final = CROWDS[0]

"""How a mutant is declared, and the loads that expose the mutants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from workloads.locks.redlock import Redlock

STANDARD: Final = "standard"
"""The faults under which every mutant must be found. Loads are drawn there."""
UNAIMED: Final = "unaimed"
"""The same faults, but clients are stopped wherever they are."""
PLAIN: Final = "plain"
"""The four nemeses that `standard` is compared with, as they are, and the load that a run has by default."""
NO_FAULT: Final = "no fault"
"""Which mutants does the judge find by itself? Loads are drawn here, too."""
_LOADS: Final = {
    STANDARD: {"clients": "5"},
    UNAIMED: {"clients": "5"},
    PLAIN: {"clients": "5"},
    NO_FAULT: {"clients": "5", "load": "drawn"},
}


@dataclass(frozen=True, slots=True)
class Conditions:
    """The settings of a lock, and for single kinds of fault a load. `text`: their purpose. `settings`, `load`: options
    of `fencepost test`. `nemeses`: a spec for each kind of fault. Faults are frequent, so that much happens in a short
    time, and each lasts longer than a lease. A hunt needs two clients. `control`: the correct lock that is played under
    them, as for `--lock`."""

    name: str
    text: str
    settings: Mapping[str, str]
    load: Mapping[str, str]
    nemeses: Mapping[str, str]
    control: str = "redlock"

    def options(self, nemesis: str) -> dict[str, str]:
        """The options under this kind of fault."""
        load = _LOADS.get(nemesis, self.load)
        return {"ttl": "500ms", **self.settings, **load, "nemesis": self.nemeses[nemesis]}


_SHORT_LEASE: Final = {"ttl": "300ms"}
"""The faults of a mix follow each other faster, because all their times are in TTLs."""
_BUSY: Final = {"clients": "4", "hold": "uniform:20ms-120ms"}
_LONG_WORK: Final = {"clients": "3", "hold": "uniform:700ms-1500ms", "extend": "20"}
_NEMESES: Final = {
    STANDARD: "standard",
    UNAIMED: "standard:aim=no",
    PLAIN: "partition+latency+pause+crash",
    NO_FAULT: "none",
    "partition": "partition:interval=2s,duration=1500ms",
    "latency": "latency:interval=2s,duration=1500ms,kind=delay,delay=20ms-0.9ttl",
    "pause": "pause:interval=1500ms",
    "crash": "crash:interval=2s",
    "hunt": "hunt:restart-delay=1.2ttl",
}
_RARER: Final = {**_NEMESES, STANDARD: "standard:interval=4ttl", UNAIMED: "standard:aim=no,interval=4ttl"}
"""What is told only of a time without any fault needs such times."""
_SLOW_REPLIES: Final = {
    **_NEMESES,
    "latency": "latency:interval=2s,duration=1500ms,kind=delay,delay=0.1ttl-0.5ttl,targets=all",
}

CONDITIONS: Final[Mapping[str, Conditions]] = {
    conditions.name: conditions
    for conditions in (
        Conditions(
            "busy",
            "a node has a tenth of a lease to reply; four clients compete for one lock and hold it for part of its "
            "lease; slow replies come just too late",
            {},
            _BUSY,
            {**_NEMESES, "latency": "latency:interval=2s,duration=1500ms,kind=delay,delay=55ms-95ms,targets=all"},
        ),
        Conditions(
            "slow",
            "like busy, but the nodes are asked one after the other, and each has a whole lease to reply",
            {"acquire": "sequential", "node-timeout": "500ms", "retry-delay": "100ms"},
            _BUSY,
            _SLOW_REPLIES,
        ),
        Conditions(
            "waiting",
            "like busy, but the nodes have almost a whole lease to reply, and an acquire keeps trying for two leases",
            {"node-timeout": "400ms", "wait": "1s"},
            _BUSY,
            _SLOW_REPLIES,
        ),
        Conditions(
            "blocking",
            "like busy, but an acquire waits for up to ten seconds",
            {"wait": "10s"},
            _BUSY,
            _NEMESES,
        ),
        Conditions(
            "blocking, one key",
            "the same, and all wait for one key on one node",
            {"wait": "10s", "habits": "none", "keys": "1", "nodes": "1"},
            _BUSY,
            {kind: spec for kind, spec in _RARER.items() if kind != "hunt"},
        ),
        Conditions(
            "queue",
            "five clients that ask often for one key on one node, and wait for up to half a minute; faults are rare, "
            "since only a wait without any counts",
            {
                "ttl": "300ms",
                "wait": "30s",
                "nodes": "1",
                "retry-delay": "5ms",
                "habits": "none",
                "hold": "uniform:2ms-10ms",
                "load": "plain",
                "duration": "30s",
            },
            {"clients": "5"},
            {
                **{kind: spec for kind, spec in _NEMESES.items() if kind != "hunt"},
                STANDARD: "standard:interval=40ttl",
                UNAIMED: "standard:aim=no,interval=40ttl",
            },
            "workloads.queue_lock:TurnLock",
        ),
        Conditions(
            "turns",
            "clients that queue for one key on one node, and wait for up to five seconds",
            {
                "ttl": "300ms",
                "wait": "5s",
                "keys": "1",
                "nodes": "1",
                "retry-delay": "20ms",
                "habits": "none",
                "hold": "uniform:20ms-400ms",
                "duration": "30s",
            },
            _BUSY,
            {kind: spec for kind, spec in _RARER.items() if kind != "hunt"},
            "workloads.queue_lock:TurnLock",
        ),
        Conditions(
            "to the end",
            "like busy, but what counts is whether the lock recovers, so the run is short",
            {"duration": "30s", "recovery": "3s", "keys": "1"},
            _BUSY,
            _NEMESES,
            "workloads.guarded_lock:GuardedLock",
        ),
        Conditions(
            "briefly",
            "like busy, but for 20 s: what is found only when the record is whole needs no longer run",
            {"duration": "20s"},
            _BUSY,
            _NEMESES,
        ),
        Conditions(
            "a key of its own",
            "like busy, but faults are rarer, and each client has a key that no other asks for",
            {"keys": "5", "duration": "20s"},
            {"clients": "5", "hold": "uniform:20ms-120ms"},
            _RARER,
        ),
        Conditions(
            "tokens",
            "like busy, but the counter takes a write only with a token as large as any before, and no node forgets "
            "what it acknowledged",
            {"fencing": "all", "persistence": "aof-always", "duration": "20s"},
            _BUSY,
            _NEMESES,
            "set-nx-px-token",
        ),
        Conditions(
            "permits",
            "five clients that compete for two permits",
            {"workload": "semaphore", "permits": "2"},
            {"clients": "5", "hold": "uniform:20ms-120ms"},
            _NEMESES,
            "semaphore-counted",
        ),
        Conditions(
            "permits, one node",
            "the same, all for one key on one node, so that the others keep alive what a client leaves there",
            {"workload": "semaphore", "permits": "2", "keys": "1", "nodes": "1", "habits": "none"},
            {"clients": "5", "hold": "uniform:20ms-120ms"},
            {kind: spec for kind, spec in _NEMESES.items() if kind != "hunt"},
            "semaphore-counted",
        ),
        Conditions(
            "nested",
            "three clients that acquire again what they hold, also when their lease is over",
            {"reenter": "1"},
            {"clients": "3", "hold": "uniform:300ms-900ms"},
            _NEMESES,
            "redlock-reentrant",
        ),
        Conditions(
            "sharing",
            "the threads of a client share its connections, and an acquire waits for up to ten seconds",
            {"ttl": "1200ms", "wait": "10s", "tasks": "2", "nodes": "1"},
            {"clients": "2", "hold": "uniform:20ms-200ms"},
            {kind: spec for kind, spec in _RARER.items() if kind != "hunt"},
            "workloads.blocking_locks:SharesConnections",
        ),
        Conditions(
            "often free",
            "five clients that rest for longer than they work, so that the key is often free, and wait for it up to "
            "ten seconds, on one node",
            {
                "wait": "10s",
                "nodes": "1",
                "habits": "none",
                "hold": "uniform:100ms-200ms",
                "think": "uniform:800ms-2s",
                "load": "plain",
                "duration": "30s",
            },
            {"clients": "5"},
            {
                **{kind: spec for kind, spec in _NEMESES.items() if kind != "hunt"},
                STANDARD: "standard:interval=8ttl",
                UNAIMED: "standard:aim=no,interval=8ttl",
            },
            "workloads.blocking_locks:SharesConnections",
        ),
        Conditions(
            "renewing",
            "three clients whose work takes longer than a lease, which the lock renews by itself",
            {"renewal": "100ms"},
            {"clients": "3", "hold": "uniform:700ms-1500ms"},
            _RARER,
            "redlock-renewing",
        ),
        Conditions(
            "long work",
            "three clients whose work takes longer than a lease, so they extend it",
            {"node-timeout": "300ms"},
            _LONG_WORK,
            {
                **_NEMESES,
                "partition": "partition:interval=2s,duration=1500ms,shape=halves,kind=refuse",
                "latency": "latency:interval=2s,duration=1500ms,kind=delay,delay=0.18ttl-0.28ttl,jitter=0ms-10ms,"
                "direction=both,targets=all",
            },
        ),
        Conditions(
            "long work, impatient",
            "the same with short leases, but a node has a tenth of one to reply, so that an extension is in time even "
            "if nodes are silent",
            _SHORT_LEASE,
            _LONG_WORK,
            {
                **_NEMESES,
                "partition": "partition:interval=2s,duration=1500ms,shape=halves",
                "latency": "latency:interval=2s,duration=1500ms,kind=delay,delay=10ms-20ms,direction=both,targets=all",
            },
        ),
        Conditions(
            "alone",
            "one client, so that no other client can be the reason that the lock is taken",
            {},
            {"clients": "1", "hold": "uniform:20ms-60ms"},
            {
                **{kind: spec for kind, spec in _NEMESES.items() if kind != "hunt"},
                "crash": "crash:interval=2s,targets=clients",
            },
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken lock. `line`: the line of the algorithm that is wrong. `conditions`: the settings, and the load that
    exposes it under a single kind of fault. `finding`: the kind of finding that names it, as in a verdict. `source`:
    where a real library made this mistake; empty if none is known. `lock`: its name for `--lock`. `original`: the class
    of which it overrides one member. `cause`: what an explanation of that finding must name as the cause
    (`harness.explain.causes`); empty if the finding itself says all. `also`: other findings that are as true a
    description of the mistake, if they are explained by this cause (empty as there)."""

    name: str
    line: str
    conditions: Conditions
    finding: str
    source: str
    lock: str
    original: type[Redlock]
    broken: type[Redlock]
    cause: str = ""
    also: Mapping[str, str] = field(default_factory=dict)

    def is_named_by(self, finding: str, cause: str | None) -> bool:
        """Whether a finding with this explanation names the mistake. Whether `finding` itself is explained rightly is
        a question of its own."""
        return finding == self.finding or self.also.get(finding) == (cause or "")


MUTANTS: Final[dict[str, Mutant]] = {}
"""All mutants by name, in the order of the algorithm's steps."""

CONTROLS: Final[dict[str, tuple[str, Conditions]]] = {
    f"reference, {conditions.name}": (conditions.control, conditions) for conditions in CONDITIONS.values()
}
"""Correct locks under the same loads, which must never be blamed: the lock's name for `--lock`, and the load."""

Broken = TypeVar("Broken", bound=type[Redlock])


def mutant(
    name: str,
    line: str,
    *,
    conditions: str,
    finding: str,
    cause: str = "",
    also: Mapping[str, str] | None = None,
    source: str = "",
) -> Callable[[Broken], Broken]:
    """Declare a mutant; the class itself is unchanged. `cause`: one of those of `harness.explain.causes`. `source`: an
    issue or a change in a project on GitHub, as `owner/name#1`."""

    def declare(broken: Broken) -> Broken:
        original = broken.__mro__[1]
        assert issubclass(original, Redlock)
        lock = f"workloads.mutants:{broken.__name__}"
        MUTANTS[name] = Mutant(
            name, line, CONDITIONS[conditions], finding, source, lock, original, broken, cause, also or {}
        )
        return broken

    return declare

"""How a mutant is declared, and the loads that expose the mutants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from workloads.locks.redlock import Redlock


@dataclass(frozen=True, slots=True)
class Conditions:
    """A load, and the faults that suit it. `text`: its purpose. `options`: options of `fencepost test`. `nemeses`: a
    spec for each kind of fault. Faults are frequent, so that much happens in a short time, and each lasts longer than a
    lease. A hunt needs two clients."""

    name: str
    text: str
    options: Mapping[str, str]
    nemeses: Mapping[str, str]


_BUSY: Final = {"clients": "4", "ttl": "500ms", "hold": "uniform:20ms-120ms"}
_NEMESES: Final = {
    "partition": "partition:interval=2s,duration=1500ms",
    "latency": "latency:interval=2s,duration=1500ms,kind=delay,delay=20ms-0.9ttl",
    "pause": "pause:interval=1500ms",
    "crash": "crash:interval=2s",
    "hunt": "hunt:restart-delay=1.2ttl",
}

CONDITIONS: Final[Mapping[str, Conditions]] = {
    conditions.name: conditions
    for conditions in (
        Conditions(
            "busy",
            "four clients compete for one lock and hold it for part of its lease; slow replies come just too late",
            _BUSY,
            {**_NEMESES, "latency": "latency:interval=2s,duration=1500ms,kind=delay,delay=55ms-95ms,targets=all"},
        ),
        Conditions(
            "slow",
            "like busy, but the nodes are asked one after the other and have almost a whole lease to reply",
            {**_BUSY, "acquire": "sequential", "node-timeout": "400ms", "retry-delay": "100ms"},
            {**_NEMESES, "latency": "latency:interval=2s,duration=1500ms,kind=delay,delay=0.1ttl-0.5ttl,targets=all"},
        ),
        Conditions(
            "long work",
            "three clients whose work takes longer than a lease, so they extend it",
            {"clients": "3", "ttl": "500ms", "hold": "uniform:700ms-1500ms", "extend": "20", "node-timeout": "300ms"},
            {
                **_NEMESES,
                "partition": "partition:interval=2s,duration=1500ms,shape=halves,kind=refuse",
                "latency": "latency:interval=2s,duration=1500ms,kind=delay,delay=0.18ttl-0.28ttl,jitter=0ms-10ms,"
                "direction=both,targets=all",
            },
        ),
        Conditions(
            "alone",
            "one client, so that no other client can be the reason that the lock is taken",
            {"clients": "1", "ttl": "500ms", "hold": "uniform:20ms-60ms"},
            {
                **{kind: spec for kind, spec in _NEMESES.items() if kind != "hunt"},
                "crash": "crash:interval=2s,targets=clients",
            },
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken lock. `line`: the line of the algorithm that is wrong. `conditions`: the load that exposes it.
    `nemesis`: the kind of fault that reliably finds it. `finding`: the kind of finding that names it, as in a verdict.
    `liveness`: it costs only time, not safety. `lock`: its name for `--lock`. `original`: the class of which it
    overrides one method."""

    name: str
    line: str
    conditions: Conditions
    nemesis: str
    finding: str
    liveness: bool
    lock: str
    original: type[Redlock]
    broken: type[Redlock]


MUTANTS: Final[dict[str, Mutant]] = {}
"""All mutants by name, in the order of the algorithm's steps."""

CONTROLS: Final[dict[str, tuple[str, Conditions]]] = {
    f"reference, {conditions.name}": ("redlock", conditions) for conditions in CONDITIONS.values()
}
"""Correct locks under the same loads, which must never be blamed: the lock's name for `--lock`, and the load."""

Broken = TypeVar("Broken", bound=type[Redlock])


def mutant(
    name: str, line: str, *, conditions: str, nemesis: str, finding: str, liveness: bool = False
) -> Callable[[Broken], Broken]:
    """Declare a mutant; the class itself is unchanged."""

    def declare(broken: Broken) -> Broken:
        original = broken.__mro__[1]
        assert issubclass(original, Redlock)
        lock = f"workloads.mutants:{broken.__name__}"
        MUTANTS[name] = Mutant(name, line, CONDITIONS[conditions], nemesis, finding, liveness, lock, original, broken)
        return broken

    return declare

"""What a mutant says about itself, and the loads under which mutants show what they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from workloads.locks.redlock import Redlock


@dataclass(frozen=True, slots=True)
class Conditions:
    """A load, and the faults that go well with it. `text`: what it is made for. `options`: those of `fencepost test`.
    `nemeses`: a spec for each kind of faults; faults come often, so that much can happen in a short time, and each
    lasts longer than a lease. A hunt needs two clients."""

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
            "four clients want one lock, and hold it for a fraction of its lease; slow answers come just too late",
            _BUSY,
            {**_NEMESES, "latency": "latency:interval=2s,duration=1500ms,kind=delay,delay=55ms-95ms,targets=all"},
        ),
        Conditions(
            "slow",
            "as busy; the nodes are asked one after the other and get almost a whole lease to answer",
            {**_BUSY, "acquire": "sequential", "node-timeout": "400ms", "retry-delay": "100ms"},
            {**_NEMESES, "latency": "latency:interval=2s,duration=1500ms,kind=delay,delay=0.1ttl-0.5ttl,targets=all"},
        ),
        Conditions(
            "long work",
            "three clients whose work takes longer than a lease, which they prolong",
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
            "one client, so that nobody else can be the reason why the lock is not free",
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
    """One broken lock. `line`: what of the algorithm is wrong. `conditions`: the load under which it shows. `nemesis`:
    the kind of faults that find it surely. `finding`: the kind of finding that names it, as in a verdict. `liveness`:
    it costs nobody's safety, only time. `lock`: as `--lock` takes it. `original`: the class that it is a copy of, but
    for one method."""

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
"""Correct locks under the same loads: what is never to be blamed. The lock, as `--lock` takes it, and the load."""

Broken = TypeVar("Broken", bound=type[Redlock])


def mutant(
    name: str, line: str, *, conditions: str, nemesis: str, finding: str, liveness: bool = False
) -> Callable[[Broken], Broken]:
    """Declare a mutant; the class itself stays as it is."""

    def declare(broken: Broken) -> Broken:
        original = broken.__mro__[1]
        assert issubclass(original, Redlock)
        lock = f"workloads.mutants:{broken.__name__}"
        MUTANTS[name] = Mutant(name, line, CONDITIONS[conditions], nemesis, finding, liveness, lock, original, broken)
        return broken

    return declare

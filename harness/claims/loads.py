"""The random half of the experiments: runs of `fencepost test` whose figures are read, and what is expected of them.

A script forces one interleaving and shows what is possible. A load lets seeded faults and many sections decide, so it
yields a rate or a cost. Each load states its expectation here, before it runs, like a script does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Final, cast

from harness.campaign.adding import columns_of
from harness.campaign.measure import Figures
from harness.campaign.statistics import Count
from harness.claims.edges import TTL_MS, overlaps_per_outage, overlaps_per_section

CLIENTS: Final = 5


@dataclass(frozen=True, slots=True)
class Reading:
    """A number that is read of a run, and the bounds within which it is expected.

    `says`: the expectation as text. `unit`: what the number counts. `number`: None where the run does not show it.
    `counts`: events of trials, for a rate over all runs; None where the number is not a count of events."""

    says: str
    unit: str
    number: Callable[[Figures], float | None]
    least: float = -inf
    most: float = inf
    counts: Callable[[Figures], Count] | None = None
    trials: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    """Runs of `fencepost test` with these options. `beside`: another load; then the number is the ratio of this run's
    to that of the other's run of the same seed. `is_cost`: nothing else may run at the same time."""

    name: str
    options: Mapping[str, str]
    expects: Reading
    beside: str = ""
    is_cost: bool = False


def _overlaps(figures: Figures) -> float:
    return figures.overlaps["lock"]


def _column(name: str) -> Callable[[Figures], float | None]:
    """What a run has in this column of `runs.csv`."""
    return lambda figures: cast("float | None", columns_of(figures)[name])


_SAFE: Final = Reading(
    says="no overlap blamed on the lock",
    unit="overlaps blamed on the lock",
    number=_overlaps,
    most=0,
    counts=overlaps_per_section,
    trials="sections",
)
_UNSAFE: Final = replace(_SAFE, says="two holders at the same time, blamed on the lock", least=1, most=inf)
_SOME_LOST: Final = Reading("an acknowledged update is lost", "lost updates", _column("lost_updates"), least=1)
_NONE_LOST: Final = replace(_SOME_LOST, says="no acknowledged update is lost", least=-inf, most=0)
_SAFE_OUTAGES: Final = replace(_SAFE, says="no overlap after a crash", counts=overlaps_per_outage, trials="crashes")
_UNSAFE_OUTAGES: Final = replace(_SAFE_OUTAGES, says="an overlap after a crash", least=1, most=inf)
_SAFE_POWER_CUTS: Final = replace(_SAFE_OUTAGES, says="no overlap after a power cut", trials="power cuts")
_UNSAFE_POWER_CUTS: Final = replace(_SAFE_POWER_CUTS, says="an overlap after a power cut", least=1, most=inf)
_LONG_WAIT: Final = Reading(
    f"a grant no sooner than a TTL ({TTL_MS} ms) after a majority crashed",
    "ms from the crash to the next grant",
    _column("majority_wait_ms_median"),
    least=TTL_MS,
)
_SHORT_WAIT: Final = replace(
    _LONG_WAIT, says="a grant within half a TTL after a majority crashed", least=-inf, most=TTL_MS / 2
)
_OVERTAKEN: Final = Reading(
    "a client waits while the others enter more than twice as often as in turn",
    "grants to other clients during the worst wait",
    _column("overtaken"),
    least=2 * (CLIENTS - 1) + 1,
)
_IN_TURN: Final = replace(
    _OVERTAKEN,
    says="no client waits while the others enter more than twice as often as in turn",
    least=-inf,
    most=2 * (CLIENTS - 1),
)
_SPEED: Final = Reading("clients acquire the lock", "grants a second", _column("acquisitions_per_s"), least=1)
_LESS_THAN_HALF: Final = Reading(
    "less than half of the grants", "times the grants a second of {beside}", _column("acquisitions_per_s"), most=0.5
)
_MORE_THAN_HALF: Final = replace(_LESS_THAN_HALF, says="more than half of the grants", least=0.5, most=inf)
_FEWER_THAN_AT_RANDOM: Final = replace(_LESS_THAN_HALF, says="fewer grants than with a random delay", most=1)
_FEWER_THAN_AT_ONCE: Final = replace(_LESS_THAN_HALF, says="fewer grants than with nodes asked at once", most=1)

_USUAL: Final = {
    "lock": "redlock",
    "require": "lease",
    "ttl": f"{TTL_MS}ms",
    "clients": str(CLIENTS),
    "duration": "4s",
    "recovery": "500ms",
}
_UNRELIABLE: Final = {
    **_USUAL,
    "nemesis": "partition:interval=1s,duration=700ms+latency:interval=1s,duration=700ms",
    "hold": "uniform:2ms-20ms",
}
_CRASHES: Final = {
    **_USUAL,
    "nemesis": "crash:targets=one,interval=500ms,restart-delay=0",
    "hold": "uniform:200ms-400ms",
}
_HUNTED: Final = {**_USUAL, "clients": "4", "nemesis": "hunt:how=crash,restart-delay=0", "hold": "uniform:200ms-400ms"}
_POWER_CUTS: Final = {
    **_USUAL,
    "clients": "4",
    "duration": "12s",
    "disks": "",
    "nemesis": "hunt:how=power,restart-delay=0",
    "hold": "uniform:300ms-500ms",
}
"""Cuts and fsyncs have a rhythm each: in half of this time, no cut of three runs in a row came between a grant and its
fsync."""
_EXTENDED: Final = {
    **_USUAL,
    "ttl": "500ms",
    "clients": "6",
    "keys": "2",
    "duration": "6s",
    "node-timeout": "300ms",
    "nemesis": "partition:interval=1500ms,duration=1s,shape=halves,kind=refuse",
    "hold": "uniform:700ms-1500ms",
    "extend": "20",
}
_LATE_WRITES: Final = {**_USUAL, "nemesis": "late-write:interval=1s", "hold": "uniform:20ms-60ms"}
_HOWEVER_SELDOM: Final = {"least-sections": "1", "most-empty": "100"}
"""How seldom clients get in is what is measured, so a run that shows little of it shows enough."""
_MAJORITIES: Final = {**_USUAL, **_HOWEVER_SELDOM, "duration": "6s", "hold": "uniform:2ms-20ms"}
_QUEUE: Final = {**_USUAL, "nemesis": "none", "nodes": "1", "wait": "5s", "retry-delay": "20ms", "witness": "off"}
_COST: Final = {
    **_USUAL,
    "clients": "4",
    "keys": "1000",
    "hold": "0",
    "nemesis": "none",
    "duration": "2s",
    "recovery": "0",
    "node-timeout": "500ms",
    "disks": "",
}
_CROWD: Final = {
    **_USUAL,
    **_HOWEVER_SELDOM,
    "clients": "10",
    "hold": "0",
    "nemesis": "none",
    "duration": "2s",
    "recovery": "0",
    "retry-delay": "20ms",
}

_IN_MEMORY: Final = "locks-kept-in-memory"
_AT_RANDOM: Final = "retries-at-random"

_ALL: Final = (
    Load("partitions-and-delays", _UNRELIABLE, _SAFE),
    Load("partitions-and-delays-with-a-quorum-of-two", {**_UNRELIABLE, "lock": "control-quorum-of-two"}, _UNSAFE),
    Load("crashes-behind-whole-links", _CRASHES, _SAFE_OUTAGES),
    Load("crashes-of-nodes-that-decide", _HUNTED, _UNSAFE_OUTAGES),
    Load(
        "majority-back-after-the-ttl",
        {**_MAJORITIES, "nemesis": "crash:targets=majority,interval=2s,restart-delay=1.2ttl"},
        _LONG_WAIT,
    ),
    Load(
        "majority-back-at-once",
        {**_MAJORITIES, "nemesis": "crash:targets=majority,interval=2s,restart-delay=0"},
        _SHORT_WAIT,
    ),
    Load("contention-for-one-key", _QUEUE, _OVERTAKEN),
    Load("contention-in-a-queue", {**_QUEUE, "lock": "workloads.queue_lock:QueueLock"}, _IN_TURN),
    Load(_IN_MEMORY, {**_COST, "persistence": "none"}, _SPEED, is_cost=True),
    Load("locks-fsynced-always", {**_COST, "persistence": "aof-always"}, _LESS_THAN_HALF, _IN_MEMORY, is_cost=True),
    Load(
        "locks-fsynced-once-a-second",
        {**_COST, "persistence": "aof-everysec"},
        _MORE_THAN_HALF,
        _IN_MEMORY,
        is_cost=True,
    ),
    Load(
        "locks-behind-slow-links",
        {
            **_COST,
            "persistence": "none",
            "nemesis": "latency:kind=delay,delay=20ms-20ms,jitter=0ms-0ms,targets=all,interval=300ms,duration=10s",
        },
        _LESS_THAN_HALF,
        _IN_MEMORY,
        is_cost=True,
    ),
    Load(_AT_RANDOM, _CROWD, _SPEED, is_cost=True),
    Load(
        "retries-after-a-fixed-delay",
        {**_CROWD, "lock": "redlock-fixed-delay"},
        _FEWER_THAN_AT_RANDOM,
        _AT_RANDOM,
        is_cost=True,
    ),
    Load("nodes-asked-in-turn", {**_CROWD, "acquire": "sequential"}, _FEWER_THAN_AT_ONCE, _AT_RANDOM, is_cost=True),
    Load(
        "refused-keys-kept",
        {**_CROWD, "lock": "workloads.mutants:LeavesRefusedAttempts"},
        _LESS_THAN_HALF,
        _AT_RANDOM,
        is_cost=True,
    ),
    Load("late-writes", _LATE_WRITES, _SOME_LOST),
    Load("late-writes-with-tokens", {**_LATE_WRITES, "lock": "set-nx-px-token", "fencing": "all"}, _NONE_LOST),
    Load("late-writes-to-a-register", {**_LATE_WRITES, "workload": "register"}, _SOME_LOST),
    Load("late-writes-with-unique-values", {**_LATE_WRITES, "workload": "register", "fencing": "unique"}, _NONE_LOST),
    Load("power-cuts-with-aof-always", {**_POWER_CUTS, "persistence": "aof-always"}, _SAFE_POWER_CUTS),
    Load("power-cuts-with-aof-everysec", {**_POWER_CUTS, "persistence": "aof-everysec"}, _UNSAFE_POWER_CUTS),
    Load("extensions-behind-partitions", _EXTENDED, _SAFE),
    Load(
        "extensions-by-any-node-behind-partitions",
        {**_EXTENDED, "lock": "workloads.mutants:ExtendedByAnyNode"},
        _UNSAFE,
    ),
)

LOADS: Final[Mapping[str, Load]] = {load.name: load for load in _ALL}

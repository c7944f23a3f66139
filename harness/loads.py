"""Loads that are drawn from the seed: what clients do changes every few TTLs, so that a lock meets every class of load.

A load is of one of several kinds; all kinds come once, in random order, before any comes again. The last load goes on
after everything is healed: all clients work and none rests, so that the lock can show that it recovers. It begins early
enough to be seen: a section that began before it goes on into it, and may take several TTLs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final

from msgspec.structs import replace

from harness.config import RunConfig
from nemesis.random_draws import below, between, shuffled, some
from nemesis.spec import names_a_mix
from workloads.hold import Hold
from workloads.kinds import find_workload
from workloads.load import LoadPhase

SHORTEST_TTLS: Final = 3.0
LONGEST_TTLS: Final = 6.0
_MOST_LOADS: Final = 1_000
"""Each is written to the run's configuration; those of a very long run last longer."""
_OPTIONS: Final = ("hold", "think", "keys", "extensions", "extend_at")
_OFTEN: Final = 40
"""How many times a client may extend its lease: more often than any of these loads needs."""


@dataclass(frozen=True, slots=True)
class _Draw:
    """Draws the parts of one load. Times are in TTLs."""

    rng: Random
    config: RunConfig

    def times(self, low: float, high: float) -> Hold:
        return Hold("uniform", *(round(end * self.config.ttl_ms, 1) for end in (low, high)))

    def mostly_short(self, mean: float) -> Hold:
        """Many short times, and occasionally a long one."""
        return Hold("exponential", *(round(mean * self.config.ttl_ms, 1),) * 2)

    def clients(self, most: int) -> tuple[str, ...]:
        """One to `most` of them; so many more as a semaphore lets in at once besides the first."""
        return some(self.rng, self.config.client_names, self.config.permits + below(self.rng, most))

    def extended(
        self, hold: Hold, at: tuple[float, float], think: Hold | None = None, keys: int | None = None
    ) -> LoadPhase:
        """Leases that are extended. Unless it is given, clients rest for half a TTL at most."""
        return LoadPhase(
            hold=hold,
            think=think or self.times(0, 0.5),
            keys=keys or self.keys(),
            extensions=_OFTEN,
            extend_at=self.between(*at),
        )

    @property
    def most_keys(self) -> int:
        """So many that each has one client, or as many as a semaphore lets in."""
        return max(1, len(self.config.client_names) // self.config.permits)

    def keys(self) -> int:
        """From one key for all clients to the most."""
        return 1 + below(self.rng, self.most_keys)

    def between(self, low: float, high: float) -> float:
        return round(between(self.rng, low, high), 2)


_Kind = Callable[[_Draw], LoadPhase]

KINDS: Final[Mapping[str, _Kind]] = {
    "never free": lambda draw: LoadPhase(hold=draw.times(0.01, 0.1)),
    "several keys": lambda draw: draw.extended(
        hold=draw.mostly_short(0.12), at=(0.03, 0.2), think=draw.times(0, 0.05), keys=draw.most_keys
    ),
    "often free": lambda draw: draw.extended(
        hold=draw.mostly_short(0.1), at=(0.1, 0.4), think=draw.times(0.02, 0.3), keys=1
    ),
    "extended early": lambda draw: draw.extended(hold=draw.times(0.2, 1.2), at=(0.1, 0.4)),
    "extended late": lambda draw: draw.extended(hold=draw.times(1, 1.6), at=(0.7, 1.1)),
    "extended for long": lambda draw: draw.extended(hold=draw.times(1.5, 3.5), at=(0.1, 0.5), keys=draw.most_keys),
    "about a TTL": lambda draw: LoadPhase(hold=draw.times(0.6, 1.3), think=draw.times(0, 0.2), keys=draw.keys()),
    "alone": lambda draw: LoadPhase(hold=draw.times(0.005, 0.05), clients=draw.clients(1)),
    "few, after a rest": lambda draw: LoadPhase(
        hold=draw.mostly_short(0.2), think=draw.times(0.3, 1.5), clients=draw.clients(2), extensions=_OFTEN
    ),
}


def with_loads(config: RunConfig, given: Collection[str] = ()) -> RunConfig:
    """The configuration with its loads, if they are to be drawn: if it says so, or if it says nothing and its faults
    are a mix. An option that the user named (`given`), or that has another value than its default, keeps it in every
    load. A workload may give them another shape."""
    if config.load is None and config.schedule is None and names_a_mix(config.nemesis):
        config = replace(config, load="drawn")
    config = replace(config, loads=tuple(_drawn(config, given)) if config.load == "drawn" else ())
    shaped = tuple(find_workload(config.workload).shaped(load, config) for load in config.all_loads)
    return config if shaped == config.all_loads else replace(config, loads=shaped)


def kept_defaults(config: RunConfig) -> Iterator[str]:
    """The options of a load that have their default in every drawn load: the user named them."""
    usual = RunConfig(seed=0)
    for name in _OPTIONS:
        if config.loads and {getattr(config, name), *(getattr(load, name) for load in config.loads)} == {
            getattr(usual, name)
        }:
            yield name


def _drawn(config: RunConfig, given: Collection[str]) -> Iterator[LoadPhase]:
    at_ms = 0.0
    kinds = _dealt(config.seed)
    for number in count():
        rng = Random(f"{config.seed}:load:{number}")
        lasts_ms = max(between(rng, SHORTEST_TTLS, LONGEST_TTLS) * config.ttl_ms, config.duration_ms / _MOST_LOADS)
        if at_ms + lasts_ms > config.duration_ms - SHORTEST_TTLS * config.ttl_ms:
            break
        yield replace(_given(next(kinds)(_Draw(rng, config)), config, given), from_ms=round(at_ms))
        at_ms += lasts_ms
    last = LoadPhase(hold=_Draw(Random(), config).times(0.01, 0.1))
    yield replace(_given(last, config, given), from_ms=round(at_ms))


def _dealt(seed: int) -> Iterator[_Kind]:
    kinds: Sequence[_Kind] = tuple(KINDS.values())
    for number in count():
        yield from shuffled(Random(f"{seed}:load:deck {number}"), kinds)


def _given(load: LoadPhase, config: RunConfig, given: Collection[str]) -> LoadPhase:
    """The load with what the user decided."""
    usual = RunConfig(seed=0)
    decided = {
        name: getattr(config, name)
        for name in _OPTIONS
        if name in given or getattr(config, name) != getattr(usual, name)
    }
    if config.renewal_ms is not None:
        decided["extensions"] = 0
    return replace(load, **decided)

"""Slow links: every byte late by a delay with jitter, or a narrow pipe.

A delay near the TTL is the interesting one: the grant arrives when most of its validity is gone, or after all of it.
"""

from __future__ import annotations

from random import Random
from typing import Literal

import msgspec

from cluster.base import Delay, Direction, Throttle
from fencepost.history import Impact
from fencepost.units import Duration, DurationRange
from nemesis.base import Evidence, FaultClass, TargetFields, Topology, World
from nemesis.links import DIRECTIONS, WAYS, LinkName, heal_links, impair_links, in_words
from nemesis.random_draws import below, between, by_octaves, jittered, one_of, weighted
from nemesis.slow_links import PING_BYTES, PONG_BYTES, LinkTargets, drawn_links, probe_slow

_FELT_BY_COMMANDS: tuple[Direction, ...] = ("to-node", "both")
"""Commands are some hundred bytes and replies a few: only a very narrow pipe towards the node is felt."""


class LatencyOptions(msgspec.Struct, frozen=True):
    """`delay` is drawn for each fault, each doubling as likely; `jitter` too, by default up to 30 % of the delay."""

    interval: Duration = Duration(4_000)
    duration: Duration = Duration(2_000)
    kind: Literal["mixed", "delay", "throttle"] = "mixed"
    delay: DurationRange = DurationRange(Duration(5), Duration(1.3, in_ttls=True))
    jitter: DurationRange | None = None
    direction: Literal["any", "to-node", "from-node", "both"] = "any"
    targets: LinkTargets = "any"


class Latency(TargetFields, frozen=True):
    """One slow spell. `kind` decides which numbers count: `delay_ms` and `jitter_ms`, or `rate_kb_per_s`. `label`: how
    the links were chosen, for people."""

    kind: Literal["delay", "throttle"]
    label: str = msgspec.field(name="targets")
    direction: Direction
    links: tuple[LinkName, ...]
    delay_ms: int = 0
    jitter_ms: int = 0
    rate_kb_per_s: int = 0

    @property
    def fault_class(self) -> FaultClass:
        """A delay that varies by half of itself or more puts requests and replies into another order."""
        if self.kind == "throttle":
            return "narrow link"
        return "jitter" if 2 * self.jitter_ms >= self.delay_ms else _CLASSES[self.direction]

    def describe(self) -> str:
        how = (
            f"delay {self.delay_ms} ± {self.jitter_ms} ms"
            if self.kind == "delay"
            else f"limit to {self.rate_kb_per_s} kB/s"
        )
        return f"{how} {WAYS[self.direction]} ({self.label}): {in_words(self.links)}"

    def inject(self, world: World, owner: str) -> Impact:
        slow = Delay(self.delay_ms, self.jitter_ms, self.direction)
        narrow = Throttle(self.rate_kb_per_s, self.direction)
        impairment = slow if self.kind == "delay" else narrow
        return impair_links(world, owner, self.links, impairment, Impact(slow_links=self.links))

    def probe(self, world: World, impact: Impact) -> Evidence:
        return probe_slow(world, self.links, impact, *self._round_trip_ms())

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        return heal_links(world, owner, self.links)

    def _round_trip_ms(self) -> tuple[float, float]:
        """The least and the most that one small command and its reply are late."""
        ways = 2 if self.direction == "both" else 1
        if self.kind == "delay":
            return ways * (self.delay_ms - self.jitter_ms), ways * (self.delay_ms + self.jitter_ms)
        there = PING_BYTES if self.direction != "from-node" else 0
        back = PONG_BYTES if self.direction != "to-node" else 0
        return (there + back) / self.rate_kb_per_s, 500


_CLASSES: dict[Direction, FaultClass] = {
    "both": "both ways slow",
    "to-node": "requests slow",
    "from-node": "replies slow",
}


class _LatencyNemesis:
    name = "latency"
    help = (
        "slows links: interval=4s, duration=2s, kind=mixed|delay|throttle, delay=5ms-1.3ttl, jitter=0ms-50ms "
        "(default up to 30 % of the delay), direction=any|to-node|from-node|both, "
        "targets=any|one-node|minority|majority|all|one-client|n4,n5"
    )
    options = LatencyOptions
    faults = Latency

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Latency, int]:
        assert isinstance(options, LatencyOptions)
        ttl_ms = topology.ttl_ms
        duration_ms = jittered(rng, options.duration.ms(ttl_ms))
        kind = weighted(rng, {"delay": 4, "throttle": 1}) if options.kind == "mixed" else options.kind
        targets, links = drawn_links(rng, options.targets, topology)
        if kind == "throttle":
            direction = one_of(rng, _FELT_BY_COMMANDS) if options.direction == "any" else options.direction
            return Latency("throttle", targets, direction, links, rate_kb_per_s=1 + below(rng, 2)), duration_ms
        direction = one_of(rng, DIRECTIONS) if options.direction == "any" else options.direction
        delay_ms = round(by_octaves(rng, *options.delay.ms(ttl_ms)))
        if options.jitter is None:
            jitter_ms = round(delay_ms * between(rng, 0, 0.3))
        else:
            jitter_ms = min(delay_ms, round(between(rng, *options.jitter.ms(ttl_ms))))
        return Latency("delay", targets, direction, links, delay_ms=delay_ms, jitter_ms=jitter_ms), duration_ms


NEMESIS = _LatencyNemesis()

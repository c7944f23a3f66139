"""Slow links: every byte late by a delay with jitter, or a narrow pipe.

A delay near the TTL is the interesting one: the grant arrives when most of its validity is gone, or after all of it.
"""

from __future__ import annotations

from random import Random
from typing import Literal

import msgspec

from cluster.base import Delay, Direction, ProbeResult, Throttle
from fencepost.history import Impact
from fencepost.units import Duration, DurationRange
from nemesis.base import Evidence, FaultClass, Topology, World
from nemesis.links import DIRECTIONS, WAYS, LinkName, Results, Shared, heal_links, impair_links, in_words
from nemesis.names import NAMED_NODES, Names
from nemesis.partition_shapes import spare
from nemesis.random_draws import below, between, by_octaves, jittered, one_of, some, weighted

SMALL_MS = 2.0
"""How much earlier than planned a byte may come: timers and roundings of the proxy."""
LONGEST_PROBE_MS = 1_500.0
"""A longer delay is not awaited; that the reply did not come within this time is the evidence then."""
TRIES, EASILY_NOISE_MS = 3, 200.0
"""A busy machine can make any single reply late by some tens of milliseconds, but no reply early: a short delay must
show every time."""
LOOKS = 2
"""A link that seems quick is looked at again: when another fault changes it, Toxiproxy lets go what it holds back."""
PING_BYTES, PONG_BYTES = 14, 4
"""The least that a command and its reply weigh, which is Redis's PING: how much a narrow pipe surely slows a probe."""

_FELT_BY_COMMANDS: tuple[Direction, ...] = ("to-node", "both")
"""Commands are some hundred bytes and replies a few: only a very narrow pipe towards the node is felt."""

Targets = Names | Literal["any", "one-node", "minority", "majority", "all", "one-client"]


class LatencyOptions(msgspec.Struct, frozen=True):
    """`delay` is drawn for each fault, each doubling as likely; `jitter` too, by default up to 30 % of the delay."""

    interval: Duration = Duration(4_000)
    duration: Duration = Duration(2_000)
    kind: Literal["mixed", "delay", "throttle"] = "mixed"
    delay: DurationRange = DurationRange(Duration(5), Duration(1.3, in_ttls=True))
    jitter: DurationRange | None = None
    direction: Literal["any", "to-node", "from-node", "both"] = "any"
    targets: Targets = "any"


class Latency(msgspec.Struct, frozen=True):
    """One slow spell. `kind` decides which numbers count: `delay_ms` and `jitter_ms`, or `rate_kb_per_s`."""

    kind: Literal["delay", "throttle"]
    targets: str
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
        how = f"{self.delay_ms} ± {self.jitter_ms} ms" if self.kind == "delay" else f"{self.rate_kb_per_s} kB/s"
        return f"{how} {WAYS[self.direction]} ({self.targets}): {in_words(self.links)}"

    def inject(self, world: World, owner: str) -> Impact:
        slow = Delay(self.delay_ms, self.jitter_ms, self.direction)
        narrow = Throttle(self.rate_kb_per_s, self.direction)
        impairment = slow if self.kind == "delay" else narrow
        return impair_links(world, owner, self.links, impairment, Impact(slow_links=self.links))

    def probe(self, world: World, impact: Impact) -> Evidence:
        """Every link must be as late as planned, measured through it. Only one that answers sooner is a miss."""
        least_ms, most_ms = self._round_trip_ms()
        timeout_ms = min(most_ms + 200, LONGEST_PROBE_MS)
        least_ms = min(least_ms, timeout_ms) - SMALL_MS

        shared = Shared(world, impact.slow_links)

        def slow(link: LinkName, result: ProbeResult) -> bool:
            if result.elapsed_ms >= least_ms and not result.refused:
                return True
            # A node out of service, or another fault's cut, leaves only what `inject` read back.
            return not result.answered and (result.applied is None or link in shared)

        results: Results = {}
        fast = list(impact.slow_links)
        for _ in range(LOOKS):
            looked_at, fast = fast, []
            for _ in range(TRIES if least_ms < EASILY_NOISE_MS else 1):
                results |= world.cluster.probe(looked_at, timeout_ms)
                fast += [link for link in looked_at if link not in fast and not slow(link, results[link])]
            if not fast or world.out_of_time():
                break
        late = sorted(result.elapsed_ms for result in results.values() if result.answered)
        words = [f"{len(impact.slow_links) - len(fast)} of {len(self.links)} links slow"]
        if late:
            words.append(f"replies after {late[0]:.0f} to {late[-1]:.0f} ms")
        if len(late) < len(results):
            words.append(f"{len(results) - len(late)} without a reply in {timeout_ms:.0f} ms")
        unseen = [link for link, r in results.items() if r.refused or (r.applied is None and not r.answered)]
        if unseen:
            words.append(f"set and read back, but not to be seen for another fault: {in_words(unseen)}")
        if fast:
            words.append(f"expected at least {least_ms:.0f} ms on {in_words(fast)}")
        return Evidence(holds=len(fast) == 0 and len(impact.slow_links) == len(self.links), seen="; ".join(words))

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
        if isinstance(options.targets, Names):
            targets, nodes = NAMED_NODES, options.targets.of(topology.nodes)
            links = tuple((client, node) for client in topology.clients for node in nodes)
        else:
            targets = options.targets
            if targets == "any":
                targets = one_of(rng, ("one-node", "minority", "majority", "all", "one-client"))
            links = _links(rng, targets, topology)
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


def _links(rng: Random, targets: str, topology: Topology) -> tuple[LinkName, ...]:
    clients, nodes = topology.clients, topology.nodes
    match targets:
        case "one-node":
            nodes = some(rng, nodes, 1)
        case "minority":
            nodes = some(rng, nodes, max(1, spare(topology)))
        case "majority":
            nodes = some(rng, nodes, topology.majority)
        case "one-client":
            clients = some(rng, clients, 1)
    return tuple((client, node) for client in clients for node in nodes)


NEMESIS = _LatencyNemesis()

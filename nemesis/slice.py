"""Bytes that arrive in pieces: a request or a reply of a hundred bytes comes as dozens of small packets with gaps.

TCP promises the order of the bytes and nothing about how many come at once. A library that takes what one read returned
for a whole reply works in every test on one machine, and fails here. The gaps also add up: long messages are later than
short ones.
"""

from __future__ import annotations

from random import Random
from typing import Literal

import msgspec

from cluster.base import PIECE_BYTES, Direction, Slices
from fencepost.history import Impact
from fencepost.units import Duration, DurationRange
from nemesis.base import Evidence, FaultClass, TargetFields, Topology, World
from nemesis.links import DIRECTIONS, WAYS, LinkName, heal_links, impair_links, in_words
from nemesis.random_draws import by_octaves, jittered, one_of
from nemesis.slow_links import LONGEST_PROBE_MS, PING_BYTES, PONG_BYTES, LinkTargets, drawn_links, probe_slow


class SliceOptions(msgspec.Struct, frozen=True):
    """`gap`: the time between two pieces, drawn for each fault, each doubling as likely."""

    interval: Duration = Duration(4_000)
    duration: Duration = Duration(2_000)
    gap: DurationRange = DurationRange(Duration(1), Duration(10))
    direction: Literal["any", "to-node", "from-node", "both"] = "any"
    targets: LinkTargets = "any"


class Slice(TargetFields, frozen=True):
    """What passes the links arrives in pieces of a few bytes, `gap_ms` apart. `label`: how the links were chosen, for
    people."""

    label: str = msgspec.field(name="targets")
    direction: Direction
    links: tuple[LinkName, ...]
    gap_ms: int

    @property
    def fault_class(self) -> FaultClass:
        return "in pieces"

    def describe(self) -> str:
        how = f"pieces of up to {PIECE_BYTES} bytes, {self.gap_ms} ms apart"
        return f"{how}, {WAYS[self.direction]} ({self.label}): {in_words(self.links)}"

    def inject(self, world: World, owner: str) -> Impact:
        slices = Slices(self.gap_ms, self.direction)
        return impair_links(world, owner, self.links, slices, Impact(slow_links=self.links))

    def probe(self, world: World, impact: Impact) -> Evidence:
        """The gaps within a small command and its reply must show."""
        sizes = {"to-node": (PING_BYTES,), "from-node": (PONG_BYTES,), "both": (PING_BYTES, PONG_BYTES)}
        gaps = sum(-(-size // PIECE_BYTES) - 1 for size in sizes[self.direction])
        return probe_slow(world, self.links, impact, gaps * self.gap_ms, LONGEST_PROBE_MS)

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        return heal_links(world, owner, self.links)


class _SliceNemesis:
    name = "slice"
    help = (
        "lets bytes arrive in pieces: interval=4s, duration=2s, gap=1ms-10ms, direction=any|to-node|from-node|both, "
        "targets=any|one-node|minority|majority|all|one-client|n4,n5"
    )
    options = SliceOptions
    faults = Slice

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Slice, int]:
        assert isinstance(options, SliceOptions)
        duration_ms = jittered(rng, options.duration.ms(topology.ttl_ms))
        targets, links = drawn_links(rng, options.targets, topology)
        direction = one_of(rng, DIRECTIONS) if options.direction == "any" else options.direction
        gap_ms = max(1, round(by_octaves(rng, *options.gap.ms(topology.ttl_ms))))
        return Slice(targets, direction, links, gap_ms), duration_ms


NEMESIS = _SliceNemesis()

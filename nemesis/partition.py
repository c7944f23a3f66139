"""Partitions: links between some clients and some nodes are cut, in a shape, in a way and in a direction.

What each cut does to the connections is defined by `cluster.base.CutKind`; the probe relies on that alone.
"""

from __future__ import annotations

from random import Random
from typing import Literal

import msgspec

from cluster.address import ProbeResult
from cluster.base import Cut, CutKind, Direction
from fencepost.errors import UsageError
from fencepost.history import Impact
from fencepost.units import Duration
from nemesis.base import Evidence, FaultClass, TargetFields, Topology, World
from nemesis.links import (
    DIRECTIONS,
    PROBE_TIMEOUT_MS,
    RETRY_FOR_S,
    WAYS,
    LinkName,
    SharedLinks,
    heal_links,
    impair_links,
    in_words,
    probe_until,
)
from nemesis.names import NAMED_NODES, Names
from nemesis.partition_shapes import SHAPES, possible
from nemesis.random_draws import jittered, one_of

LEAST_PROBE_MS = 5.0
"""An answer takes less than this, so longer silence shows a cut."""
KINDS: tuple[CutKind, ...] = ("refuse", "drop", "hold")

ShapeName = Literal[
    "any",
    "one-node",
    "minority-third",
    "minority",
    "halves",
    "majority",
    "ring",
    "bridge",
    "some-links",
    "overlapping-majorities",
    "one-client",
    "own-minorities",
]


class PartitionOptions(msgspec.Struct, frozen=True):
    """`any`: drawn anew for every partition. `targets`: the nodes to cut, by name, from every client or, with
    `shape=one-client`, from one."""

    interval: Duration = Duration(4_000)
    duration: Duration = Duration(2_000)
    shape: ShapeName = "any"
    kind: Literal["any", "refuse", "drop", "hold"] = "any"
    direction: Literal["any", "to-node", "from-node", "both"] = "any"
    targets: Names | Literal["any"] = "any"


class Partition(TargetFields, frozen=True, omit_defaults=True):
    """One partition: every one of `links` is cut. `shape` is only its name, for people. `probe_ms`: how long silence is
    awaited; less for a partition that is over sooner than that, which is probed once, and nothing else with it."""

    shape: str
    kind: CutKind
    direction: Direction
    links: tuple[LinkName, ...]
    probe_ms: float = PROBE_TIMEOUT_MS

    @property
    def is_brief(self) -> bool:
        return self.probe_ms < PROBE_TIMEOUT_MS

    @property
    def fault_class(self) -> FaultClass:
        return "connections refused" if self.kind == "refuse" else _CLASSES[self.kind, self.direction]

    def describe(self) -> str:
        return f"{self.kind} {_WHAT[self.kind]} {WAYS[self.direction]} ({self.shape}): {in_words(self.links)}"

    def inject(self, world: World, owner: str) -> Impact:
        cut = Cut(self.kind, self.direction)
        return impair_links(world, owner, self.links, cut, Impact(cut_links=self.links))

    def probe(self, world: World, impact: Impact) -> Evidence:
        """Every cut link must show what its kind and direction promise. Up to one untouched link per node is probed as
        well: it should answer, but may not for another fault's sake, so it is only told."""
        shared = SharedLinks(world, impact.cut_links)

        def cut_as_planned(link: LinkName, result: ProbeResult) -> bool:
            # What another fault does to the node or to the same link hides all but the silence.
            return not result.answered and (self._shows(result) or result.applied is None or link in shared)

        retry_for_s = 0 if self.is_brief else RETRY_FOR_S
        results, open_links = probe_until(world, impact.cut_links, cut_as_planned, self.probe_ms, retry_for_s)
        cut = len(impact.cut_links) - len(open_links)
        words = [f"{cut} of {len(self.links)} links cut"]
        unseen = sorted({node for (_, node), result in results.items() if result.applied is None})
        if unseen:
            words.append(f"{','.join(unseen)} out of service, so only the silence was seen")
        if shared.links:
            words.append(f"{len(shared.links)} of them impaired by another fault too, so only the silence was seen")
        others = [] if self.is_brief else self._untouched(world.topology)
        if others:
            answers = world.cluster.probe(others, PROBE_TIMEOUT_MS)
            words.append(f"{sum(a.answered for a in answers.values())} of {len(others)} untouched links answer")
        if open_links:
            told = [f"{c}-{n} ({_seen(results[c, n])})" for c, n in open_links[:_LINKS_TOLD]]
            if (more := len(open_links) - _LINKS_TOLD) > 0:
                told.append(f"and {more} more")
            words.append(f"not as planned: {', '.join(told)}")
        return Evidence(holds=cut == len(self.links), seen="; ".join(words))

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        return heal_links(world, owner, self.links)

    def _shows(self, result: ProbeResult) -> bool:
        """Whether a probe without an answer shows this kind and direction."""
        if self.kind == "refuse" and not result.refused:
            return False
        return result.applied == (self.direction == "from-node")

    def _untouched(self, topology: Topology) -> list[LinkName]:
        cut = set(self.links)
        by_node = {n: (c, n) for n in topology.nodes for c in reversed(topology.clients) if (c, n) not in cut}
        return list(by_node.values())


_LINKS_TOLD = 8

_WHAT: dict[CutKind, str] = {"refuse": "connections", "drop": "data", "hold": "data"}

_CLASSES: dict[tuple[CutKind, Direction], FaultClass] = {
    ("drop", "both"): "link silent",
    ("drop", "to-node"): "requests lost",
    ("drop", "from-node"): "replies lost",
    ("hold", "both"): "link held",
    ("hold", "to-node"): "requests held",
    ("hold", "from-node"): "replies held",
}


def _seen(result: ProbeResult) -> str:
    if result.answered:
        return f"answered after {result.elapsed_ms:.0f} ms"
    return f"{'refused' if result.refused else 'silent'}, {'applied' if result.applied else 'not applied'}"


class _PartitionNemesis:
    name = "partition"
    help = (
        "cuts links between clients and nodes: interval=4s, duration=2s, shape=any|"
        + "|".join(SHAPES)
        + ", kind=any|refuse|drop|hold, direction=any|to-node|from-node|both, targets=any|n4,n5"
    )
    options = PartitionOptions
    faults = Partition

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Partition, int]:
        assert isinstance(options, PartitionOptions)
        duration_ms = jittered(rng, options.duration.ms(topology.ttl_ms))
        kind, direction, shape = one_of(rng, KINDS), one_of(rng, DIRECTIONS), one_of(rng, possible(topology))
        if options.shape != "any":
            shape = SHAPES[options.shape]
        if shape.min_nodes > len(topology.nodes):
            raise UsageError(
                f"partition:shape={shape.name} needs at least {shape.min_nodes} nodes, there are "
                f"{len(topology.nodes)}; raise --nodes or choose another shape"
            )
        name, links = shape.name, shape.draw(rng, topology)
        if isinstance(options.targets, Names):
            name, links = NAMED_NODES, self._named(options, options.targets, links, topology)
        return Partition(
            shape=name,
            kind=kind if options.kind == "any" else options.kind,
            direction=direction if options.direction == "any" else options.direction,
            links=links,
            probe_ms=max(LEAST_PROBE_MS, min(PROBE_TIMEOUT_MS, duration_ms / 2)),
        ), duration_ms

    def _named(
        self, options: PartitionOptions, named: Names, drawn: tuple[LinkName, ...], topology: Topology
    ) -> tuple[LinkName, ...]:
        """The links to the named nodes, from every client or from the one that the shape drew."""
        if options.shape not in ("any", "one-client"):
            raise UsageError(
                f"partition: shape={options.shape} chooses the nodes itself; leave out shape or targets, or write "
                "shape=one-client"
            )
        clients = {client for client, _ in drawn} if options.shape == "one-client" else set(topology.clients)
        return tuple((c, n) for c in topology.clients if c in clients for n in named.of(topology.nodes))


NEMESIS = _PartitionNemesis()

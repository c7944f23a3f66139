"""Nodes that go down and come back: what clean shutdowns, crashes and power cuts share.

How a node goes down decides what it still knows when it is back; when it is back decides whether that matters. A node
that forgot a lease before that lease ran out can grant it again: that is why Redlock's description asks for a restart
delayed by more than the TTL, unless every write is synced. The delay is an option, so that both can be measured.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import ClassVar, Final, Literal

import msgspec

from cluster.base import Node
from cluster.parallel import at_once
from cluster.polling import becomes_true
from fencepost.history import HowDown, Impact
from fencepost.units import Duration
from nemesis.base import Evidence, FaultClass, TargetFields, Topology, World, hitting
from nemesis.do_all import in_service, named, not_gone
from nemesis.elections import would_lose_group
from nemesis.names import Names
from nemesis.partition_shapes import spare
from nemesis.quorum_loss import losing_quorum
from nemesis.random_draws import some, weighted

BACK_WITHIN_S = 2.0

LONGEST_LEASE: Final = Duration(1.2, in_ttls=True)
"""No lease that a node granted before it went down lasts longer than this after that moment: one TTL, and a margin for
the clocks. A node that is started later may have forgotten everything."""

NodeTargets = Names | Literal["mixed", "one", "minority", "majority", "all"]

NODE_MIXTURE = {"one": 4, "minority": 3, "majority": 1}
"""How often each is drawn for `mixed`, out of eight times."""


_CLASSES: dict[HowDown, FaultClass] = {
    "kill": "node killed",
    "shutdown": "node shut down",
    "power cut": "node without power",
    "damage": "node damaged",
}


class NodeDownOptions(msgspec.Struct, frozen=True):
    """`restart_delay` is taken as it is, without jitter: it is what an experiment varies.

    `mixed`: of eight times four one node, three a minority, one a majority.
    """

    interval: Duration = Duration(4_000)
    restart_delay: Duration = LONGEST_LEASE
    targets: NodeTargets = "mixed"


class NodeDown(TargetFields, frozen=True):
    """`nodes` go down, all at the same moment, and come back at the same moment."""

    nodes: tuple[str, ...] = ()

    how: ClassVar[HowDown]

    @property
    def fault_class(self) -> FaultClass:
        return _CLASSES[self.how]

    def describe(self) -> str:
        return f"{self.how} {','.join(self.nodes)}"

    def inject(self, world: World, owner: str) -> Impact:
        """A node that is paused goes down too, and comes back running. One that went down without the nemesis is left
        alone, here and in the end: it is not this fault that took it down. Nothing is hit if a group would be lost with
        it for good."""
        names = not_gone(world, self.nodes)
        if not names or would_lose_group(world, names):
            return Impact()
        impact = Impact(nodes=names, keys_at_stake=self._keys_at_stake(world, names), how_down=self.how)
        for name in names:
            world.kept_down.setdefault(name, set()).add(owner)
        with hitting(impact):
            at_once(_verb(self.how, world.cluster.nodes[name]) for name in names)
        return impact

    def probe(self, world: World, impact: Impact) -> Evidence:
        up = in_service(world, impact.nodes)
        down = [name for name in impact.nodes if name not in up]
        missed = [name for name in self.nodes if name not in impact.nodes]
        words = named((down, "dead"), (up, "still there"), (missed, "down before, by no fault"))
        return Evidence(bool(down) and not up and not missed, "; ".join(words) or "no node was hit")

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        """A node that another fault keeps down as well stays down: back now, it would be back too soon for that fault,
        which may have taken it down later."""
        nodes = {name: world.cluster.nodes[name] for name in self.nodes}
        for name in nodes:
            world.kept_down.get(name, set()).discard(owner)
        due = [name for name, node in nodes.items() if node.was_taken_down() and not world.kept_down.get(name)]
        said = at_once(partial(self.bring_back, nodes[name]) for name in due)
        there = [name for name in due if becomes_true(nodes[name].is_up, within_s=BACK_WITHIN_S)]
        there = [name for name, node in nodes.items() if name in there or (name not in due and node.is_up())]
        absent = [name for name in due if name not in there]
        others = [name for name in nodes if name not in (*there, *absent)]
        words = [*named((there, "answering")), *filter(None, said)]
        words += named((absent, "not back"), (others, "left alone: out of service for another reason"))
        return Evidence(not absent, "; ".join(words))

    def bring_back(self, node: Node) -> str:
        """Start it again; says what was remarkable about that."""
        node.start()
        return ""

    def _keys_at_stake(self, world: World, names: tuple[str, ...]) -> tuple[str, ...] | None:
        """None if the nodes' server cannot list its keys."""
        if (reader := world.cluster.key_reader()) is None:
            return None
        with reader:
            locks = losing_quorum(reader.look(), names, world.topology.majority)
        return tuple(sorted({key for key, _ in locks}))


class NodeDownNemesis:
    """A `Nemesis` of nodes that go down in one way: `faults` is a `NodeDown` that says which."""

    options = NodeDownOptions

    def __init__(self, name: str, what: str, faults: type[NodeDown]) -> None:
        self.name = name
        self.help = (
            f"{what}: interval=4s, restart-delay=0|2s|1.2ttl (1.2ttl), "
            "targets=mixed|one|minority|majority|all|n4,n5 (mixed)"
        )
        self.faults = faults

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[NodeDown, int]:
        assert isinstance(options, NodeDownOptions)
        mixture = weighted(rng, NODE_MIXTURE)
        targets = mixture if options.targets == "mixed" else options.targets
        return self.faults(drawn_nodes(rng, targets, topology)), round(options.restart_delay.ms(topology.ttl_ms))


def drawn_nodes(rng: Random, targets: Names | str, topology: Topology) -> tuple[str, ...]:
    """The nodes that are named, or as many as `one`, `minority`, `majority` or `all` are."""
    if isinstance(targets, Names):
        return targets.of(topology.nodes)
    counts = {"one": 1, "minority": max(1, spare(topology)), "majority": topology.majority, "all": len(topology.nodes)}
    return some(rng, topology.nodes, counts[targets])


def _verb(how: HowDown, node: Node) -> Callable[[], None]:
    match how:
        case "shutdown":
            return node.stop
        case "kill" | "damage":
            return node.kill
        case "power cut":
            return node.cut_power

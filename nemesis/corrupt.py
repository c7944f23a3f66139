"""Damaged disks: nodes are killed, what they keep is cut short, and they come back with what is left.

A server reads a file whose end is missing as far as it goes, and forgets locks that it had promised to keep. What it
refuses to read is set aside, as an operator would do, and it comes back empty. Either way, only a restart later than
the longest lease is safe, however often the server syncs.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar

import msgspec

from cluster.base import Node, NotInTimeError
from cluster.data_files import PARTS
from fencepost.errors import BrokenEnvironmentError
from fencepost.history import HowDown, Impact
from nemesis.base import Evidence, Needs, Topology, World
from nemesis.node_down import NodeDown, NodeDownNemesis
from nemesis.random_draws import below


class Corrupt(NodeDown, frozen=True):
    """`place`: where the largest file of each node is cut, in millionths of its length."""

    place: int = 0

    how: ClassVar[HowDown] = "damage"

    @property
    def needs(self) -> Needs:
        return Needs(persistence=True, server=frozenset({"files that can be damaged"}))

    def describe(self) -> str:
        return f"kill {','.join(self.nodes)}, and truncate the largest file of each to {100 * self.place / PARTS:.3g} %"

    def inject(self, world: World, owner: str) -> Impact:
        impact = super().inject(world, owner)
        for name in impact.nodes:
            world.cluster.nodes[name].truncate(self.place)
        return impact

    def probe(self, world: World, impact: Impact) -> Evidence:
        """A node that keeps nothing yet, or that another fault brought back, was not damaged."""
        down = super().probe(world, impact)
        cut = {name: world.cluster.nodes[name].truncate(self.place) for name in impact.nodes} if down.holds else {}
        words = [down.seen, *(f"{name}: {how or 'nothing cut'}" for name, how in cut.items())]
        return Evidence(down.holds and all(cut.values()), "; ".join(words))

    def bring_back(self, node: Node) -> str:
        try:
            node.start()
        except NotInTimeError:
            raise
        except BrokenEnvironmentError:
            node.forget()
            node.start()
            return f"{node.name} refused what was left and came back empty"
        return ""


class _CorruptNemesis(NodeDownNemesis):
    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[NodeDown, int]:
        fault, down_ms = super().draw(rng, topology, options)
        return msgspec.structs.replace(fault, place=below(rng, PARTS)), down_ms


NEMESIS = _CorruptNemesis("corrupt", "kills nodes and truncates the largest file of each; needs --persistence", Corrupt)

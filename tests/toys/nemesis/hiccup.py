"""A toy nemesis: the first client stands still for a moment."""

from __future__ import annotations

from random import Random

import msgspec

from fencepost.history import Impact
from fencepost.units import Duration
from nemesis.base import Evidence, TargetFields, Targets, Topology, World


class HiccupOptions(msgspec.Struct, frozen=True):
    """`length`: how long the client stands still."""

    interval: Duration = Duration(500)
    length: Duration = Duration(100)


class Hiccup(TargetFields, frozen=True):
    """One client, stopped and continued."""

    client: str

    @property
    def targets(self) -> Targets:
        return Targets(clients=(self.client,))

    def only(self, targets: Targets) -> Hiccup:
        return self

    def describe(self) -> str:
        return f"hiccup of {self.client}"

    def inject(self, world: World, owner: str) -> Impact:
        world.clients[self.client].pause()
        return Impact(paused_clients=(self.client,))

    def probe(self, world: World, impact: Impact) -> Evidence:
        return Evidence(world.clients[self.client].is_paused(), f"{self.client} looked at")

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        world.clients[self.client].resume()
        return Evidence(not world.clients[self.client].is_paused(), f"{self.client} looked at")


class Hiccups:
    """Draws them."""

    name = "hiccup"
    help = "the first client stands still: interval=500ms, length=100ms"
    options = HiccupOptions
    faults = Hiccup

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Hiccup, int]:
        assert isinstance(options, HiccupOptions)
        return Hiccup(topology.clients[0]), round(options.length.ms(topology.ttl_ms))


NEMESIS = Hiccups()

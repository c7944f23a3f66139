"""Late writes: what a client inside its section sends to the resource is held until its lease has run out.

Checking the lease right before the write does not help against that: the client wrote in time, the network delivered
late (Kleppmann, "How to do distributed locking", 2016). The lock is not involved, so it is never to blame; only fencing
protects the resource.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random

import msgspec

from cluster.base import RESOURCE, Cut
from fencepost.history import Impact
from fencepost.units import Duration
from nemesis.base import Client, Evidence, TargetFields, Topology, World
from nemesis.links import PROBE_TIMEOUT_MS, RETRY_FOR_S, LinkName, heal_links, impair_links, probe_until
from nemesis.pause import CATCH_WITHIN_S, drawn_duration_ms
from nemesis.pause_before_reply import LOOK_EVERY_S
from nemesis.random_draws import below, rotated


class LateWriteOptions(msgspec.Struct, frozen=True):
    """`duration` is the mean; without it 1.2 to 2.5 TTL, so that a lease surely runs out."""

    interval: Duration = Duration(3_000)
    duration: Duration | None = None


class LateWrite(TargetFields, frozen=True):
    """The link to the resource of one of `clients` holds what is sent: of whichever is inside at that very moment,
    tried in their order from the one at `first` on."""

    clients: tuple[str, ...]
    first: int = 0

    def describe(self) -> str:
        return "hold what a client inside sends to the resource"

    def inject(self, world: World, owner: str) -> Impact:
        name = _one_inside([world.clients[name] for name in rotated(self.clients, self.first)], world)
        if name is None:
            return Impact()
        links = ((name, RESOURCE),)
        return impair_links(world, owner, links, Cut("hold", "to-node"), Impact(cut_links=links))

    def probe(self, world: World, impact: Impact) -> Evidence:
        """What is sent through the link does not arrive."""
        if not impact.cut_links:
            return Evidence(False, f"no client was inside for {CATCH_WITHIN_S * 1000:.0f} ms")
        _, open_links = probe_until(
            world,
            impact.cut_links,
            lambda _, result: not result.answered and not result.applied,
            PROBE_TIMEOUT_MS,
            RETRY_FOR_S,
        )
        ((client, _),) = impact.cut_links
        how = "still gets through to" if open_links else "does not get through to"
        return Evidence(not open_links, f"{client} {how} the resource")

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        links: set[LinkName] = {(name, RESOURCE) for name in self.clients}
        held = sorted(link for link in links if owner in world.cluster.links[link].owners())
        if not (healed := held or list(impact.cut_links)):
            return Evidence(True, "nothing was held")
        return heal_links(world, owner, healed)


def _one_inside(clients: Sequence[Client], world: World) -> str | None:
    """The first that is inside; None if none is in time."""
    deadline = time.monotonic() + CATCH_WITHIN_S
    while True:
        for client in clients:
            if client.is_alive() and not client.is_paused() and client.is_at("inside"):
                return client.name
        if time.monotonic() > deadline or world.called_off():
            return None
        world.sleep(LOOK_EVERY_S)


class _LateWriteNemesis:
    name = "late-write"
    help = (
        "holds what a client inside sends to the resource until its lease has run out: interval=3s, duration=2s "
        "(default 1.2 to 2.5 TTL)"
    )
    options = LateWriteOptions
    faults = LateWrite

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[LateWrite, int]:
        assert isinstance(options, LateWriteOptions)
        duration_ms = drawn_duration_ms(rng, options.duration, topology.ttl_ms)
        return LateWrite(topology.clients, first=below(rng, len(topology.clients))), duration_ms


NEMESIS = _LateWriteNemesis()

"""Crashes: SIGKILL of nodes, or of clients, and a restart after a while.

A node that comes back without what it had acknowledged, before the leases that it granted ran out, can grant them
again: that is why Redlock's description asks for a restart delayed by more than the TTL, unless every write is synced.
The delay is an option, so that both can be measured. A killed client leaves its key behind until it expires.
"""

from __future__ import annotations

from random import Random
from typing import Literal

import msgspec

from fencepost.units import Duration
from nemesis.base import Evidence, Impact, Topology, World
from nemesis.draws import below, some, weighted
from nemesis.shapes import spare
from nemesis.steps import await_that, do_all, in_service

BACK_WITHIN_S = 2.0


class CrashOptions(msgspec.Struct, frozen=True):
    """`restart_delay` is taken as it is, without jitter: it is what an experiment varies.

    `mixed`: of ten crashes four of one node, three of a minority, one of a majority, two of clients.
    """

    interval: Duration = Duration(4_000)
    restart_delay: Duration = Duration(1.2, in_ttls=True)
    targets: Literal["mixed", "one", "minority", "majority", "all", "clients"] = "mixed"


class Crash(msgspec.Struct, frozen=True):
    """One crash, of `nodes` or of `clients`."""

    nodes: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()

    def describe(self) -> str:
        return f"kill {','.join(self.nodes + self.clients)}"

    def inject(self, world: World, owner: str) -> Impact:
        """Kills what lives. A node that is paused is killed too, and comes back running."""
        for name in self.nodes:
            world.cluster.nodes[name].kill()
        clients = tuple(name for name in self.clients if world.clients[name].is_alive())
        for name in clients:
            world.clients[name].kill()
        return Impact(nodes=self.nodes, killed_clients=clients)

    def probe(self, world: World, impact: Impact) -> Evidence:
        up = in_service(world, impact.nodes)
        alive = [name for name in self.clients if world.clients[name].is_alive()]
        missed = [name for name in self.clients if name not in impact.killed_clients]
        dead = [name for name in (*impact.nodes, *impact.killed_clients) if name not in (*up, *alive)]
        words = [f"{','.join(dead)} dead"] if dead else []
        if up or alive:
            words.append(f"{','.join((*up, *alive))} still there")
        if missed:
            words.append(f"{','.join(missed)} had ended before")
        return Evidence(bool(dead) and not (up or alive or missed), "; ".join(words) or "nobody was hit")

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        nodes = [world.cluster.nodes[name] for name in self.nodes]
        clients = [world.clients[name] for name in self.clients]
        do_all([node.start for node in nodes] + [client.restart for client in clients])
        up = [n.name for n in nodes if await_that(n.is_up, BACK_WITHIN_S)]
        alive = [c.name for c in clients if await_that(c.is_alive, BACK_WITHIN_S)]
        absent = [name for name in (*self.nodes, *self.clients) if name not in (*up, *alive)]
        words = [f"{','.join(up)} answering"] if up else []
        if alive:
            words.append(f"{','.join(alive)} running")
        if absent:
            words.append(f"{','.join(absent)} not back")
        return Evidence(not absent, "; ".join(words))


class _CrashNemesis:
    name = "crash"
    help = (
        "SIGKILL and restart: interval=4s, restart-delay=0|2s|1.2ttl (1.2ttl), "
        "targets=mixed|one|minority|majority|all|clients"
    )
    options = CrashOptions
    faults = Crash

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Crash, int]:
        assert isinstance(options, CrashOptions)
        down_ms = round(options.restart_delay.ms(topology.ttl_ms))
        mixture = weighted(rng, {"one": 4, "minority": 3, "majority": 1, "clients": 2})
        match mixture if options.targets == "mixed" else options.targets:
            case "one":
                count = 1
            case "minority":
                count = max(1, spare(topology))
            case "majority":
                count = topology.majority
            case "all":
                count = len(topology.nodes)
            case _:
                victims = 1 + below(rng, max(1, len(topology.clients) // 3))
                return Crash(clients=some(rng, topology.clients, victims)), down_ms
        return Crash(nodes=some(rng, topology.nodes, count)), down_ms


NEMESIS = _CrashNemesis()

"""Crashes: SIGKILL of nodes, or of clients, and a restart after a while.

A server loses its memory but not its files: the kernel outlives the process, and keeps even what was never fsynced.
A killed client leaves its key behind until it expires. One that dies at a step of its lock leaves that step half done:
a key without its expiry, a place in a queue, a release of which no waiter is told. Few are there at a moment drawn by
chance, so such a client is stopped first, as a pause does it.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar, Literal, Self

import msgspec

from cluster.polling import becomes_true
from fencepost.history import HowDown, Impact
from fencepost.units import Duration
from nemesis.base import Evidence, FaultClass, Step, Targets, Topology, World
from nemesis.do_all import do_all, named
from nemesis.names import Names
from nemesis.node_down import BACK_WITHIN_S, LONGEST_LEASE, NodeDown, drawn_nodes
from nemesis.pause import Pause, aimed_pause
from nemesis.random_draws import a_few, weighted


class CrashOptions(msgspec.Struct, frozen=True):
    """As `NodeDownOptions`, with clients as targets too.

    `mixed`: of ten crashes four of one node, three of a minority, one of a majority, two of clients.
    """

    interval: Duration = Duration(4_000)
    restart_delay: Duration = LONGEST_LEASE
    targets: Names | Literal["mixed", "one", "minority", "majority", "all", "clients", Step] = "mixed"


class Crash(NodeDown, frozen=True):
    """One crash, of `nodes`, of `clients`, or of the clients that `caught` stops."""

    clients: tuple[str, ...] = ()
    caught: Pause | msgspec.UnsetType = msgspec.UNSET

    how: ClassVar[HowDown] = "kill"

    @property
    def targets(self) -> Targets:
        return self.caught.targets if self.caught else super().targets

    def only(self, targets: Targets) -> Self:
        if not self.caught:
            return super().only(targets)
        return msgspec.structs.replace(self, caught=self.caught.only(targets))

    @property
    def fault_class(self) -> FaultClass:
        return "client killed" if self.clients or self.caught else "node killed"

    def describe(self) -> str:
        if self.caught:
            return self.caught.describe_as(self.how)
        return f"{self.how} {','.join(self.nodes + self.clients)}"

    def inject(self, world: World, owner: str) -> Impact:
        """Kills what lives."""
        if self.caught:
            return _kill(world, self.caught.inject(world, owner))
        impact = super().inject(world, owner)
        clients = tuple(name for name in self.clients if world.clients[name].is_alive())
        for name in clients:
            world.clients[name].kill()
        return msgspec.structs.replace(impact, killed_clients=clients)

    def probe(self, world: World, impact: Impact) -> Evidence:
        if self.caught and not impact.killed_clients:
            return self.caught.probe(world, impact)  # which says for how long none was there
        nodes = super().probe(world, impact)
        if not self._clients(impact):
            return nodes
        alive = [name for name in self._clients(impact) if world.clients[name].is_alive()]
        missed = [name for name in self.clients if name not in impact.killed_clients]
        dead = [name for name in impact.killed_clients if name not in alive]
        words = [nodes.seen] if self.nodes else []
        words += named((dead, "dead"), (alive, "still there"), (missed, "had ended before"))
        holds = bool(dead) and not (alive or missed) and (nodes.holds or not self.nodes)
        return Evidence(holds, "; ".join(words))

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        clients = [world.clients[name] for name in self._clients(impact)]
        if self.caught:  # and if it did not come to the kill
            self.caught.heal(world, owner, impact)
        healed: list[Evidence] = []
        do_all([lambda: healed.append(super(Crash, self).heal(world, owner, impact)), *(c.restart for c in clients)])
        alive = [c.name for c in clients if becomes_true(c.is_alive, within_s=BACK_WITHIN_S)]
        absent = [client.name for client in clients if client.name not in alive]
        words = [evidence.seen for evidence in healed if evidence.seen]
        words += named((alive, "running"), (absent, "not back"))
        return Evidence(not absent and all(evidence.holds for evidence in healed), "; ".join(words))

    def _clients(self, impact: Impact) -> tuple[str, ...]:
        """Whom it was to kill."""
        return impact.killed_clients if self.caught else self.clients


def _kill(world: World, stopped: Impact) -> Impact:
    """SIGKILL to the clients that a pause has stopped."""
    for name in stopped.paused_clients:
        world.clients[name].kill()
    return msgspec.structs.replace(stopped, paused_clients=(), killed_clients=stopped.paused_clients)


class _CrashNemesis:
    name = "crash"
    help = (
        "SIGKILL and restart: interval=4s, restart-delay=0|2s|1.2ttl (1.2ttl), "
        "targets=mixed|one|minority|majority|all|clients|inside|acquiring|extending|releasing|n4,n5 (inside to "
        "releasing: clients at that step)"
    )
    options = CrashOptions
    faults = Crash

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Crash, int]:
        assert isinstance(options, CrashOptions)
        down_ms = round(options.restart_delay.ms(topology.ttl_ms))
        mixture = weighted(rng, {"one": 4, "minority": 3, "majority": 1, "clients": 2})
        match mixture if options.targets == "mixed" else options.targets:
            case "clients":
                return Crash(clients=a_few(rng, topology.clients)), down_ms
            case "inside" | "acquiring" | "extending" | "releasing" as step:
                return Crash(caught=aimed_pause(rng, topology.clients, step)), down_ms
            case targets:
                return Crash(nodes=drawn_nodes(rng, targets, topology)), down_ms


NEMESIS = _CrashNemesis()

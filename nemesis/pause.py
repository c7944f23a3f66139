"""Pauses: SIGSTOP and SIGCONT, of clients (aimed at those inside a section, or acquiring, or not) and of nodes.

A client that is stopped inside a section and woken after its lease ran out is the classic way to lose an update: it
still believes that it holds the lock. No lock with an expiry can prevent that; only fencing can. One that is stopped
while it acquires may learn of its lease when that is over; its lock should have noticed, and the judge must not be
misled by stamps that were taken late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Literal

import msgspec

from cluster.waiting import becomes_true
from fencepost.history import Impact
from fencepost.units import Duration, DurationRange
from nemesis.base import Client, Evidence, Topology, World
from nemesis.partition_shapes import spare
from nemesis.random_draws import below, between, jittered, some, weighted
from nemesis.steps import do_all, in_service

CATCH_WITHIN_S = 1.0
"""How long to wait for somebody to be where the pause is aimed at."""
LOOK_EVERY_S = 0.000_5
SEEN_WITHIN_S = 0.3


class PauseOptions(msgspec.Struct, frozen=True):
    """`duration` is the mean; without it 1.2 to 2.5 TTL, so that a lease surely runs out.

    `mixed`: out of ten pauses seven of a client inside, one of clients anywhere, two of nodes.
    """

    interval: Duration = Duration(3_000)
    duration: Duration | None = None
    targets: Literal["mixed", "inside", "acquiring", "clients", "nodes"] = "mixed"


DEFAULT_DURATION = DurationRange(Duration(1.2, in_ttls=True), Duration(2.5, in_ttls=True))


class Pause(msgspec.Struct, frozen=True):
    """One pause: of `nodes`, or of `clients`, or, with `inside` or `acquiring`, of whichever one of `clients` is
    inside a section, or acquiring, at that very moment, tried in their order from the one at `first` on."""

    inside: bool = False
    acquiring: bool = False
    first: int = 0
    clients: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()

    @property
    def aimed(self) -> bool:
        """Whether the client is chosen at the moment of the pause."""
        return self.inside or self.acquiring

    def _is_there(self, client: Client) -> bool:
        return client.is_acquiring() if self.acquiring else client.is_inside()

    def describe(self) -> str:
        if self.aimed:
            return "pause a client inside a section" if self.inside else "pause a client that is acquiring"
        return f"pause {','.join(self.clients + self.nodes)}"

    def inject(self, world: World, owner: str) -> Impact:
        if self.aimed:
            first = self.first % len(self.clients)
            order = self.clients[first:] + self.clients[:first]
            return Impact(paused_clients=_catch([world.clients[name] for name in order], self._is_there))
        clients = tuple(name for name in self.clients if _can_be_paused(world.clients[name]))
        for name in clients:
            world.clients[name].pause()
        nodes = in_service(world, self.nodes)
        for name in nodes:
            world.cluster.nodes[name].pause()
        return Impact(paused_clients=clients, nodes=nodes)

    def probe(self, world: World, impact: Impact) -> Evidence:
        """Clients are stopped (and where the pause was aimed at, if it was), nodes do not answer."""
        where = "acquiring" if self.acquiring else "inside"
        if self.aimed and not impact.paused_clients:
            return Evidence(False, f"nobody was caught {where} for {CATCH_WITHIN_S * 1000:.0f} ms")
        stopped = [name for name in impact.paused_clients if world.clients[name].is_paused()]
        there = [name for name in stopped if self._is_there(world.clients[name])]
        silent = [name for name in impact.nodes if not world.cluster.nodes[name].is_up(100)]
        missed = [] if self.aimed else [n for n in self.clients + self.nodes if n not in (*stopped, *silent)]
        words = []
        if stopped:
            words.append(f"{','.join(stopped)} stopped, {','.join(there) or 'nobody'} {where}")
        if silent:
            words.append(f"{','.join(silent)} silent")
        if missed:
            words.append(f"{','.join(missed)} not paused (down, or paused by another fault)")
        holds = bool(there) if self.aimed else not missed
        return Evidence(holds, "; ".join(words) or "the client runs")

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        names = impact.paused_clients if self.aimed else self.clients
        clients = [world.clients[name] for name in names]
        nodes = [world.cluster.nodes[name] for name in self.nodes]
        do_all([client.resume for client in clients] + [node.resume for node in nodes])
        still = [c.name for c in clients if not becomes_true(partial(_runs, c), within_s=SEEN_WITHIN_S)]
        running = [c.name for c in clients if c.is_alive() and c.name not in still]
        gone = [c.name for c in clients if not c.is_alive()]
        answering = in_service(world, self.nodes)
        # `Node.resume` returns only when the node answers or when it is down, and no pause takes a node down.
        down = [name for name in self.nodes if name not in answering]
        words = [
            f"{','.join(who)} {what}"
            for who, what in (
                (running, "running"),
                (gone, "killed or ended meanwhile"),
                (still, "still stopped"),
                (answering, "answering"),
                (down, "down by another fault"),
            )
            if who
        ]
        return Evidence(not still, "; ".join(words) or "nobody had been paused")


def _runs(client: Client) -> bool:
    return not client.is_paused()


def _can_be_paused(client: Client) -> bool:
    return client.is_alive() and not client.is_paused()


def _catch(clients: Sequence[Client], is_there: Callable[[Client], bool]) -> tuple[str, ...]:
    """Stop one client that is where it was to be caught, in the order of preference. A client that slipped out before
    the signal hit it runs on, and the next one is tried. Empty if nobody was caught in time."""
    deadline = time.monotonic() + CATCH_WITHIN_S
    while True:
        for client in clients:
            if not is_there(client) or not _can_be_paused(client):
                continue
            caught = False
            try:
                client.pause()
                caught = is_there(client) and client.is_paused()
            finally:
                if not caught:
                    client.resume()
            if caught:
                return (client.name,)
        if time.monotonic() > deadline:
            return ()
        time.sleep(LOOK_EVERY_S)


class _PauseNemesis:
    name = "pause"
    help = (
        "SIGSTOP and SIGCONT: interval=3s, duration=2s (default 1.2 to 2.5 TTL), "
        "targets=mixed|inside|acquiring|clients|nodes (inside, acquiring: a client that is at that moment)"
    )
    options = PauseOptions
    faults = Pause

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Pause, int]:
        assert isinstance(options, PauseOptions)
        ttl_ms = topology.ttl_ms
        if options.duration is None:
            duration_ms = round(between(rng, *DEFAULT_DURATION.ms(ttl_ms)))
        else:
            duration_ms = jittered(rng, options.duration.ms(ttl_ms))
        mixture = weighted(rng, {"inside": 7, "clients": 1, "nodes": 2})
        match mixture if options.targets == "mixed" else options.targets:
            case "inside":
                first = below(rng, len(topology.clients))
                return Pause(inside=True, first=first, clients=topology.clients), duration_ms
            case "acquiring":
                first = below(rng, len(topology.clients))
                return Pause(acquiring=True, first=first, clients=topology.clients), duration_ms
            case "clients":
                count = 1 + below(rng, max(1, len(topology.clients) // 3))
                return Pause(clients=some(rng, topology.clients, count)), duration_ms
            case _:
                count = 1 + below(rng, max(1, spare(topology)))
                return Pause(nodes=some(rng, topology.nodes, count)), duration_ms


NEMESIS = _PauseNemesis()

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
from typing import Final, Literal

import msgspec

from cluster.address import LinkKey
from cluster.base import Cut
from cluster.polling import becomes_true
from fencepost.errors import UsageError
from fencepost.history import Impact
from fencepost.units import Duration, DurationRange
from nemesis.base import Client, Evidence, FaultClass, Needs, Step, TargetFields, Targets, Topology, World, hitting
from nemesis.do_all import do_all, in_service, named
from nemesis.links import heal_links
from nemesis.names import Names
from nemesis.partition_shapes import spare
from nemesis.pause_before_reply import LOOK_EVERY_S, REPLIES_LATE_MS, late_replies, stop_untold, stopped_at
from nemesis.pause_between_requests import are_reached, stop_between
from nemesis.random_draws import below, between, jittered, rotated, some, weighted

CATCH_WITHIN_S = 1.0
"""How long to wait for a client at the step that the pause is aimed at."""
MORE_WITHIN_S = 0.25
"""How long to wait for further clients when one was caught."""
RIVAL_WITHIN_TTLS = 0.5
"""How long a stopped client is not woken yet, because no other client is inside with its key."""
LEASE_WITHIN_TTLS = 2
"""The same, of a client that was stopped inside while another one asks for its key: some leases last for longer than
the TTL."""
_UNWANTED_S = 0.05
"""A client that is refused asks again within this time."""
_RIVAL_LOOK_EVERY_S = 0.002
SEEN_WITHIN_S = 0.3


class PauseOptions(msgspec.Struct, frozen=True):
    """`duration` is the mean; without it 1.2 to 2.5 TTL, so that a lease surely runs out.

    `mixed`: out of ten pauses seven of a client inside, one of clients anywhere, two of nodes. `nodes`: one, or as many
    as can be lost. Nodes may be named. `connection`: whether a client that is stopped at a step of its lock finds its
    connections closed when it wakes up.
    """

    interval: Duration = Duration(3_000)
    duration: Duration | None = None
    targets: Names | PauseTargets = "mixed"
    connection: Literal["kept", "lost"] = "kept"


PauseTargets = Literal[
    "mixed", "inside", "acquiring", "held-by-majority", "extending", "releasing", "clients", "one-node", "nodes"
]
_AFTER: Final = {0: 2, 1: 1, 2: 1}
"""How many more replies a client reads before it is stopped between two requests of a call."""
_OUTLASTS_LEASES: Final = DurationRange(Duration(1.2, in_ttls=True), Duration(2.5, in_ttls=True))


def drawn_duration_ms(rng: Random, mean: Duration | None, ttl_ms: int) -> int:
    """Around the mean; without one, longer than a lease."""
    if mean is None:
        return round(between(rng, *_OUTLASTS_LEASES.ms(ttl_ms)))
    return jittered(rng, mean.ms(ttl_ms))


class Pause(TargetFields, frozen=True):
    """One pause: of `nodes`, or of `clients`, or, with `inside`, `acquiring` or `at`, of whichever one of `clients` is
    there at that very moment, tried in their order from the one at `first` on. `held-by-majority`: of some of them that
    acquire, as soon as a majority of the nodes holds the value of one, before it is told. A client is soon done with
    extending or releasing, so replies to those that are inside are late at first. `most`: how many clients are caught
    at most, each at its own moment; unset: one. A step takes several requests, and one client is stopped at one of
    them; `after`: once it has read this many more replies (unset: at once). `connection`: `lost` if
    the connections of a stopped client are closed, once what was under way has reached it."""

    inside: bool = False
    acquiring: bool = False
    first: int = 0
    clients: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    at: Literal["extending", "releasing", "held-by-majority"] | msgspec.UnsetType = msgspec.UNSET
    most: int | msgspec.UnsetType = msgspec.UNSET
    after: int | msgspec.UnsetType = msgspec.UNSET
    connection: Literal["lost"] | msgspec.UnsetType = msgspec.UNSET

    @property
    def targets(self) -> Targets:
        return Targets(nodes=self.nodes, clients=self.clients, are_candidates=self.aimed_at is not None)

    @property
    def needs(self) -> Needs:
        return Needs(server=frozenset({"a list of keys"} if self.at == "held-by-majority" else ()))

    @property
    def aimed_at(self) -> Step | None:
        """Where the client is that is chosen at the moment of the pause; None: the pause names whom it hits."""
        if self.at == "held-by-majority":
            return "acquiring"
        if self.at is not msgspec.UNSET:
            return self.at
        return "inside" if self.inside else "acquiring" if self.acquiring else None

    @property
    def fault_class(self) -> FaultClass:
        return "node hung" if self.nodes else "client stopped"

    def describe(self) -> str:
        lost = "" if self.connection is msgspec.UNSET else " and close its connections"
        return self.describe_as("pause") + lost

    def describe_as(self, what: str) -> str:
        """Which clients or nodes it hits; `what`: the verb."""
        match self.aimed_at:
            case None:
                return f"{what} {','.join(self.clients + self.nodes)}"
            case "inside":
                return f"{what} a client inside a section"
            case _ if self.at == "held-by-majority":
                return f"{what} a client before it learns that a majority holds its value"
            case step if self.most is not msgspec.UNSET and self.most > 1:
                return f"{what} up to {self.most} clients that are {step}"
            case step:
                return f"{what} a client that is {step}"

    def inject(self, world: World, owner: str) -> Impact:
        impact = self._stop(world, owner)
        return impact if self.connection is msgspec.UNSET else self._disconnect(world, owner, impact)

    def _disconnect(self, world: World, owner: str, stopped: Impact) -> Impact:
        """Close the connections of the stopped clients when the replies that were late have reached them."""
        clients = [world.clients[name] for name in stopped.paused_clients]
        links = tuple((client.name, node) for client in clients for node in world.topology.nodes)
        impact = msgspec.structs.replace(stopped, cut_links=links)
        with hitting(impact):
            are_reached(world, clients)
            try:
                world.cluster.impair(links, owner, Cut("refuse", "both"), world.called_off)
            finally:
                world.cluster.restore(links, owner, world.called_off)
        return impact

    def _stop(self, world: World, owner: str) -> Impact:
        if self.aimed_at:
            candidates = [world.clients[name] for name in rotated(self.clients, self.first)]
            if self.at == "held-by-majority":
                return stop_untold(world, owner, candidates, CATCH_WITHIN_S)
            most = 1 if self.most is msgspec.UNSET else self.most
            if self.acquiring and self.after is not msgspec.UNSET:
                between = stop_between(world, owner, candidates, self.after, most, CATCH_WITHIN_S * 3 / 4)
                if between.paused_clients:
                    return between
                caught = _catch(world, candidates, "acquiring", most, CATCH_WITHIN_S / 4)
                return Impact(slow_links=between.slow_links, paused_clients=caught)
            if self.at is msgspec.UNSET:
                return Impact(paused_clients=_catch(world, candidates, self.aimed_at, most, CATCH_WITHIN_S))
            within_s, links = self._within_s(world), tuple[LinkKey, ...]()
            if inside := _await_inside(world, candidates, within_s / 4):
                with late_replies(world, owner, inside) as links:
                    after = 0 if self.after is msgspec.UNSET else self.after
                    caught = _catch(world, inside, self.at, most, within_s / 2, after)
                if caught:
                    return Impact(slow_links=links, paused_clients=caught)
            return Impact(slow_links=links, paused_clients=_catch(world, candidates, self.at, most, within_s / 4))
        clients = tuple(name for name in self.clients if _can_be_paused(world.clients[name]))
        for name in clients:
            world.clients[name].pause()
        impact = Impact(paused_clients=clients, nodes=in_service(world, self.nodes))
        with hitting(impact):
            for name in impact.nodes:
                world.cluster.nodes[name].pause()
        return impact

    def probe(self, world: World, impact: Impact) -> Evidence:
        """Clients are stopped (and where the pause was aimed at, if it was; by an earlier pause, if this one found none
        there), nodes do not answer."""
        where = self.aimed_at or "inside"
        if self.aimed_at and not impact.paused_clients:
            if self.at != "held-by-majority" and (already := self._stopped_already(world)):
                return Evidence(True, f"{','.join(already)} stopped already, {where}")
            what = "untold that a majority held its value" if self.at == "held-by-majority" else where
            return Evidence(False, f"no client was caught {what} for {self._within_s(world) * 1000:.0f} ms")
        stopped = [name for name in impact.paused_clients if world.clients[name].is_paused()]
        there = [name for name in stopped if world.clients[name].is_at(where)]
        silent = [name for name in impact.nodes if not world.cluster.nodes[name].is_up(100)]
        missed = [] if self.aimed_at else [n for n in self.clients + self.nodes if n not in (*stopped, *silent)]
        words = named((stopped, f"stopped, {','.join(there) or 'none'} {where}"))
        words += ["their connections closed"] if impact.cut_links else []
        words += named((silent, "silent"), (missed, "not paused (down, or paused by another fault)"))
        holds = bool(there) if self.aimed_at else not missed
        return Evidence(holds, "; ".join(words) or "the client runs")

    def _stopped_already(self, world: World) -> list[str]:
        """Those whom a pause that is not over keeps where this one would have caught them: others may then get there
        only when it is over."""
        clients = (world.clients[name] for name in self.clients)
        return [client.name for client in clients if client.is_paused() and client.is_at(self.aimed_at or "inside")]

    def _within_s(self, world: World) -> float:
        """For how long a client is awaited. Where leases are long, few extend or release in a second."""
        lease_s = world.topology.ttl_ms / 1000
        return max(CATCH_WITHIN_S, lease_s) if self.at in ("extending", "releasing") else CATCH_WITHIN_S

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        """Wakes clients that were stopped at a step which they have yet to finish, if that is soon possible, at the
        worst moment for it: when another client is inside with the same key."""
        clients = [world.clients[name] for name in impact.paused_clients]
        if self.aimed_at and self.connection is msgspec.UNSET:
            _wake_beside_rivals(world, clients, self.aimed_at)
        nodes = [world.cluster.nodes[name] for name in impact.nodes]
        ends: list[Callable[[], None]] = [client.resume for client in clients] + [node.resume for node in nodes]
        if impact.slow_links:  # they are healed already, unless that took too long
            ends.append(partial(world.cluster.restore, impact.slow_links, owner, world.called_off))
        do_all(ends)
        links = heal_links(world, owner, impact.cut_links) if impact.cut_links else Evidence(True, "")
        still = [c.name for c in clients if not becomes_true(partial(_runs, c), within_s=SEEN_WITHIN_S)]
        running = [c.name for c in clients if c.is_alive() and c.name not in still]
        gone = [c.name for c in clients if not c.is_alive()]
        answering = in_service(world, impact.nodes)
        # `Node.resume` returns only when the node answers, or when this pause is not what keeps it from answering.
        down = [name for name in impact.nodes if name not in answering]
        words = named(
            (running, "running"),
            (gone, "killed or ended meanwhile"),
            (still, "still stopped"),
            (answering, "answering"),
            (down, "out of service for another reason"),
        )
        if links.seen:
            words.append(links.seen)
        return Evidence(links.holds and not still, "; ".join(words) or "nothing had been paused")


def _wake_beside_rivals(world: World, stopped: Sequence[Client], step: Step) -> None:
    """Wake each of the stopped clients as soon as another client is inside with its key. Those that meet none in time
    stay stopped. One that is inside itself is woken, too, when no other client asks for its key any more."""
    others = [client for client in world.clients.values() if client not in stopped]
    waiting, began = list(stopped), time.monotonic()
    within_s = (LEASE_WITHIN_TTLS if step == "inside" else RIVAL_WITHIN_TTLS) * world.topology.ttl_ms / 1000
    wanted_at = dict.fromkeys((client.name for client in stopped), began)
    while waiting and (now := time.monotonic()) < began + within_s and not world.called_off():
        in_use = set[int]().union(*(client.keys_at("inside") for client in others))
        wanted = set[int]().union(*(client.keys_at("acquiring") for client in others if not client.is_paused()))
        for client in list(waiting):
            if client.keys_at(step) & wanted:
                wanted_at[client.name] = now
            is_unwanted = step == "inside" and now - wanted_at[client.name] > _UNWANTED_S
            if client.keys_at(step) & in_use or is_unwanted:
                client.resume()
                waiting.remove(client)
        world.sleep(_RIVAL_LOOK_EVERY_S)


def _runs(client: Client) -> bool:
    return not client.is_paused()


def _can_be_paused(client: Client) -> bool:
    return client.is_alive() and not client.is_paused()


def _await_inside(world: World, clients: Sequence[Client], within_s: float) -> list[Client]:
    """The clients that are inside, as soon as one is; none if that takes too long."""
    deadline = time.monotonic() + within_s
    while not (inside := [client for client in clients if client.is_at("inside")]) and time.monotonic() < deadline:
        world.sleep(LOOK_EVERY_S)
    return inside


def _catch(
    world: World, clients: Sequence[Client], step: Step, most: int, within_s: float, after: int = 0
) -> tuple[str, ...]:
    """Stop up to `most` clients that are where they were to be caught, in the order of preference. A client that
    slipped out before the signal hit it runs on, and the next one is tried. Empty if none was caught in time. `after`:
    this many late replies are read first, by the first client or, if its step has fewer requests, the next ones."""
    deadline = time.monotonic() + within_s
    caught: list[Client] = []
    try:
        while True:
            for client in clients:
                if after and client.is_at(step):
                    world.sleep(after * REPLIES_LATE_MS / 1000)
                    after -= not client.is_at(step)
                if stopped_at(client, step):
                    caught.append(client)
                    deadline = min(deadline, time.monotonic() + MORE_WITHIN_S)
                if len(caught) == most:
                    return tuple(client.name for client in caught)
            if time.monotonic() > deadline:
                return tuple(client.name for client in caught)
            world.sleep(LOOK_EVERY_S)
    except BaseException:
        do_all(client.resume for client in caught)
        raise


def _most(rng: Random, clients: Sequence[str]) -> int:
    """From one to a third of the clients."""
    return 1 + below(rng, max(1, len(clients) // 3))


def aimed_pause(rng: Random, clients: tuple[str, ...], step: Step) -> Pause:
    """A pause of those of the clients that are at this step."""
    first = below(rng, len(clients))
    match step:
        case "inside":
            return Pause(inside=True, first=first, clients=clients)
        case "acquiring":
            most, after = _most(rng, clients), weighted(rng, _AFTER)
            return Pause(acquiring=True, first=first, most=most, after=after, clients=clients)
        case at:
            return Pause(
                at=at, first=first, most=max(1, len(clients) // 3), after=weighted(rng, _AFTER), clients=clients
            )


class _PauseNemesis:
    name = "pause"
    help = (
        "SIGSTOP and SIGCONT: interval=3s, duration=2s (default 1.2 to 2.5 TTL), "
        "targets=mixed|inside|acquiring|held-by-majority|extending|releasing|clients|one-node|nodes|n4,n5 (inside to "
        "releasing: clients at that step; held-by-majority: a client whose grant is not reported to it yet), "
        "connection=kept|lost (kept; lost: those stopped acquiring, extending or releasing lose their connections)"
    )
    options = PauseOptions
    faults = Pause

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Pause, int]:
        assert isinstance(options, PauseOptions)
        ttl_ms, clients = topology.ttl_ms, topology.clients
        duration_ms = drawn_duration_ms(rng, options.duration, ttl_ms)
        mixture = weighted(rng, {"inside": 7, "clients": 1, "nodes": 2})
        connection = msgspec.UNSET if options.connection == "kept" else options.connection
        if connection and options.targets not in ("acquiring", "extending", "releasing"):
            raise UsageError("pause:connection=lost needs targets=acquiring, extending or releasing")
        if isinstance(options.targets, Names):
            return Pause(nodes=options.targets.of(topology.nodes)), duration_ms
        match mixture if options.targets == "mixed" else options.targets:
            case "clients":
                return Pause(clients=some(rng, clients, _most(rng, clients))), duration_ms
            case "nodes":
                count = 1 + below(rng, max(1, spare(topology)))
                return Pause(nodes=some(rng, topology.nodes, count)), duration_ms
            case "one-node":
                return Pause(nodes=some(rng, topology.nodes, 1)), duration_ms
            case "inside" | "acquiring" | "extending" | "releasing" as step:
                return msgspec.structs.replace(aimed_pause(rng, clients, step), connection=connection), duration_ms
            case _:
                return Pause(at="held-by-majority", first=below(rng, len(clients)), clients=clients), duration_ms


NEMESIS = _PauseNemesis()

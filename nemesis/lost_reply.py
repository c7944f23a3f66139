"""A reply is lost once: the node did what a client asked for, and the connection is closed before the client learns it.

A library that asks again then meets what it did itself: SET NX finds its own key, a script runs twice, a count goes up
twice. A link that is cut for longer does not show this, because the second request fails as well. So the connection is
closed once, with the reply in it, and the next one works.

A reply is on its way for a fraction of a millisecond. So it is stretched: replies to the client are late by less than
most locks wait for a node, until the client is at the step aimed at. Then its connections are closed, which loses the
late replies; a moment later the links are whole again.

(A toxic that is added to a connection lets through what the ones before it hold back, so no `reset_peer` is used.)
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Final, Literal

import msgspec

from cluster.base import Cut, Delay
from cluster.server import KeyReader
from fencepost.history import Impact
from fencepost.units import Duration
from nemesis.base import Evidence, FaultClass, TargetFields, Targets, Topology, World, hitting
from nemesis.links import LinkName, heal_links
from nemesis.pause_before_reply import LOOK_EVERY_S, REPLIES_LATE_MS
from nemesis.quorum_loss import Held, holders_of
from nemesis.random_draws import below, one_of, rotated, some

CATCH_WITHIN_S = 1.0
"""How long to wait for a client at the step."""
FAULT_LASTS_MS: Final = 20
"""What is left to heal is what took too long."""
LostAt = Literal["acquiring", "extending", "releasing"]
_AIMS: Final[tuple[LostAt, ...]] = ("acquiring", "releasing")
"""What every client does; few loads extend."""


class LostReplyOptions(msgspec.Struct, frozen=True):
    """`at`: the step whose reply is lost; `any`: acquiring or releasing, drawn for each fault. `nodes`: whose replies
    are lost, `some` or `all`."""

    interval: Duration = Duration(2_000)
    at: Literal["any", "acquiring", "extending", "releasing"] = "any"
    nodes: Literal["some", "all"] = "some"


class LostReply(TargetFields, frozen=True):
    """The replies of `nodes` that are under way to one of `clients`: to the first one that comes to the step, in their
    order from the one at `first` on. While clients acquire it is not known whose request did its work, so all
    of them lose what is under way."""

    at: LostAt
    clients: tuple[str, ...]
    nodes: tuple[str, ...]
    first: int = 0

    @property
    def targets(self) -> Targets:
        return Targets(clients=self.clients, are_candidates=True)

    def only(self, targets: Targets) -> LostReply:
        return msgspec.structs.replace(self, clients=targets.clients)

    @property
    def fault_class(self) -> FaultClass:
        return "reply lost once"

    def describe(self) -> str:
        names = ",".join(self.nodes)
        return f"close the connections of a client that is {self.at} while replies of {names} are under way to it"

    def inject(self, world: World, owner: str) -> Impact:
        links, cut = self._links(self.clients), self._links(())
        with hitting(Impact(cut_links=links)), _reader(world) as reader:
            try:
                world.cluster.impair(links, owner, Delay(REPLIES_LATE_MS, 0, "from-node"), world.called_off)
                if names := self._await_request(world, reader):
                    cut = self._links(names)
                    world.cluster.impair(cut, owner, Cut("refuse", "both"), world.called_off)
            finally:
                world.cluster.restore(links, owner, world.called_off)
        return Impact(cut_links=cut, slow_links=links)

    def _await_request(self, world: World, reader: KeyReader | None) -> tuple[str, ...]:
        """The clients that are at the step when a request of one of them has done its work, or just comes; none if it
        does not happen in time. An acquire has done its work when a node holds a value of which no client was told. A
        lock that extends its lease by itself does so when a client is inside; that has done its work when a key
        has more time left than before, and the value that it had."""
        deadline = time.monotonic() + CATCH_WITHIN_S
        order = rotated(self.clients, self.first)
        known, before = _held(reader), {name for name in order if world.clients[name].is_at(self.at)}
        left = _left(reader) if self.at == "extending" else {}
        while time.monotonic() < deadline and not world.called_off():
            there = tuple(name for name in order if world.clients[name].is_at(self.at))
            if reader is not None and self.at == "acquiring":
                held = _held(reader)
                inside = sum(client.is_at("inside") for client in world.clients.values())
                if there and held - known and inside < len(held):
                    return there
                known = held
            elif new := tuple(name for name in there if name not in before):
                return new[:1]
            elif self.at == "extending":
                holders = tuple(name for name in order if world.clients[name].is_at("inside"))
                now, held = _left(reader), _held(reader)
                prolonged = {key for (node, key), ms in now.items() if ms > left.get((node, key), math.inf)}
                if holders and any(key in prolonged for key, _ in known & held):
                    return holders
                known, left = held, now
            before &= set(there)
            world.sleep(LOOK_EVERY_S)
        return ()

    def _links(self, clients: Iterable[str]) -> tuple[LinkName, ...]:
        return tuple((client, node) for client in clients for node in self.nodes)

    def probe(self, world: World, impact: Impact) -> Evidence:
        if not impact.cut_links:
            return Evidence(False, f"no client waited for a reply while {self.at}, for {CATCH_WITHIN_S * 1000:.0f} ms")
        names = ",".join(dict.fromkeys(client for client, _ in impact.cut_links))
        return Evidence(True, f"{names} lost its connections to {','.join(self.nodes)} while {self.at}")

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        return heal_links(world, owner, self._links(self.clients))


def _reader(world: World) -> AbstractContextManager[KeyReader | None]:
    return world.cluster.key_reader() or nullcontext()


def _left(reader: KeyReader | None) -> dict[tuple[str, str], int]:
    lifetimes = reader.lifetimes() if reader is not None else {}
    return {(node, key): ms for node, keys in lifetimes.items() for key, ms in keys.items()}


def _held(reader: KeyReader | None) -> set[Held]:
    return set(holders_of(reader.look())) if reader is not None else set()


class _LostReplyNemesis:
    name = "lost-reply"
    help = (
        "closes a connection while the reply to a request is on its way, once: interval=2s, "
        "at=any|acquiring|extending|releasing (any: not extending), nodes=some|all (some)"
    )
    options = LostReplyOptions
    faults = LostReply

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[LostReply, int]:
        assert isinstance(options, LostReplyOptions)
        at = one_of(rng, _AIMS) if options.at == "any" else options.at
        count = 1 + below(rng, len(topology.nodes))
        nodes = topology.nodes if options.nodes == "all" else some(rng, topology.nodes, count)
        return LostReply(at, topology.clients, nodes, below(rng, len(topology.clients))), FAULT_LASTS_MS


NEMESIS = _LostReplyNemesis()

"""The hunt: waits until the loss of one node's memory could break the lock, and takes the node down at that moment.

Random crashes find a rare event in hours. The hunt arranges the links so that every lock is held by exactly a majority
of the nodes: half of the clients reach one majority, the others another one, and the two meet in as few nodes as
possible. These are the nodes that keep the two sides apart. It watches, read-only and straight from the nodes, who
holds what, and as soon as a lock was granted it takes those nodes down. If they come back without it, the other side
can get a majority of nodes that know of no lock, while the first client is still inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Literal

import msgspec

from cluster.server import KeyReader
from fencepost.errors import InternalError, UsageError
from fencepost.history import Impact
from fencepost.units import Duration
from nemesis.base import Evidence, Needs, TargetFields, Topology, Trigger, World
from nemesis.crash import Crash
from nemesis.links import LinkName
from nemesis.node_down import NodeDown
from nemesis.partition import Partition
from nemesis.partition_shapes import spare
from nemesis.power import PowerCut
from nemesis.quorum_loss import Held, losing_quorum
from nemesis.random_draws import shuffled
from nemesis.shutdown import Shutdown

How = Literal["crash", "power", "shutdown"]
_FAULTS: dict[How, type[NodeDown]] = {"crash": Crash, "power": PowerCut, "shutdown": Shutdown}
_WHOLE_LOAD_MS = 24 * 3_600_000


class HuntOptions(msgspec.Struct, frozen=True):
    """`interval`: the least time from a node's return to the next outage. `strikes`: at most this many outages; 0 is no
    limit."""

    interval: Duration = Duration(500)
    restart_delay: Duration = Duration(0)
    how: How = "crash"
    strikes: int = 0


class Hunt(TargetFields, frozen=True):
    """A hunt over the whole load. `nodes`: it takes these down; `links` are cut while it lasts."""

    how: How
    nodes: tuple[str, ...]
    links: tuple[LinkName, ...]
    restart_delay_ms: int
    interval_ms: int
    strikes: int = 0

    @property
    def needs(self) -> Needs:
        of_outage = _FAULTS[self.how]().needs
        return of_outage._replace(server=of_outage.server | {"a list of keys"})

    def describe(self) -> str:
        return f"hunt ({self.how}): watching for locks that depend on {','.join(self.nodes)}"

    def inject(self, world: World, owner: str) -> Impact:
        """Nothing itself: what it asks for is injected as separate faults."""
        return Impact()

    def probe(self, world: World, impact: Impact) -> Evidence:
        """Whether the nodes can be watched."""
        with _key_reader(world) as watch:
            seen = watch.look(timeout_ms=200)
        return Evidence(bool(seen), f"{len(seen)} of {len(world.topology.nodes)} nodes can be watched")

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        return Evidence(True, "watching no more")

    def observe(self, world: World) -> HuntObserver:
        return HuntObserver(self, world)


class HuntObserver:
    """`nemesis.base.Observer` of a hunt: first the links, then an outage at every opportunity.

    An opportunity is a lock that was *just* granted: most of the holder's section is still ahead, and what is synced
    once a second has most likely not been synced yet. A lock that was there at the previous look is left alone.
    """

    def __init__(self, hunt: Hunt, world: World) -> None:
        self._hunt = hunt
        self._majority = world.topology.majority
        self._keys = _key_reader(world)
        self._known: frozenset[Held] | None = None
        self._arranged = False
        self._strikes = 0
        self._rests_until_ms = 0.0

    def look(self, now_ms: float) -> Sequence[Trigger]:
        hunt = self._hunt
        if not self._arranged:
            self._arranged = True
            return [Trigger("partition", Partition("two majorities", "refuse", "both", hunt.links), None)]
        if now_ms < self._rests_until_ms or (hunt.strikes and self._strikes >= hunt.strikes):
            return ()
        locks = losing_quorum(self._keys.look(), hunt.nodes, self._majority)
        known, self._known = self._known, locks
        if known is None or locks <= known:
            return ()
        self._strikes += 1
        self._known = None
        self._rests_until_ms = now_ms + hunt.restart_delay_ms + hunt.interval_ms
        return [Trigger(hunt.how, _FAULTS[hunt.how](nodes=hunt.nodes), hunt.restart_delay_ms)]

    def close(self) -> None:
        self._keys.close()


def _key_reader(world: World) -> KeyReader:
    reader = world.cluster.key_reader()
    if reader is None:
        raise InternalError("the nodes' server cannot list its keys, which should have been refused before the run")
    return reader


class _HuntNemesis:
    name = "hunt"
    help = (
        "waits for a lock that exactly a majority holds and takes a node of it down: how=crash|power|shutdown, "
        "restart-delay=0|2s|1.2ttl (0), interval=500ms, strikes=0 (no limit); needs a --hold of some 100 ms"
    )
    options = HuntOptions
    faults = Hunt

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Hunt, int]:
        assert isinstance(options, HuntOptions)
        if len(topology.clients) < 2 or len(topology.nodes) < 3:
            raise UsageError(
                f"hunt needs at least 2 clients and 3 nodes, there are {len(topology.clients)} and "
                f"{len(topology.nodes)}; raise --clients or --nodes"
            )
        nodes, clients = shuffled(rng, topology.nodes), shuffled(rng, topology.clients)
        least, half = spare(topology), len(clients) // 2
        lost = dict.fromkeys(clients[:half], nodes[:least]) | dict.fromkeys(clients[half:], nodes[least : 2 * least])
        hunt = Hunt(
            how=options.how,
            nodes=tuple(name for name in topology.nodes if name in nodes[2 * least :]),
            links=tuple((c, n) for c in topology.clients for n in topology.nodes if n in lost[c]),
            restart_delay_ms=round(options.restart_delay.ms(topology.ttl_ms)),
            interval_ms=round(options.interval.ms(topology.ttl_ms)),
            strikes=options.strikes,
        )
        return hunt, _WHOLE_LOAD_MS


NEMESIS = _HuntNemesis()

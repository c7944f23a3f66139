"""Shapes of partitions: which (client, node) links to cut. Jepsen calls this a *grudge*.

Jepsen's grudges (`jepsen.nemesis`) cut nodes from each other. Lock nodes never talk to each other, only clients talk to
nodes, so here a grudge is a set of (client, node) pairs, and the clients are divided as well as the nodes. Having a
link for every pair also allows shapes that a node-to-node partition cannot make: the last four.
`docs/nemeses.md` says how each of Jepsen's shapes maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from nemesis.base import Topology
from nemesis.random_draws import below, one_of, shuffled, some

Grudge = tuple[tuple[str, str], ...]
"""The links to cut, in the order of the topology, each once, never empty."""


@dataclass(frozen=True, slots=True)
class Shape:
    """`cut(rng, topology)` gives, for each client, the nodes that it loses; it needs `min_nodes` nodes."""

    name: str
    min_nodes: int
    cut: Callable[[Random, Topology], dict[str, set[str]]]

    def draw(self, rng: Random, topology: Topology) -> Grudge:
        lost = self.cut(rng, topology)
        return tuple((c, n) for c in topology.clients for n in topology.nodes if n in lost.get(c, ()))


def _from_all_clients(topology: Topology, nodes: Iterable[str]) -> dict[str, set[str]]:
    lost = set(nodes)
    return dict.fromkeys(topology.clients, lost)


def spare(topology: Topology) -> int:
    """How many nodes can be lost while a majority is left."""
    return len(topology.nodes) - topology.majority


def _bisect(items: Sequence[str]) -> tuple[set[str], set[str]]:
    """Two halves, the smaller one first."""
    middle = len(items) // 2
    return set(items[:middle]), set(items[middle:])


def _one_node(rng: Random, topology: Topology) -> dict[str, set[str]]:
    return _from_all_clients(topology, [one_of(rng, topology.nodes)])


def _minority_third(rng: Random, topology: Topology) -> dict[str, set[str]]:
    return _from_all_clients(topology, some(rng, topology.nodes, (len(topology.nodes) - 1) // 3))


def _minority(rng: Random, topology: Topology) -> dict[str, set[str]]:
    return _from_all_clients(topology, some(rng, topology.nodes, spare(topology)))


def _majority(rng: Random, topology: Topology) -> dict[str, set[str]]:
    return _from_all_clients(topology, some(rng, topology.nodes, topology.majority))


def _halves(rng: Random, topology: Topology) -> dict[str, set[str]]:
    small, large = _bisect(shuffled(rng, topology.nodes))
    return _two_groups(rng, topology, large, small)


def _bridge(rng: Random, topology: Topology) -> dict[str, set[str]]:
    nodes = shuffled(rng, topology.nodes)
    small, large = _bisect(nodes)
    return _two_groups(rng, topology, large - {nodes[len(small)]}, small)


def _two_groups(rng: Random, topology: Topology, one_loses: set[str], other_loses: set[str]) -> dict[str, set[str]]:
    """Half of the clients lose the one set of nodes, the others lose the other."""
    one, other = _bisect(shuffled(rng, topology.clients))
    if below(rng, 2):
        one, other = other, one
    return dict.fromkeys(one, one_loses) | dict.fromkeys(other, other_loses)


def _ring(rng: Random, topology: Topology) -> dict[str, set[str]]:
    nodes = shuffled(rng, topology.nodes)
    n, majority = len(nodes), topology.majority
    return {
        client: {nodes[(place + i) % n] for i in range(majority, n)}
        for place, client in enumerate(shuffled(rng, topology.clients))
    }


def _overlapping_majorities(rng: Random, topology: Topology) -> dict[str, set[str]]:
    nodes = shuffled(rng, topology.nodes)
    return _two_groups(rng, topology, set(nodes[: spare(topology)]), set(nodes[topology.majority :]))


def _own_minorities(rng: Random, topology: Topology) -> dict[str, set[str]]:
    return {client: set(some(rng, topology.nodes, spare(topology))) for client in topology.clients}


def _some_links(rng: Random, topology: Topology) -> dict[str, set[str]]:
    links = [(client, node) for client in topology.clients for node in topology.nodes]
    quarters = 1 + below(rng, 3)
    lost: dict[str, set[str]] = {}
    for client, node in some(rng, links, max(1, len(links) * quarters // 4)):
        lost.setdefault(client, set()).add(node)
    return lost


def _one_client(rng: Random, topology: Topology) -> dict[str, set[str]]:
    return {one_of(rng, topology.clients): set(topology.nodes)}


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("one-node", 1, _one_node),
        Shape("minority-third", 4, _minority_third),
        Shape("minority", 3, _minority),
        Shape("halves", 2, _halves),
        Shape("majority", 1, _majority),
        Shape("ring", 3, _ring),
        Shape("bridge", 3, _bridge),
        Shape("some-links", 1, _some_links),
        Shape("overlapping-majorities", 3, _overlapping_majorities),
        Shape("one-client", 1, _one_client),
        Shape("own-minorities", 3, _own_minorities),
    )
}


def possible(topology: Topology) -> tuple[Shape, ...]:
    """The shapes that can be made with so many nodes, in a fixed order. Never empty."""
    return tuple(shape for shape in SHAPES.values() if shape.min_nodes <= len(topology.nodes))

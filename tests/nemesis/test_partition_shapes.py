"""Every shape cuts what its name promises, for every number of nodes and of clients."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from nemesis.base import Topology
from nemesis.partition_shapes import SHAPES, possible, spare
from tests.nemesis.fakes import topology

CLIENTS = (1, 2, 3, 7, 10)
SEEDS = range(12)


def grudges(name: str):
    """(topology, what each client still reaches) over all sizes that the shape can have."""
    shape = SHAPES[name]
    for nodes in range(shape.min_nodes, 10):
        for clients in CLIENTS:
            for seed in SEEDS:
                where = topology(clients, nodes)
                cut = set(shape.draw(Random(seed), where))
                yield where, {c: {n for n in where.nodes if (c, n) not in cut} for c in where.clients}


def lost(where: Topology, reached: dict[str, set[str]]) -> list[set[str]]:
    return [set(where.nodes) - seen for seen in reached.values()]


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_cuts_something_each_link_once_and_in_the_order_of_the_topology(name: str) -> None:
    shape = SHAPES[name]
    for nodes in range(shape.min_nodes, 10):
        for clients in CLIENTS:
            for seed in SEEDS:
                where = topology(clients, nodes)
                cut = shape.draw(Random(seed), where)
                every = [(c, n) for c in where.clients for n in where.nodes]
                assert cut
                assert list(cut) == [link for link in every if link in cut]
                assert cut == shape.draw(Random(seed), where)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("one-node", lambda w: 1),
        ("minority-third", lambda w: (len(w.nodes) - 1) // 3),
        ("minority", spare),
        ("majority", lambda w: w.majority),
    ],
)
def test_shapes_that_isolate_nodes_take_the_same_nodes_from_every_client(name: str, size) -> None:
    for where, reached in grudges(name):
        first, *rest = lost(where, reached)
        assert len(first) == size(where)
        assert all(other == first for other in rest)


@pytest.mark.parametrize("name", ["minority", "minority-third", "ring", "overlapping-majorities", "own-minorities"])
def test_these_shapes_leave_every_client_a_majority(name: str) -> None:
    for where, reached in grudges(name):
        assert all(len(seen) >= where.majority for seen in reached.values())


def test_a_majority_cut_off_leaves_nobody_a_majority() -> None:
    for where, reached in grudges("majority"):
        assert all(len(seen) < where.majority for seen in reached.values())


def test_halves_share_no_node_and_only_one_of_them_can_have_a_majority() -> None:
    for where, reached in grudges("halves"):
        sides = {frozenset(seen) for seen in reached.values()}
        assert len(sides) == min(2, len(where.clients))
        if len(sides) == 2:
            one, other = sides
            assert not one & other
            assert one | other == set(where.nodes)
            assert abs(len(one) - len(other)) <= 1


def test_the_sides_of_a_bridge_share_exactly_one_node() -> None:
    for where, reached in grudges("bridge"):
        sides = {frozenset(seen) for seen in reached.values()}
        if len(where.clients) > 1:
            one, other = sides
            assert len(one & other) == 1
            assert one | other == set(where.nodes)


def test_a_ring_shows_a_majority_to_each_client_and_no_two_the_same_while_there_are_enough() -> None:
    for where, reached in grudges("ring"):
        views = [frozenset(seen) for seen in reached.values()]
        assert all(len(view) == where.majority for view in views)
        assert len(set(views)) == min(len(where.clients), len(where.nodes))


def test_overlapping_majorities_lose_different_nodes_and_meet_in_the_middle() -> None:
    for where, reached in grudges("overlapping-majorities"):
        groups = {frozenset(seen) for seen in reached.values()}
        if len(where.clients) > 1:
            one, other = groups
            assert one & other
            assert not (set(where.nodes) - one) & (set(where.nodes) - other)


def test_own_minorities_differ_between_clients() -> None:
    where = topology(10, 5)
    draws = [SHAPES["own-minorities"].draw(Random(seed), where) for seed in SEEDS]
    views = [{tuple(n for d, n in cut if d == c) for c in where.clients} for cut in draws]
    assert all(len(view) > 1 for view in views)


def test_one_client_is_cut_from_everything_and_nobody_else_from_anything() -> None:
    for where, reached in grudges("one-client"):
        assert sorted(map(len, reached.values())) == [0] + [len(where.nodes)] * (len(where.clients) - 1)


def test_some_links_never_cut_all_where_there_is_more_than_one() -> None:
    for where, reached in grudges("some-links"):
        if len(where.nodes) * len(where.clients) > 1:
            assert any(reached.values())


def test_only_shapes_that_the_number_of_nodes_allows_are_possible() -> None:
    counts = [{shape.name for shape in possible(topology(3, nodes))} for nodes in range(1, 10)]
    assert counts[0] == {"one-node", "majority", "some-links", "one-client"}
    assert all(fewer <= more for fewer, more in pairwise(counts))
    assert counts[-1] == set(SHAPES)

"""The hunt strikes when the loss of a key could matter, and at no other time."""

from __future__ import annotations

from random import Random

import pytest

from cluster.server import Holdings
from fencepost.errors import UsageError
from nemesis.base import Adaptive
from nemesis.crash import Crash
from nemesis.hunt import NEMESIS, Hunt, HuntObserver, HuntOptions
from nemesis.partition import Partition
from nemesis.power import PowerCut
from nemesis.quorum_loss import losing_quorum
from nemesis.spec import parse_spec
from tests.nemesis.fakes import FakeWorld, topology

NODES = ("n1", "n2", "n3", "n4", "n5")


def holding(*nodes: str, key: str = "k1", value: bytes = b"v") -> Holdings:
    """What the nodes hold when these have the key, and the others nothing."""
    return {node: {key: value} if node in nodes else {} for node in NODES}


@pytest.mark.parametrize(
    ("holders", "going", "stake"),
    [
        (("n1", "n2", "n3"), ("n3",), True),
        (("n1", "n2", "n3"), ("n4",), False),
        (("n1", "n2", "n3", "n4"), ("n3",), False),
        (("n1", "n2", "n3", "n4"), ("n3", "n4"), True),
        (NODES, ("n3",), False),
        (("n1", "n2"), ("n2",), False),
    ],
)
def test_a_lock_loses_its_quorum_when_a_majority_holds_it_and_none_would_without_the_node(
    holders: tuple[str, ...], going: tuple[str, ...], stake: bool
) -> None:
    assert bool(losing_quorum(holding(*holders), going, majority=3)) == stake


def test_two_clients_that_hold_one_key_on_parts_of_the_nodes_hold_no_lock() -> None:
    held = holding("n1", "n2") | {node: {"k1": b"other"} for node in ("n3", "n4")}
    assert losing_quorum(held, ("n2",), majority=3) == frozenset()


class Scene:
    """A hunt for n3 whose eyes see what the test says."""

    def __init__(self, **options: int) -> None:
        self.sees: Holdings = holding()
        world = FakeWorld(topology(clients=2))
        world.cluster.holds = lambda: self.sees
        settings = {"restart_delay_ms": 0, "interval_ms": 500} | options
        hunt = Hunt(how="crash", nodes=("n3",), links=(("c1", "n1"),), **settings)
        self.watch: HuntObserver = hunt.observe(world.world)
        (self.first,) = self.watch.look(0)

    def strikes(self, now_ms: float, sees: Holdings) -> bool:
        self.sees = sees
        strikes = self.watch.look(now_ms)
        assert all(strike.fault == Crash(("n3",)) for strike in strikes)
        return bool(strikes)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_first_of_all_the_links_are_cut_for_as_long_as_the_hunt_lasts(scene: Scene) -> None:
    assert isinstance(scene.first.fault, Partition)
    assert scene.first.fault.links == (("c1", "n1"),)
    assert scene.first.duration_ms is None


def test_it_strikes_at_a_lock_that_exactly_a_majority_was_just_granted(scene: Scene) -> None:
    assert not scene.strikes(1, holding())
    assert not scene.strikes(5, holding("n2", "n3"))
    assert scene.strikes(9, holding("n1", "n2", "n3"))


def test_a_lock_held_on_all_five_nodes_is_no_opportunity(scene: Scene) -> None:
    assert not scene.strikes(1, holding())
    assert not scene.strikes(5, holding(*NODES))


def test_a_lock_that_does_not_need_the_node_is_no_opportunity(scene: Scene) -> None:
    assert not scene.strikes(1, holding())
    assert not scene.strikes(5, holding("n1", "n2", "n4"))


def test_a_lock_that_was_there_before_it_looked_is_left_alone_until_the_next_one_is_granted(scene: Scene) -> None:
    assert not scene.strikes(1, holding("n1", "n2", "n3"))
    assert not scene.strikes(5, holding("n1", "n2", "n3"))
    assert scene.strikes(9, holding("n3", "n4", "n5", value=b"next"))


def test_it_rests_between_two_strikes_for_the_interval_after_the_restart() -> None:
    scene = Scene(restart_delay_ms=200)
    assert not scene.strikes(1, holding())
    assert scene.strikes(10, holding("n1", "n2", "n3"))
    assert not scene.strikes(600, holding())
    assert not scene.strikes(709, holding("n1", "n2", "n3", value=b"2"))
    assert not scene.strikes(711, holding())
    assert scene.strikes(715, holding("n1", "n2", "n3", value=b"3"))


def test_it_strikes_at_most_as_often_as_it_was_told() -> None:
    scene = Scene(strikes=1)
    assert not scene.strikes(1, holding())
    assert scene.strikes(10, holding("n1", "n2", "n3"))
    assert not scene.strikes(1_000, holding())
    assert not scene.strikes(1_004, holding("n1", "n2", "n3", value=b"2"))


@pytest.mark.parametrize("count", [3, 4, 5, 6, 7])
def test_it_leaves_two_groups_of_clients_a_majority_each_that_meet_only_in_the_nodes_to_strike(count: int) -> None:
    where = topology(clients=5, nodes=count)
    hunt, _ = NEMESIS.draw(Random(1), where, HuntOptions())
    assert isinstance(hunt, Adaptive)
    seen = {client: {n for n in where.nodes if (client, n) not in hunt.links} for client in where.clients}
    views = {frozenset(view) for view in seen.values()}
    assert len(views) == 2
    one, other = views
    assert len(one) == len(other) == where.majority
    assert one & other == set(hunt.nodes)
    assert len(hunt.nodes) == (1 if count % 2 else 2)


def test_one_client_or_two_nodes_leave_nothing_to_hunt() -> None:
    for where in (topology(clients=1), topology(nodes=2)):
        with pytest.raises(UsageError, match="hunt needs at least 2 clients and 3 nodes"):
            NEMESIS.draw(Random(1), where, HuntOptions())


def test_only_a_hunt_by_power_cuts_needs_disks() -> None:
    for how, needed in (("crash", False), ("power", True), ("shutdown", False)):
        hunt, _ = NEMESIS.draw(Random(1), topology(), HuntOptions(how=how))  # type: ignore[arg-type]
        assert hunt.needs.disks == needed


def test_the_way_that_nodes_go_down_is_an_option() -> None:
    sees, world = holding(), FakeWorld(topology())
    world.cluster.holds = lambda: sees
    watch = Hunt("power", ("n3",), (), 700, 0).observe(world.world)
    watch.look(0)
    watch.look(1)
    sees = holding("n1", "n2", "n3")
    (strike,) = watch.look(2)
    assert (strike.nemesis, strike.fault, strike.duration_ms) == ("power", PowerCut(("n3",)), 700)


def test_a_number_of_strikes_is_a_whole_number() -> None:
    (chosen,) = parse_spec("hunt:strikes=3,how=shutdown").chosen
    assert chosen.options == HuntOptions(strikes=3, how="shutdown")
    for wrong in ("-1", "2.5", "many", "9999999999"):
        with pytest.raises(UsageError, match="whole number"):
            parse_spec(f"hunt:strikes={wrong}")

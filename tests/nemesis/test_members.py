"""Cuts between members of a group, and faults that are aimed by who leads."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace

import pytest

from cluster.server import Group
from cluster.servers.etcd import SERVER as ETCD
from cluster.servers.hazelcast import SERVER as HAZELCAST
from cluster.servers.redis import SERVER as REDIS
from fencepost.errors import UsageError
from fencepost.history import Impact
from fencepost.quorum import with_a_quorum
from nemesis.base import Targets
from nemesis.crash import Crash
from nemesis.elections import await_election, would_lose_group
from nemesis.leader import NEMESIS as LEADER
from nemesis.leader import Aimed
from nemesis.members import MEMBER_SHAPES, MembersCut, pairs_in_words
from nemesis.members import NEMESIS as MEMBERS
from nemesis.pause import Pause
from nemesis.schedule import check_server, draw_schedule, for_cluster, parse_spec
from tests.nemesis.fakes import FakeNode, FakeWorld, topology

THREE, FIVE = ("n1", "n2", "n3"), ("n1", "n2", "n3", "n4", "n5")


@pytest.mark.parametrize(
    ("shape", "members", "words", "served"),
    [
        ("alone", THREE, "n1 | n2; n1 | n3", {"n2", "n3"}),
        ("minority", FIVE, "n1 | n3; n1 | n4; n1 | n5; n2 | n3; n2 | n4; n2 | n5", {"n3", "n4", "n5"}),
        ("halves", THREE, "n1 | n2; n1 | n3", {"n2", "n3"}),
        ("deaf", THREE, "n1 does not hear n2; n1 does not hear n3", {"n2", "n3"}),
        ("mute", THREE, "n2 does not hear n1; n3 does not hear n1", {"n2", "n3"}),
        ("bridge", THREE, "n1 | n2", {"n3"}),
        ("bridge", FIVE, "n1 | n3; n1 | n4; n2 | n3; n2 | n4", {"n5"}),
    ],
)
def test_a_shape_leaves_these_members_certainly_with_a_quorum(
    shape: str, members: tuple[str, ...], words: str, served: set[str]
) -> None:
    pairs = MEMBER_SHAPES[shape](members)
    assert pairs_in_words(pairs) == words
    assert with_a_quorum(members, (), pairs) == served


def test_a_member_that_is_down_counts_for_no_quorum() -> None:
    assert with_a_quorum(THREE, {"n3"}, ()) == {"n1", "n2"}
    assert with_a_quorum(THREE, {"n3"}, {("n1", "n2")}) == set()


def test_a_cut_keeps_the_pairs_of_the_members_that_are_left() -> None:
    cut = MembersCut("alone", "hold", MEMBER_SHAPES["alone"](THREE))
    assert cut.targets.nodes == THREE
    assert cut.only(Targets(nodes=("n1", "n3"))).pairs == (("n1", "n3"), ("n3", "n1"))


def led_by(world: FakeWorld, *leaders: str | None) -> None:
    """The members are agreed, each time that they are asked, on the next of these."""
    saying = iter(leaders)
    group = Group(1, lambda *_: next(saying), lambda *_: True, 1.0, 1.0)
    for node in world.cluster.nodes.values():
        assert isinstance(node, FakeNode)
        node.server = type("Grouped", (), {"group": group})()


@pytest.mark.parametrize(
    ("aim", "how", "fault"),
    [
        ("leader", "kill", Crash(nodes=("n2",))),
        ("leader", "pause", Pause(nodes=("n2",))),
        ("follower", "kill", Crash(nodes=("n3",))),
        ("majority", "pause", Pause(nodes=("n2", "n3"))),
        ("leader", "cut", MembersCut("leader, alone", "hold", MEMBER_SHAPES["alone"](("n2", "n3", "n1")))),
        ("follower", "deaf", MembersCut("follower, deaf", "hold", MEMBER_SHAPES["deaf"](("n3", "n1", "n2")))),
    ],
)
def test_who_is_hit_is_decided_once_when_the_members_are_agreed(aim: str, how: str, fault: object) -> None:
    world = FakeWorld(topology(nodes=3))
    led_by(world, None, "n2")
    watch = Aimed(aim, how, "hold", ("n3", "n1", "n2")).observe(world.world)  # type: ignore[arg-type]
    assert watch.look(0) == ()
    (trigger,) = watch.look(4)
    assert trigger.fault == fault
    assert watch.look(8) == ()


def test_the_time_that_an_election_took_is_told_if_the_fault_hit_the_leader() -> None:
    world = FakeWorld(topology(nodes=3))
    led_by(world, None, "n3")
    assert await_election(world.world, "n2", Impact(nodes=("n1",)), 0, 1_000) is None
    election = await_election(world.world, "n2", Impact(cut_members=(("n2", "n1"),)), 0, float("inf"))
    assert election is not None
    assert (election.before, election.leader) == ("n2", "n3")
    assert election.after_ms is not None
    led_by(world, None)
    assert await_election(world.world, "n2", Impact(nodes=("n2",)), 0, 0) == ("n2", None, None)


@pytest.mark.parametrize("nemesis", ["members", "leader"])
def test_servers_that_are_no_group_are_refused(nemesis: str) -> None:
    schedule = draw_schedule(parse_spec(nemesis), 1, topology(nodes=3), 20_000)
    assert schedule.faults
    check_server(schedule, ETCD, "none")
    with pytest.raises(UsageError, match="needs members that talk to each other, which the server redis"):
        check_server(schedule, REDIS, "none")


def test_a_group_of_one_has_none_to_cut_off() -> None:
    with pytest.raises(UsageError, match="none to spare"):
        MEMBERS.draw(Random(1), topology(nodes=1), MEMBERS.options())
    assert LEADER.draw(Random(1), topology(nodes=1), LEADER.options())[0].how == "kill"


@pytest.mark.parametrize("nemesis", ["crash:targets=majority", "leader:targets=majority,how=kill"])
def test_a_group_whose_members_keep_nothing_is_not_lost_on_purpose(nemesis: str) -> None:
    schedule = draw_schedule(parse_spec(nemesis), 1, topology(nodes=3), 20_000)
    check_server(schedule, ETCD, "none")
    with pytest.raises(UsageError, match="the group would be lost for good"):
        check_server(schedule, HAZELCAST, "none")
    one = draw_schedule(parse_spec("crash:targets=one"), 1, topology(nodes=3), 20_000)
    check_server(one, HAZELCAST, "none")


def test_the_standard_mix_goes_without_kills_of_a_majority_that_keeps_nothing() -> None:
    three = topology(nodes=3)
    for seed in range(5):
        spec = for_cluster(parse_spec("standard"), HAZELCAST, three)
        check_server(draw_schedule(spec, seed, three, 300_000), HAZELCAST, "none")
        others = draw_schedule(for_cluster(parse_spec("standard"), ETCD, three), seed, three, 300_000)
        with pytest.raises(UsageError, match="lost for good"):
            check_server(others, HAZELCAST, "none")


@pytest.mark.parametrize(("whole", "is_lost"), [({"n2", "n3"}, False), ({"n3"}, True)])
def test_a_member_is_not_killed_while_the_others_are_no_majority(
    monkeypatch: pytest.MonkeyPatch, whole: set[str], is_lost: bool
) -> None:
    """One of them came back a moment ago, and knows nothing yet."""
    assert HAZELCAST.group is not None
    server = SimpleNamespace(group=HAZELCAST.group._replace(serves=serves_of(whole)))
    nodes = {name: SimpleNamespace(address=name, server=server) for name in THREE}
    world = SimpleNamespace(cluster=SimpleNamespace(nodes=nodes), topology=topology(nodes=3))
    assert would_lose_group(world, ["n1"]) is is_lost  # type: ignore[arg-type]


def serves_of(whole: set[str]) -> Callable[[object, float], bool]:
    return lambda address, timeout_ms: address in whole

"""The standard mix: every class of fault, several at once, early; and nodes that are named."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import pytest

from fencepost.errors import UsageError
from nemesis.base import FaultClass, HasClass, Topology
from nemesis.partition import Partition
from nemesis.registry import mixes, nemeses
from nemesis.schedule import Planned, Schedule, decode_fault, draw_schedule, parse_spec
from nemesis.standard import LANES
from tests.nemesis.fakes import topology

ELSEWHERE = {"node shut down", "node without power", "link held"}
"""Classes that `standard` leaves to other nemeses: they need a server's or root's help, or are drawn by chance."""


def draw(spec: str = "standard", seed: int = 7, duration_ms: float = 60_000, of: Topology | None = None) -> Schedule:
    return draw_schedule(parse_spec(spec), seed, of or topology(4, 5, 500), duration_ms)


def fault_class(planned: Planned) -> str:
    fault = decode_fault(planned)
    assert isinstance(fault, HasClass)
    return fault.fault_class


@pytest.mark.parametrize("seed", range(5))
def test_every_class_of_fault_comes_within_a_minute(seed: int) -> None:
    assert {fault_class(planned) for planned in draw(seed=seed).faults} >= set(get_args(FaultClass)) - ELSEWHERE


def test_every_row_of_every_deck_comes_once_before_any_comes_again() -> None:
    lanes = parse_spec("standard").lanes
    assert [len(lane.deck) for lane in lanes] == [len(deck) for deck in LANES.values()]
    partitions = [planned.duration_ms for planned in draw().faults if planned.nemesis == "partition"]
    rows = len(LANES["cuts"])
    assert sum(ms <= 45 for ms in partitions[:rows]) == 2, "the two outages of some ms"
    assert sum(ms >= 1_500 for ms in partitions[:rows]) == 1, "the outage of many TTLs"


def test_several_are_in_force_at_once_but_none_of_the_same_lane() -> None:
    faults = draw().faults
    overlaps = [(a, b) for i, a in enumerate(faults) for b in faults[i + 1 :] if b.at_ms < a.end_ms]
    assert overlaps
    assert any(sum(f.at_ms <= at < f.end_ms for f in faults) == len(LANES) for at in range(0, 60_000, 50))
    for kinds in ({"partition"}, {"latency"}, {"pause", "crash"}):
        own = [planned for planned in faults if planned.nemesis in kinds]
        assert all(a.end_ms <= b.at_ms for a, b in pairwise(own))


def test_its_faults_are_ordinary_faults_that_can_be_saved_and_edited() -> None:
    assert {planned.nemesis for planned in draw().faults} <= set(nemeses())


@pytest.mark.parametrize("of", [topology(1, 1, 500), topology(1, 3, 500), topology(2, 9, 500)])
def test_it_can_be_drawn_for_every_number_of_nodes_and_clients_that_its_shapes_allow(of: Topology) -> None:
    if len(of.nodes) == 1:
        with pytest.raises(UsageError, match="needs at least 2 nodes"):
            draw(of=of)
    else:
        assert draw(of=of).faults


def test_a_mix_is_joined_with_nemeses_and_changes_nothing_in_their_faults() -> None:
    def named(schedule: Schedule) -> list[tuple[int, dict[str, object]]]:
        return [(planned.at_ms, planned.fault) for planned in schedule.faults if planned.nemesis == "shutdown"]

    assert named(draw("standard+shutdown")) == named(draw("shutdown"))


def test_no_mix_has_the_name_of_a_nemesis_and_each_tells_its_options() -> None:
    assert not set(mixes()) & set(nemeses())
    for mix in mixes().values():
        for option in mix.options.__struct_fields__:
            assert f"{option.replace('_', '-')}=" in mix.help


@pytest.mark.parametrize("name", ["latency", "pause", "crash", "shutdown", "partition"])
def test_nodes_can_be_named(name: str) -> None:
    for planned in draw(f"{name}:targets=n5,n2,interval=1s").faults:
        fault = decode_fault(planned)
        nodes = getattr(fault, "nodes", ()) or tuple(dict.fromkeys(node for _, node in getattr(fault, "links", ())))
        assert nodes == ("n2", "n5")


def test_a_named_node_can_be_cut_from_one_client() -> None:
    for planned in draw("partition:shape=one-client,targets=n4").faults:
        fault = decode_fault(planned)
        assert isinstance(fault, Partition)
        assert [node for _, node in fault.links] == ["n4"]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("pause:targets=n6", "there is no n6; the nodes of this run are n1 to n5"),
        ("latency:targets=n1,n1", "names a node twice"),
        ("partition:shape=ring,targets=n1", "shape=ring chooses the nodes itself"),
        ("crash:targets=n1,two", "option .two. is not known"),
        ("pause:targets=m1", "known are mixed"),
        ("partition:kind=hold,n1", "is not known"),
    ],
)
def test_a_wrong_name_gets_one_line(spec: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        draw(spec)

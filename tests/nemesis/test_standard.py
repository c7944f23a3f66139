"""The standard mix: every class of fault, several at once, early; and nodes that are named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import get_args

import msgspec
import pytest

from cluster.servers import redis
from fencepost.errors import UsageError
from fencepost.units import Duration
from nemesis.base import FaultClass, HasClass, Topology, Turn
from nemesis.crash import Crash
from nemesis.node_down import LONGEST_LEASE, NodeDown
from nemesis.partition import Partition
from nemesis.partition_shapes import SHAPES
from nemesis.pause import Pause
from nemesis.registry import mixes, nemeses
from nemesis.schedule import Planned, Schedule, decode_fault, draw_schedule, for_cluster, parse_spec
from nemesis.spec import Lane, Spec
from nemesis.standard import FLURRY, LANES, STILL, STORM
from tests.nemesis.fakes import topology

CLOCKS = {f"{whose} clock {how}" for whose in ("node", "client") for how in ("stepped", "drifting", "strobing")}
OF_SERVERS = {"node shut down", "node without power", "node damaged"}
ELSEWHERE = {*OF_SERVERS, "link held", "in pieces", *CLOCKS}
"""Classes that `standard` leaves to other nemeses: they need a server's, a compiler's or root's help, are drawn by
chance, or are a delay to all but a client library. A clock also breaks locks that are as correct as they can be."""


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
    assert [len(lane.deck) for lane in lanes] == [len(deck.specs) for deck in LANES.values()]
    faults = during(FLURRY, draw(of=topology(4, 5, 1_000), duration_ms=120_000).faults, ttl_ms=1_000)
    flickers = [planned for planned in faults if planned.nemesis == "partition"]
    rows = len(LANES["flickers"].specs)
    assert len(flickers) >= rows
    assert sum(planned.duration_ms <= 45 for planned in flickers[:rows]) == 2, "the two outages of some ms"


def during(turn: Turn, faults: Iterable[Planned], ttl_ms: int = 500) -> list[Planned]:
    """The faults that begin in such a turn."""
    return [each for each in faults if turn.begin <= each.at_ms / ttl_ms % turn.period < turn.end]


@pytest.mark.parametrize("clients_and_nodes", [(1, 1), (4, 1), (4, 2), (2, 3), (7, 5), (12, 9)])
@pytest.mark.parametrize("ttl_ms", [150, 500, 8_000])
def test_no_node_comes_back_before_the_longest_lease_that_it_granted_is_over(
    clients_and_nodes: tuple[int, int], ttl_ms: int
) -> None:
    of = topology(*clients_and_nodes, ttl_ms)
    killed = 0
    for spec in ("standard", "standard:aim=no"):
        fitted = for_cluster(parse_spec(spec), redis.SERVER, of)
        for seed in range(50):
            for planned in draw_schedule(fitted, seed, of, 60_000).faults:
                fault = decode_fault(planned)
                if isinstance(fault, NodeDown) and fault.nodes:
                    killed += 1
                    assert planned.duration_ms >= LONGEST_LEASE.ms(ttl_ms) > ttl_ms
    assert killed > 10


def test_nodes_that_come_back_too_soon_have_a_name_of_their_own() -> None:
    schedule = draw("standard+forgetful", duration_ms=120_000)
    early = [planned for planned in schedule.faults if planned.nemesis == "crash" and planned.duration_ms < 500]
    assert {planned.duration_ms for planned in early} == {0, 100, 250}
    assert {planned.duration_ms for planned in draw("forgetful").faults} == {0, 100, 250}
    alone = [msgspec.structs.replace(planned, id="") for planned in draw("standard", duration_ms=120_000).faults]
    joined = [msgspec.structs.replace(planned, id="") for planned in schedule.faults]
    assert [planned for planned in joined if planned in alone] == alone, "the standard faults stay as they are"


def test_clients_are_stopped_at_each_step_or_without_aim_wherever_they_are() -> None:
    def stops(spec: str) -> list[Pause]:
        faults = (decode_fault(planned) for planned in draw(spec).faults)
        return [fault for fault in faults if isinstance(fault, Pause) and fault.clients]

    def dying(spec: str) -> set[str | None]:
        kills = [
            fault for fault in map(decode_fault, draw(spec).faults) if isinstance(fault, Crash) and not fault.nodes
        ]
        return {fault.caught.aimed_at if fault.caught else None for fault in kills}

    def aims(spec: str) -> Counter[str | None]:
        return Counter(fault.aimed_at for fault in stops(spec))

    assert aims("standard").keys() == {"inside", "acquiring", "extending", "releasing", None}
    assert "held-by-majority" in [fault.at for fault in stops("standard")]
    assert aims("standard:aim=no") == {None: aims("standard").total()}
    others = [
        [planned for planned in draw(spec).faults if fault_class(planned) not in ("client stopped", "client killed")]
        for spec in ("standard", "standard:aim=no")
    ]
    assert {(each.nemesis, str(each.fault)) for each in others[0]} == {(p.nemesis, str(p.fault)) for p in others[1]}
    assert dying("standard") == {"acquiring", "releasing", None}
    assert dying("standard:aim=no") == {None}
    with pytest.raises(UsageError, match="value 'maybe' is not known; known are yes, no"):
        draw("standard:aim=maybe")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ttl_ms", [700, 1_500])
def test_clients_are_stopped_while_they_release_and_killed_before_other_processes_are_hit(
    seed: int, ttl_ms: int
) -> None:
    faults = draw(seed=seed, of=topology(10, 5, ttl_ms), duration_ms=30_000).faults
    hits = [
        decode_fault(each) for each in during(STORM, faults, ttl_ms) if each.nemesis in ("pause", "crash", "errors")
    ]
    assert {_is_stop_of_a_release(hit) for hit in hits[:2]} == {True, False}
    (killed,) = [hit for hit in hits[:2] if not _is_stop_of_a_release(hit)]
    assert isinstance(killed, Crash)
    assert killed.clients
    longest = during(STILL, faults, ttl_ms)[0]
    assert longest.nemesis == "crash"
    assert longest.fault["clients"]
    assert longest.duration_ms >= 4 * ttl_ms


def _is_stop_of_a_release(fault: object) -> bool:
    return isinstance(fault, Pause) and fault.at == "releasing"


def test_in_a_storm_several_are_in_force_at_once_but_none_of_the_same_lane() -> None:
    storm = during(STORM, draw().faults)
    lanes = [deck for deck in LANES.values() if deck.turn == STORM]
    assert max(sum(f.at_ms <= at < f.end_ms for f in storm) for at in range(0, 60_000, 50)) == len(lanes) == 3
    for kinds in ({"partition"}, {"latency"}, {"pause", "crash", "errors"}):
        own = [planned for planned in storm if planned.nemesis in kinds]
        assert all(a.end_ms <= b.at_ms for a, b in pairwise(own))


def test_in_a_still_time_one_fault_is_in_force_for_several_ttls_and_nothing_else_changes() -> None:
    faults = draw(duration_ms=300_000).faults
    still = during(STILL, faults)
    assert len(still) > 40
    assert sum(planned.duration_ms >= 4 * 500 for planned in still) > len(still) / 2
    for planned in still:
        assert [other for other in faults if other.at_ms < planned.end_ms and planned.at_ms < other.end_ms] == [planned]


def test_shorter_faults_pass_one_that_does_not_fit_into_the_rest_of_the_turn() -> None:
    deck = parse_spec("partition:duration=8ttl,kind=drop+latency:duration=1ttl,kind=delay").chosen
    lane = Lane("mine", deck * 2, Duration(1, in_ttls=True), Turn(period=10, begin=0, end=10))
    waited = 0
    for seed in range(20):
        faults = draw_schedule(Spec("mine", (lane,)), seed, topology(4, 5, 500), 60_000).faults
        for hand in zip(*[iter(faults)] * 4, strict=False):
            assert Counter(planned.nemesis for planned in hand) == {"latency": 2, "partition": 2}
            for number, (before, after) in enumerate(pairwise(hand), 1):
                in_the_turn, until_its_end = before.end_ms // 5_000 == after.at_ms // 5_000, -before.end_ms % 5_000
                if after.nemesis == "partition" and not in_the_turn and until_its_end > 2_000:
                    waited += 1
                    assert "latency" not in [planned.nemesis for planned in hand[number:]]
    assert waited > 20


def test_a_longer_load_only_adds_faults() -> None:
    short, long = ([msgspec.structs.replace(f, id="") for f in draw(duration_ms=ms).faults] for ms in (30_000, 60_000))
    assert [planned for planned in long if planned in short] == short
    assert len(long) > len(short)


@pytest.mark.parametrize("seed", range(5))
def test_within_two_minutes_as_many_nodes_as_can_be_lost_are_silent_for_several_ttls_and_nothing_else_is_wrong(
    seed: int,
) -> None:
    still = during(STILL, draw(seed=seed, duration_ms=120_000).faults)
    long = [planned.fault for planned in still if planned.duration_ms >= 4 * 500 and planned.nemesis == "partition"]
    everybody = {f"c{number}" for number in range(1, 5)}
    assert any(
        len({node for _, node in fault["links"]}) == 2
        and {client for client, _ in fault["links"]} == everybody
        and fault["direction"] == "both"
        for fault in long
    )


@pytest.mark.parametrize(
    ("at_ms", "lasts_ms", "fits"),
    [
        (0, 100, (800, 100)),
        (850, 100, (850, 100)),
        (1_200, 100, (1_200, 100)),
        (1_201, 100, (2_100, 100)),
        (2_000, 900, (2_100, 500)),
        (801, 500, (2_100, 500)),
    ],
)
def test_a_fault_begins_when_it_fits_into_the_turn_of_its_lane(
    at_ms: int, lasts_ms: int, fits: tuple[int, int]
) -> None:
    assert Turn(period=13, begin=8, end=13).fit(at_ms, lasts_ms, 100) == fits


def test_its_faults_are_ordinary_faults_that_can_be_saved_and_edited() -> None:
    assert {planned.nemesis for planned in draw().faults} <= set(nemeses())


@pytest.mark.parametrize("of", [topology(1, 1, 500), topology(4, 1, 500), topology(4, 2, 500), topology(2, 9, 500)])
def test_of_its_faults_those_are_played_that_so_many_nodes_and_clients_can_meet(of: Topology) -> None:
    spec = for_cluster(parse_spec("standard"), redis.SERVER, of)
    faults = draw_schedule(spec, 7, of, 60_000).faults
    assert {planned.nemesis for planned in faults} == {"partition", "latency", "pause", "crash", "errors", "lost-reply"}
    every = [str(chosen) for chosen in parse_spec("standard").chosen]
    played = [str(chosen) for chosen in spec.chosen]
    needed = {name: shape.min_nodes for name, shape in SHAPES.items()}
    possible = [
        card
        for card in every
        if not any(f"shape='{name}'" in card and nodes > len(of.nodes) for name, nodes in needed.items())
    ]
    assert len(played) == len(possible)
    assert (len(played) < len(every)) == (len(of.nodes) < 3) == (played != possible)


@pytest.mark.parametrize("of", [topology(4, 1, 500), topology(4, 2, 500)])
def test_where_no_node_can_be_spared_a_still_time_is_calm_after_an_outage_of_about_a_ttl(of: Topology) -> None:
    spec = for_cluster(parse_spec("standard"), redis.SERVER, of)
    still = during(STILL, draw_schedule(spec, 7, of, 300_000).faults)
    turns = [int(planned.at_ms // (STILL.period * 500)) for planned in still]
    assert turns == sorted(set(turns))
    named = {"one-node", "minority"}
    lasting = [(planned, planned.duration_ms / 500) for planned in still]
    out = [ttls for planned, ttls in lasting if {planned.fault.get("shape"), planned.fault.get("targets")} & named]
    out += [ttls for planned, ttls in lasting if planned.nemesis in ("pause", "crash") and planned.fault.get("nodes")]
    assert len(out) > 5
    assert max(out) <= 1.5
    long = {planned.nemesis for planned, ttls in lasting if ttls >= 3}
    assert long == {"latency", "pause", "crash", "errors"}, "for everybody, of clients, of a majority of the nodes"


def test_what_the_user_named_lasts_as_long_as_he_said() -> None:
    of = topology(4, 1, 500)
    spec = for_cluster(parse_spec("partition:duration=6ttl,shape=one-node"), redis.SERVER, of)
    assert max(planned.duration_ms for planned in draw_schedule(spec, 7, of, 60_000).faults) >= 3 * 500


@pytest.mark.parametrize("seed", range(5))
def test_in_a_flurry_links_fail_and_work_again_many_times_within_one_lease(seed: int) -> None:
    flurry = during(FLURRY, draw(seed=seed, duration_ms=300_000).faults)
    turns = Counter(int(planned.at_ms // (FLURRY.period * 500)) for planned in flurry)
    assert min(turns.values()) >= 4
    assert max(planned.duration_ms for planned in flurry) < 500


def test_a_shape_that_the_user_named_is_refused_and_not_left_out() -> None:
    of = topology(4, 1, 500)
    with pytest.raises(UsageError, match="needs at least 2 nodes"):
        draw_schedule(for_cluster(parse_spec("partition:shape=halves"), redis.SERVER, of), 7, of, 60_000)


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

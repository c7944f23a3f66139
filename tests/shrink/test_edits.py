"""Smaller schedules are still schedules: in order, within their load, hitting nobody new."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.shrink.edits import hitting, only, shortened, squeezed, stretches, targets, until, window
from nemesis.schedule import Schedule, draw_schedule, load_schedule, parse_spec
from tests.nemesis.fakes import topology
from tests.shrink.schedules import crash, partition, pause_inside, schedule, times

TWO = schedule(crash("f1", 5_000, 1_000), crash("f2", 9_000, 2_000))


def test_a_window_clips_faults_that_exceed_it_and_starts_after_the_lead() -> None:
    assert times(window(TWO, 5_500, 10_000, 400)) == [("f1", 400, 500), ("f2", 3_900, 1_000)]
    assert window(TWO, 5_500, 10_000, 400).duration_ms == 4_900
    assert times(window(TWO, 6_000, 9_000, 400)) == []
    assert times(window(TWO, 100, 30_000, 400)) == times(TWO)


def test_a_fault_without_a_duration_is_within_a_window_that_starts_with_it() -> None:
    at_once = schedule(crash("f1", 5_000), crash("f2", 6_000))
    assert times(window(at_once, 5_000, 6_000, 0)) == [("f1", 0, 0)]


def test_a_load_that_ends_earlier_has_no_fault_after_its_end() -> None:
    assert times(until(TWO, 9_500)) == [("f1", 5_000, 1_000), ("f2", 9_000, 500)]
    assert until(TWO, 9_500).duration_ms == 9_500


def test_stretches_lie_between_starts_and_ends_of_faults_and_cover_the_load() -> None:
    overlapping = schedule(crash("f1", 1_000, 4_000), crash("f2", 2_000, 500), duration_ms=5_000)
    assert [(s.from_ms, s.to_ms) for s in stretches(overlapping)] == [
        (0, 1_000),
        (1_000, 2_000),
        (2_000, 2_500),
        (2_500, 5_000),
    ]
    assert [s.last for s in stretches(overlapping)] == [False, False, False, True]


def test_shortening_a_stretch_shortens_active_faults_and_moves_later_ones() -> None:
    lead, _down, between, *_ = stretches(TWO)
    assert times(shortened(TWO, lead, 200)) == [("f1", 200, 1_000), ("f2", 4_200, 2_000)]
    assert times(shortened(TWO, between, 50)) == [("f1", 5_000, 1_000), ("f2", 6_050, 2_000)]
    assert times(shortened(TWO, _down, 300)) == [("f1", 5_000, 300), ("f2", 8_300, 2_000)]
    assert shortened(TWO, lead, 200).duration_ms == 20_000 - 4_800


def test_squeezed_has_no_stretch_longer_than_requested() -> None:
    assert times(squeezed(TWO, 250)) == [("f1", 250, 250), ("f2", 750, 250)]
    assert squeezed(TWO, 250).duration_ms == 1_250
    assert squeezed(TWO, 60_000) == TWO


@given(seed=st.integers(0, 10_000), longest_ms=st.integers(1, 5_000), data=st.data())
def test_every_smaller_schedule_can_be_read_back_and_is_no_larger(
    seed: int, longest_ms: int, data: st.DataObject
) -> None:
    spec = parse_spec("partition+latency+pause+crash")
    drawn = draw_schedule(spec, seed, topology(clients=4), 12_000)
    from_ms = data.draw(st.integers(0, 12_000))
    to_ms = data.draw(st.integers(from_ms, 14_000))
    for smaller in (
        window(drawn, from_ms, to_ms, 400),
        squeezed(drawn, longest_ms),
        only(drawn, [planned.id for planned in drawn.faults if data.draw(st.booleans())]),
    ):
        assert len(smaller.faults) <= len(drawn.faults)
        assert smaller.duration_ms <= drawn.duration_ms
        assert all(0 <= p.at_ms <= p.end_ms <= smaller.duration_ms for p in smaller.faults)
        assert [p.at_ms for p in smaller.faults] == sorted(p.at_ms for p in smaller.faults)
        assert sum(s.ms for s in stretches(smaller)) == smaller.duration_ms


def test_a_fault_that_hits_fewer_names_loses_the_name_of_its_shape() -> None:
    links = [("c1", "n1"), ("c1", "n2"), ("c2", "n1"), ("c2", "n2")]
    cut = schedule(partition("f1", 100, 100, links))
    nodes, clients = targets(cut)
    assert (nodes.names, clients.names) == (("n1", "n2"), ("c1", "c2"))
    one = hitting(hitting(cut, nodes, ["n2"]), clients, ["c1"])
    assert one.faults[0].fault["links"] == [["c1", "n2"]]
    assert one.faults[0].fault["shape"] == "shrunk"
    assert hitting(cut, nodes, ["n1", "n2"]) == cut


def test_nodes_and_clients_can_be_removed_but_not_candidates_of_an_aimed_fault() -> None:
    found = list(targets(schedule(crash("f1", 100, 0, ("n1", "n2", "n3")), pause_inside("f2", 200, 1_000))))
    assert [(whom.fault_id, whom.field, whom.names) for whom in found] == [("f1", "nodes", ("n1", "n2", "n3"))]


def test_a_smaller_schedule_is_written_and_read_like_any_other(tmp_path: Path) -> None:
    smaller: Schedule = squeezed(TWO, 300)
    (tmp_path / "shrunk.json").write_bytes(smaller.to_bytes())
    assert load_schedule(tmp_path / "shrunk.json", topology(clients=4)) == smaller


@pytest.mark.parametrize("duration_ms", [5_000, 5_500])
def test_a_fault_that_outlasts_the_load_adds_no_stretch_after_it(duration_ms: int) -> None:
    assert stretches(schedule(crash("f1", 4_000, 9_000), duration_ms=duration_ms))[-1].to_ms == duration_ms

"""How many clients were inside at once, and who is to blame when there were more than the permits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checkers import exclusion, opportunities
from harness.checkers.capacity import check
from harness.checkers.judge import judge
from harness.history.capacity import Crowding, count_crowding, open_with, pairs_beyond
from harness.history.overlaps import BLAMES, count_overlaps, overlapping_pairs
from tests.golden import Golden
from tests.judge.histories import History
from tests.judge.test_overlap_counts import Row, frame, tables


def ends(row: Row) -> tuple[int, int, int]:
    """The ends of a row's windows: section, possible, certain."""
    *_, end, low, high = row
    return end, min(end, high), min(end, low)


def inside(rows: list[Row], at: float, key: str, window: int) -> set[tuple[str, int]]:
    return {row[:2] for row in rows if row[2] == key and row[3] <= at <= ends(row)[window]}


def by_hand(table: list[Row], permits: int) -> tuple[int, dict[str, list[tuple[int, int]]], int]:
    """The most inside at once; by blame the entries in excess, as start and number inside, in order; and the longest
    time in excess."""
    table = sorted(table, key=lambda row: row[3])
    most, longest = 0, 0
    found: dict[str, list[tuple[int, int]]] = {}
    for place, row in enumerate(table):
        known, at = table[: place + 1], row[3]
        count, possible, certain = (
            len(inside(known, at, row[2], window)) if ends(row)[window] >= at else 0 for window in range(3)
        )
        most = max(most, count)
        if count > permits:
            blame = "lock" if certain > permits else "undecided" if possible > permits else "client"
            number = {"lock": certain, "undecided": possible, "client": count}[blame]
            found.setdefault(blame, []).append((at, number))
    for key in {row[2] for row in table}:
        since = None
        for half in range(46):
            at = half / 2
            if len(inside(table, at, key, 0)) <= permits:
                since = None
                continue
            since = at if since is None else since
            longest = max(longest, int(at - since))
    return most, found, longest


def counted(table: list[Row], permits: int) -> Crowding:
    return count_crowding(frame(table), permits)


@settings(max_examples=200)
@given(tables, st.integers(1, 4))
def test_counting_equals_looking_at_every_moment(table: list[Row], permits: int) -> None:
    most, expected, longest = by_hand(table, permits)
    crowding = counted(table, permits)
    assert crowding.most == most
    assert crowding.longest_ns == longest
    found = {
        blame: sorted(zip([table[row][3] for row in excess.rows], excess.inside.tolist(), strict=True))
        for blame, excess in crowding.excess.items()
    }
    assert found == {blame: sorted(entries) for blame, entries in expected.items()}
    assert all((np.diff([table[row][3] for row in each.rows]) >= 0).all() for each in crowding.excess.values())


@settings(max_examples=100)
@given(tables, st.integers(1, 3))
def test_the_sections_that_are_shown_are_those_that_were_counted(table: list[Row], permits: int) -> None:
    sections = frame(table)
    for blame, excess in count_crowding(sections, permits).excess.items():
        window = {"client": 0, "undecided": 1, "lock": 2}[blame]
        for row, number in zip(excess.rows.tolist(), excess.inside.tolist(), strict=True):
            *others, last = open_with(sections, row, blame).tolist()
            assert last == row
            at, key = table[row][3], table[row][2]
            lives = [table[other][:2] for other in [*others, row]]
            assert len(set(lives)) == len(lives) == number
            assert all(
                table[other][2] == key and table[other][3] <= at <= ends(table[other])[window] for other in others
            )
            starts = [table[other][3] for other in others]
            assert starts == sorted(starts)


@settings(max_examples=150)
@given(tables)
def test_with_one_permit_it_agrees_with_the_overlaps(table: list[Row]) -> None:
    """Every entry in excess begins an overlap, and has the gravest blame of those that it begins."""
    sections = frame(table)
    crowding, kinds = count_crowding(sections, 1), count_overlaps(sections)
    assert ("lock" in crowding.excess) == ("lock" in kinds)
    assert bool(crowding.excess) == bool(kinds)
    gravest = next((blame for blame in ("lock", "undecided", "client") if blame in kinds), None)
    assert next((blame for blame in ("lock", "undecided", "client") if blame in crowding.excess), None) == gravest
    assert sum(len(excess.rows) for excess in crowding.excess.values()) <= sum(kind.count for kind in kinds.values())


def crowd(count: int) -> list[Row]:
    """One row after the other, all of them inside until the end."""
    return [(f"c{n}", 1, "k1", n, 10 * count, 20 * count, 20 * count) for n in range(count)]


def test_many_at_once_are_counted_and_not_listed() -> None:
    crowding = counted(crowd(20_000), 3)
    assert crowding.most == 20_000
    assert crowding.excess["lock"].rows.tolist() == list(range(3, 20_000))
    assert crowding.excess["lock"].inside.tolist() == list(range(4, 20_001))
    assert crowding.longest_ns == 200_000 - 3


def test_times_too_far_apart_for_one_line_are_counted_too() -> None:
    far = 2**61
    table: list[Row] = [
        ("c1", 1, "k1", 0, far, far, far),
        ("c2", 1, "k1", 5, far, far, far),
        ("c3", 1, "k2", 7, far, far, far),
        ("c4", 1, "k1", far, far + 1, far + 1, far + 1),
    ]
    crowding = counted(table, 2)
    assert (crowding.most, crowding.excess["lock"].rows.tolist(), crowding.longest_ns) == (3, [3], 0)


@pytest.mark.parametrize(("table", "most"), [([], 0), ([("c1", 1, "k1", 1, 2, 3, 3)], 1)])
def test_nobody_and_one_alone(table: list[Row], most: int) -> None:
    assert counted(table, 1) == Crowding(most, {}, 0)


def test_a_life_that_is_inside_twice_counts_once() -> None:
    table: list[Row] = [
        ("c1", 1, "k1", 0, 10, 90, 90),
        ("c1", 1, "k1", 5, 20, 90, 90),
        ("c2", 1, "k1", 15, 20, 90, 90),
    ]
    assert counted(table, 2) == Crowding(2, {}, 0)
    assert counted([*table, ("c1", 2, "k1", 18, 30, 90, 90)], 2).excess["lock"].inside.tolist() == [3]


# What the checker says.


def three(**config: Any) -> History:
    return History(clients=3, permits=2, **config).section("c1", 0, 50).section("c2", 10, 60)


def beyond(history: History) -> dict[str, int]:
    """Only what is not zero."""
    counts: Any = check(history.recorded()).figures.beyond
    return {blame: count for blame, count in counts.items() if count}


def test_as_many_as_there_are_permits_may_be_inside() -> None:
    answer = check(three().section("c3", 50.000001, 70).recorded())
    assert (answer.findings, answer.figures.most_inside, answer.figures.longest_beyond_ms) == ((), 2, 0)


def test_one_more_is_the_locks_fault_if_all_are_within_their_validity(golden: Golden) -> None:
    history = three().section("c3", 50, 70)
    (finding,) = check(history.recorded()).findings
    assert (finding.kind, finding.blame, finding.count, finding.breaks) == (
        "over-capacity",
        "lock",
        1,
        "exclusion",
    )
    golden(finding.text)
    (example,) = finding.examples
    others: Any = example["others"]
    assert (example["at_ms"], example["inside"], example["permits"], example["key"]) == (50, 3, 2, "k1")
    assert [side["client"] for side in others] == ["c1", "c2"]
    assert example["entered"]["client"] == "c3"  # type: ignore[index]


def test_a_client_that_outlived_its_validity_is_to_blame() -> None:
    """c2's validity ends as c3 enters: it had not outlived it."""
    history = History(clients=3, permits=2).section("c1", 0, 50, deadline=40).section("c2", 10, 60, deadline=45)
    (finding,) = check(history.section("c3", 45, 70).recorded()).findings
    assert (finding.blame, finding.breaks, finding.examples[0]["outlived"]) == ("client", "exclusion", ("c1",))
    assert [side["client"] for side in finding.examples[0]["others"]] == ["c1", "c2"]  # type: ignore[attr-defined]


def test_a_client_that_entered_after_its_validity_is_to_blame() -> None:
    (finding,) = check(three().section("c3", 45, 70, deadline=44).recorded()).findings
    assert (finding.blame, finding.examples[0]["outlived"]) == ("client", ("c3",))


def test_it_is_undecided_if_only_one_reading_excuses_the_lock() -> None:
    history = History(clients=3, permits=2).section("c1", 20, 90, deadline=(40, 50)).section("c2", 10, 60)
    (finding,) = check(history.section("c3", 45, 70).recorded()).findings
    assert (finding.blame, finding.examples[0]["may_have_outlived"]) == ("undecided", ("c1",))
    assert finding.breaks == "exclusion"


def test_a_client_that_outlived_its_validity_does_not_excuse_the_lock_for_the_others() -> None:
    history = History(clients=4, permits=2).section("c4", 0, 90, deadline=5).section("c1", 10, 50)
    (finding,) = check(history.section("c2", 3, 60).section("c3", 40, 70).recorded()).findings[:1]
    assert (finding.blame, finding.examples[0]["inside"]) == ("lock", 3)
    assert [side["client"] for side in finding.examples[0]["others"]] == ["c2", "c1"]  # type: ignore[attr-defined]


def test_keys_have_permits_of_their_own() -> None:
    assert beyond(three().section("c3", 45, 70, key="k2")) == {}


def test_the_first_entries_and_the_most_crowded_are_shown(golden: Golden) -> None:
    history = History(clients=9, permits=1)
    for n in range(5):
        history.section("c1", 100 * n, 100 * n + 40, number=n + 1).section(
            "c2", 100 * n + 10, 100 * n + 20, number=n + 1
        )
    history.section("c3", 415, 450).section("c4", 418, 450)
    answer = check(history.recorded())
    (finding,) = answer.findings
    assert finding.count == 7
    assert [(example["at_ms"], example["inside"]) for example in finding.examples] == [
        (10, 2),
        (110, 2),
        (210, 2),
        (418, 4),
    ]
    assert answer.figures.longest_beyond_ms == 40
    golden(finding.text)


def test_with_one_permit_the_checkers_agree() -> None:
    history = History().section("c1", 0, 50).section("c2", 20, 60)
    ours, theirs = check(history.recorded()).findings, exclusion.check(history.recorded()).findings
    assert [(f.blame, f.breaks, f.count) for f in ours] == [(f.blame, f.breaks, f.count) for f in theirs]


def test_the_figures_read_like_this(golden: Golden) -> None:
    figures = check(three().section("c3", 50, 70).recorded()).figures
    (row,) = figures.rows()
    golden(row.text)
    assert "lock 1 of 3 sections" in row.text
    assert [cell.text for cell in figures.cells()] == ["3", "3/2", "1/0/0"]
    assert {tile.name: tile.tone for tile in figures.tiles()}["Beyond the permits, lock to blame"] == "bad"
    quiet = check(three().recorded()).figures
    assert "for up to" not in next(iter(quiet.rows())).text
    assert not any(tile.tone for tile in quiet.tiles())
    assert set(quiet.beyond) == set(BLAMES)


def test_nobody_was_inside() -> None:
    figures = check(History(permits=2).recorded()).figures
    assert (figures.most_inside, figures.sections) == (0, 0)


# What others make of it.


@settings(max_examples=60)
@given(tables, st.integers(1, 3))
def test_the_pairs_that_should_not_have_been_are_those_of_the_entries_in_excess(table: list[Row], permits: int) -> None:
    sections = frame(table)
    all_pairs, pairs = overlapping_pairs(sections), pairs_beyond(sections, permits)
    blame_of = {
        row: BLAMES.index(blame)
        for blame, excess in count_crowding(sections, permits).excess.items()
        for row in excess.rows.tolist()
    }
    wanted = [
        (first, later, own if permits == 1 else blame_of[later])
        for first, later, own in zip(all_pairs.earlier, all_pairs.later, all_pairs.blame, strict=True)
        if permits == 1 or later in blame_of
    ]
    assert list(zip(pairs.earlier, pairs.later, pairs.blame, strict=True)) == wanted
    few = pairs_beyond(sections, permits, most=2)
    assert len(few.later) == min(2, len(wanted))
    assert set(zip(few.earlier, few.later, few.blame, strict=True)) <= set(wanted)


def test_only_workloads_that_count_have_permits() -> None:
    assert History(workload="semaphore", permits=3).recorded().permits == 3
    assert History(permits=3).recorded().permits == 1


def test_a_semaphore_is_judged_by_its_capacity_and_not_by_overlaps() -> None:
    shared = History(clients=3, permits=2, ttl_ms=110).section("c1", 0, 50).section("c2", 10, 60)
    assert {finding.kind for finding in judge(shared.recorded()).findings} == {"overlap"}
    shared = History(clients=3, permits=2, ttl_ms=110, workload="semaphore").section("c1", 0, 50).section("c2", 10, 60)
    verdict = judge(shared.recorded())
    assert (verdict.verdict, verdict.findings) == ("valid", ())
    assert {"capacity", "liveness"} <= set(verdict.figures)
    assert not {"exclusion", "counter", "fencing"} & set(verdict.figures)


def test_an_outage_that_broke_a_slot_was_an_opportunity() -> None:
    history = History(clients=3, permits=2, workload="semaphore").section("c1", 0, 50).section("c2", 1, 60)
    history.fault("f1", 20, 30, nemesis="crash", nodes=("n1",), keys_at_stake=("k1#2",), how_down="kill")
    before: Any = opportunities.check(history.recorded()).figures
    assert (before.opportunities, before.violations, before.first_violation_ms) == (1, 0, None)
    after: Any = opportunities.check(history.section("c3", 40, 60).recorded()).figures
    assert (after.violations, after.violated_opportunities, after.first_violation_ms) == (1, 1, 40)

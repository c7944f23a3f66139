"""Who is to blame for an overlap: the lock, a client, or nobody can say."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.exclusion import check
from tests.judge.histories import History, ms


def blames(history: History) -> dict[str, int]:
    """Only what is not zero."""
    counts: Any = check(history.recorded()).figures.overlaps
    return {blame: count for blame, count in counts.items() if count}


def test_sections_one_after_the_other_are_no_overlap() -> None:
    assert blames(History().section("c1", 0, 10).section("c2", 11, 20)) == {}


def test_sections_of_different_keys_are_no_overlap() -> None:
    assert blames(History().section("c1", 0, 10, key="k1").section("c2", 5, 20, key="k2")) == {}


def test_one_nanosecond_later_they_do_not() -> None:
    assert blames(History().section("c1", 0, 10).section("c2", 10.000001, 20)) == {}


def test_the_lock_is_to_blame_when_both_were_within_their_validity() -> None:
    assert blames(History().section("c1", 0, 50).section("c2", 20, 60)) == {"lock": 1}


def test_a_client_is_to_blame_when_the_earlier_one_had_outlived_its_validity() -> None:
    history = History().section("c1", 0, 500, deadline=100).section("c2", 120, 140)
    assert blames(history) == {"client": 1}
    assert check(history.recorded()).findings[0].examples[0]["outlived"] == ["earlier"]


def test_the_same_holds_when_both_come_in_at_the_same_moment() -> None:
    assert blames(History().section("c1", 20, 50, deadline=100).section("c2", 20, 60, deadline=10)) == {"client": 1}
    assert blames(History().section("c2", 20, 60, deadline=10).section("c1", 20, 50, deadline=100)) == {"client": 1}


def test_it_is_undecided_when_only_one_reading_of_the_deadline_excuses_the_lock() -> None:
    assert blames(History().section("c1", 50, 500, deadline=(110, 130)).section("c2", 120, 140)) == {"undecided": 1}


def test_every_reading_must_convict_before_the_lock_is_blamed() -> None:
    assert blames(History().section("c1", 50, 500, deadline=(120, 140)).section("c2", 120, 140)) == {"lock": 1}
    assert blames(History().section("c1", 50, 500, deadline=(90, 119)).section("c2", 120, 140)) == {"client": 1}


def test_a_pause_between_computing_and_stamping_leaves_it_undecided() -> None:
    """The stamps alone would convict the lock; the client was stopped between the grant and the stamp."""

    def history() -> History:
        return History().section("c1", 300, 350, deadline=(389, 390)).section("c2", 320, 330)

    stretched = history()
    stretched.ops["c1", 1][0].invoke_ns -= 290_000_000
    assert blames(stretched) == {"lock": 1}
    assert blames(stretched.fault("p1", 100, 299, paused_clients=("c1",))) == {"undecided": 1}


def test_two_lives_of_one_client_are_two_clients() -> None:
    history = History().section("c1", 0, None, life=1).section("c1", 20, 40, life=2, number=2)
    assert blames(history.end("c1", "killed", 25, life=1)) == {"lock": 1}


def test_every_pair_counts() -> None:
    history = History(clients=3).section("c1", 0, 50).section("c2", 10, 60).section("c3", 20, 70)
    assert blames(history) == {"lock": 3}


def test_the_longest_overlap_of_all_is_told_whoever_is_to_blame() -> None:
    history = History().section("c1", 0, 500, deadline=100).section("c2", 120, 140)
    history.section("c1", 600, 650, number=2).section("c2", 649, 660, number=2)
    answer = check(history.recorded())
    assert answer.figures.longest_overlap_ms == 20
    assert [finding.text.partition(",")[0] for finding in answer.findings] == ["1 pair of sections overlapped"] * 2
    two = check(history.section("c2", 200, 210, number=3).recorded())
    assert two.findings[1].text.startswith("2 pairs of sections overlapped")


def test_only_who_was_in_there_after_its_validity_had_outlived_it() -> None:
    history = History().section("c1", 0, 50, deadline=20).section("c2", 20, 60, deadline=10, asked=1)
    assert check(history.recorded()).findings[0].examples[0]["outlived"] == ["later"]
    history = History().section("c1", 50, 500, deadline=(110, 130)).section("c2", 120, 140)
    assert check(history.recorded()).findings[0].examples[0]["may_have_outlived"] == ["earlier"]


def test_what_breaks_which_requirement() -> None:
    lock, client = History().section("c1", 0, 50).section("c2", 20, 60), History().section("c1", 0, 500)
    client.section("c2", 120, 140)
    undecided = History().section("c1", 50, 500, deadline=(110, 130)).section("c2", 120, 140)
    broken = [check(history.recorded()).findings[0].breaks for history in (lock, client, undecided)]
    assert broken == ["exclusion", "exclusion", "exclusion"]


def test_the_examples_name_the_first_and_the_longest() -> None:
    history = History()
    for n in range(6):
        history.section("c1", 100 * n, 100 * n + 20 + n, number=n + 1).section(
            "c2", 100 * n + 10, 100 * n + 90, number=n + 1
        )
    answer = check(history.recorded())
    examples = answer.findings[0].examples
    assert examples[0]["at_ms"] == 10
    assert examples[-1]["overlap_ms"] == answer.figures.longest_overlap_ms == 15
    assert answer.findings[0].count == 6


# Overlaps within a lapse: c1's lease ended at 100, and an extension was computed at 150, until 300.


def a_lapse(first: Any = 100) -> History:
    history = History().section("c1", 0, None, deadline=first)
    history.op("c1", "extend", "ok", 1, 120, 160, validity_ms=150.0, deadline_ns=ms(300))
    return history.op("c1", "release", "ok", 1, 280, 281)


def lapsed(start: float, end: float, deadline: Any = None, first: Any = 100) -> list[str]:
    history = a_lapse(first).section("c2", start, end, deadline=deadline)
    return [finding.blame for finding in check(history.recorded()).findings]


def test_an_overlap_that_is_all_within_a_lapse_is_the_clients() -> None:
    assert lapsed(110, 140) == ["client"]
    assert lapsed(110, 150) == ["undecided"]
    assert lapsed(100, 140) == ["lock"]
    assert lapsed(100.1, 149.9) == ["client"]
    assert lapsed(110, 200, deadline=149) == ["client"]
    assert lapsed(110, 200, deadline=(149, 150)) == ["undecided"]


def test_a_lapse_begins_after_the_latest_end_of_the_lease_and_ends_before_the_next() -> None:
    assert lapsed(100, 140, first=(99, 100)) == ["undecided"]
    assert lapsed(100.1, 140, first=(99, 100)) == ["client"]


@pytest.mark.parametrize(("start", "late"), [(100, ["later"]), (100.1, ["earlier", "later"]), (150, ["later"])])
def test_who_is_within_a_lapse_outlived_a_lease(start: float, late: list[str]) -> None:
    """c2 is late itself, so that the overlap is a client's in any case."""
    (finding,) = check(a_lapse().section("c2", start, 160, deadline=90).recorded()).findings
    assert finding.blame == "client"
    assert finding.examples[0]["outlived"] == late


def test_what_comes_after_a_lapse_stays_undecided() -> None:
    assert lapsed(160, 170) == ["undecided"]


def test_the_lapse_of_either_side_counts() -> None:
    history = History().section("c1", 0, 200, deadline=200).section("c2", 110, None, asked=20, deadline=100)
    history.op("c2", "extend", "ok", 1, 120, 260, validity_ms=100.0, deadline_ns=ms(350))
    history.op("c2", "release", "ok", 1, 280, 281)
    (finding,) = check(history.recorded()).findings
    assert (finding.blame, finding.count) == ("client", 1)
    assert finding.examples[0]["outlived"] == ["later"]


def test_pairs_of_all_kinds_beside_a_lapse_are_counted_and_the_longest_is_told() -> None:
    history = History(clients=5).section("c1", 0, None, deadline=100)
    history.op("c1", "extend", "ok", 1, 120, 160, validity_ms=150.0, deadline_ns=ms(300))
    history.op("c1", "release", "ok", 1, 280, 281).section("c2", 50, 60).section("c3", 105, 112).section("c4", 113, 149)
    history.section("c5", 170, 290, deadline=210).section("c2", 290, 300, number=2)
    answer = check(history.recorded())
    figures: Any = answer.figures
    assert figures.overlaps == {"lock": 1, "client": 3, "undecided": 1}
    assert figures.longest_overlap_ms == 40
    by_blame = {finding.blame: finding for finding in answer.findings}
    assert [e["overlap_ms"] for e in by_blame["client"].examples] == [7, 36, 0]
    assert [e["outlived"] for e in by_blame["client"].examples] == [["earlier"]] * 3
    assert [e["overlap_ms"] for e in by_blame["undecided"].examples] == [40]
    assert [e["overlap_ms"] for e in by_blame["lock"].examples] == [10]

"""A client that gets in far less often than others. Each of c1 and c2 has the lock in turn, while c3 waits."""

from __future__ import annotations

from typing import Any

import pytest
from scipy.special import bdtr

from harness.checkers.partial_starvation import CHANCE, Figures, at_most, check
from tests.golden import Golden
from tests.judge.histories import History, ms


def passed(times: int, *, lets_in: int = 0, **config: Any) -> History:
    """The lock passes from c1 to c2 and back, every 20 ms; `lets_in`: the first so many go to c3 instead."""
    history = History(**({"ttl_ms": 100, "clients": 4, "nodes": 1} | config))
    asked, at = dict.fromkeys(("c1", "c2", "c3"), 1.0), 10.0
    holder = "c1"
    for turn in range(times + 1):
        history.section(holder, at, at + 10, number=turn + 1, asked=asked[holder])
        asked[holder] = at + 12
        at += 20
        holder = "c3" if turn < 2 * lets_in and holder != "c3" else "c2" if holder == "c1" else "c1"
    history.op("c3", "acquire", "fail", 9999, asked["c3"], at)
    history.timeline.healed_ns = history.timeline.stop_ns = history.timeline.end_ns = ms(at + 100)
    return history


def figures(history: History) -> Figures:
    found = check(history.recorded()).figures
    assert isinstance(found, Figures)
    return found


def test_a_client_that_loses_hundreds_of_times_was_starved(golden: Golden) -> None:
    (finding,) = check(passed(400).recorded()).findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("partial-starvation", "undecided", None, 1)
    (example,) = finding.examples
    assert (example["client"], example["won"], example["competed"], example["expected"]) == ("c3", 0, 400, 200)
    golden(finding.text)


def test_a_few_lost_handovers_are_chance() -> None:
    answer = check(passed(100).recorded())
    assert answer.findings == ()
    assert figures(passed(100)).least_probability == pytest.approx(bdtr(0, 100, 0.125))
    assert figures(passed(0)) == Figures(0, None)


def test_the_number_of_clients_that_are_looked_at_is_taken_into_account() -> None:
    least = next(n for n in range(400) if 3 * bdtr(0, n, 0.125) < CHANCE)
    assert check(passed(least).recorded()).findings != ()
    assert check(passed(least - 1).recorded()).findings == ()


@pytest.mark.parametrize(
    ("successes", "trials", "chance"),
    [(0, 1, 0.1), (3, 40, 0.125), (5, 5, 0.3), (50, 1000, 0.125), (900, 10**5, 0.0125)],
)
def test_how_probable_so_few_successes_are(successes: int, trials: int, chance: float) -> None:
    assert at_most(successes, trials, chance) == pytest.approx(bdtr(successes, trials, chance), rel=1e-9)
    assert at_most(successes, trials, chance) <= 1


def test_whoever_got_in_now_and_then_was_not_starved() -> None:
    assert check(passed(400, lets_in=60).recorded()).findings == ()


@pytest.mark.parametrize("hit", [{"slow_links": (("c3", "n1"),)}, {"cut_links": (("c3", "n1"),)}, {"nodes": ("n1",)}])
def test_handovers_under_faults_do_not_count(hit: Any) -> None:
    assert check(passed(400).fault("f", 2000, 8500, **hit).recorded()).findings == ()


def test_faults_of_others_do_not_matter() -> None:
    history = passed(400).fault("f", 9000, 9500, paused_clients=("c4",))
    assert [finding.kind for finding in check(history.recorded()).findings] == ["partial-starvation"]


def test_many_clients_and_semaphores_are_not_judged() -> None:
    assert check(passed(400, clients=17).recorded()).figures is None
    assert check(passed(400, workload="semaphore", permits=2).recorded()).figures is None

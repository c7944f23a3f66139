"""From findings to a verdict, and from a verdict to an exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.checkers.judge import exit_code, judge, judge_so_far
from harness.promises import PROMISES
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.histories import History
from tests.judge.test_store import written


def clean(**config: Any) -> History:
    history = History(ttl_ms=110, **config).section("c1", 0, 10).section("c2", 20, 30)
    return history.write("c1", 1).write("c2", 2)


def word(history: History) -> str:
    return judge(history.recorded()).verdict


def outcomes(history: History) -> dict[str, tuple[str, bool]]:
    return {each.promise: (each.outcome, each.decides) for each in judge(history.recorded()).promises}


def overlap(require: str) -> History:
    return clean(require=require).section("c1", 100, 150, number=2).section("c2", 120, 160, number=2)


def lapse(require: str) -> History:
    return clean(require=require).section("c1", 100, 350, number=2).section("c2", 220, 260, number=2)


def lapse_that_costs(require: str) -> History:
    return lapse(require).write("c2", 3, number=2).write("c1", 3, number=2)


def stuck(require: str) -> History:
    """One call takes much longer than the lock says that it may."""
    history = clean(require=require)
    history.acquire_limit_ms = 10
    return history.op("c1", "acquire", "fail", 2, 100, 800)


def test_a_clean_run_is_valid() -> None:
    assert word(clean()) == "valid"
    assert outcomes(clean()) == dict.fromkeys(PROMISES, ("kept", False))


@pytest.mark.parametrize(
    ("history", "violates"),
    [
        (overlap, {"lock", "lease", "exclusion", "lock+data"}),
        (lapse, {"exclusion"}),
        (lapse_that_costs, {"exclusion", "data", "lock+data", "liveness+data"}),
        (stuck, {"lock", "liveness", "lock+data", "liveness+data"}),
    ],
)
def test_what_is_required_decides_what_is_a_violation(history: object, violates: set[str]) -> None:
    for require in ("lock", "lease", "exclusion", "data", "liveness", "lock+data", "liveness+data"):
        expected = "violation" if require in violates else "valid"
        assert word(history(require)) == expected, require  # type: ignore[operator]


def test_each_promise_is_told_by_itself_and_whether_it_decides() -> None:
    kept, broken, not_required = ("kept", False), ("broken", True), ("broken", False)
    assert outcomes(overlap("lock")) == {"exclusion": broken, "lease": kept, "liveness": kept, "data": kept}
    assert outcomes(lapse_that_costs("lock")) == {
        "exclusion": not_required, "lease": kept, "liveness": kept, "data": not_required
    }  # fmt: skip
    assert outcomes(stuck("lock")) == {"exclusion": kept, "lease": kept, "liveness": broken, "data": kept}
    assert outcomes(stuck("lease"))["liveness"] == not_required


def test_of_a_run_that_shows_too_little_no_promise_is_called_kept() -> None:
    history = lapse_that_costs("lock")
    history.timeline.interrupted = True
    assert outcomes(history) == {
        "exclusion": ("broken", False),
        "lease": ("unknown", False),
        "liveness": ("unknown", False),
        "data": ("broken", False),
    }


def test_a_workload_without_data_is_not_judged_by_them() -> None:
    history = History(workload="acquire-release").section("c1", 0, 10).section("c2", 20, 30)
    assert outcomes(history).keys() == {"exclusion", "lease", "liveness"}


def test_everything_found_is_reported_whatever_is_required() -> None:
    verdict = judge(lapse_that_costs("lease").recorded())
    assert verdict.verdict == "valid"
    kinds = {(finding.kind, finding.blame) for finding in verdict.findings}
    assert kinds == {("overlap", "client"), ("lost-update", "client"), ("stale-write-accepted", "client")}


def test_an_interrupted_run_is_unknown() -> None:
    history = clean()
    history.timeline.interrupted = True
    assert judge(history.recorded()).unknown == ("the run was interrupted",)
    assert word(history) == "unknown"


def test_a_run_without_an_end_is_unknown() -> None:
    history = clean()
    history.timeline.end_ns = None
    assert word(history) == "unknown"


def test_a_run_that_could_not_be_healed_in_time_is_unknown_and_says_why(golden: Golden) -> None:
    history = clean()
    history.timeline.healed_ns, history.timeline.unhealed = None, "9 of 640 links had not changed after 10.0 s"
    verdict = judge(history.recorded())
    assert verdict.verdict == "unknown"
    golden("\n".join(verdict.unknown))


def test_a_violation_is_one_even_if_the_run_was_interrupted() -> None:
    history = overlap("lease")
    history.timeline.interrupted = True
    assert word(history) == "violation"


def test_of_a_run_that_is_still_on_only_what_the_lock_is_to_blame_for_is_told(tmp_path: Path) -> None:
    histories = [overlap("lease"), lapse("exclusion")]
    for history in histories:
        history.timeline.end_ns = None
    verdicts = [judge_so_far(written(tmp_path, history))[1] for history in histories]
    assert [[one.kind for one in verdict.findings if one.blame == "lock"] for verdict in verdicts] == [["overlap"], []]


def test_a_run_in_which_nobody_acquired_anything_is_unknown() -> None:
    assert word(History()) == "unknown"


def test_a_run_whose_faults_all_missed_is_unknown() -> None:
    history = clean()
    history.planned = 1
    assert word(history.fault("f1", 10, 20, holds=False)) == "unknown"
    assert word(history.fault("f2", 10, 20)) == "valid"


@pytest.mark.parametrize(
    ("verdict", "code", "code_if_expected"), [("valid", 0, 1), ("violation", 1, 0), ("unknown", 2, 2)]
)
def test_exit_codes(verdict: str, code: int, code_if_expected: int) -> None:
    judged = Verdict(verdict, "lock", (), (), {})  # type: ignore[arg-type]
    assert exit_code(judged) == code
    assert exit_code(judged, expect_violation=True) == code_if_expected

"""`--limit`: thresholds of a user's own, beside the verdict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from msgspec.structs import replace

from fencepost.__main__ import main
from fencepost.errors import UsageError
from harness.checkers import check_measured, checkers
from harness.checkers.judge import exit_code, judge, recorded_verdict
from harness.config import RunConfig
from harness.limits import FIGURES, Limit, LimitedFigure, LimitOutcome, judge_limit
from harness.store.run_folder import RunFolder
from harness.verdict import Verdict, Word
from tests.golden import Golden
from tests.judge.histories import History

MET, MISSED, UNKNOWN = (
    LimitOutcome(Limit("sections", ">", 1), "met", 2),
    LimitOutcome(Limit("sections", ">", 2), "missed", 2),
    LimitOutcome(Limit("orphans", "=", 0), "unknown", None),
)


def two_sections(*limits: str, **config: Any) -> History:
    """The second acquire takes 20 ms, the first one 1 ms."""
    history = History(limits=tuple(map(Limit.parse, limits)), **config)
    return history.section("c1", 1, 10).section("c2", 40, 50, asked=20)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("acquire p99 < 200ms", Limit("acquire p99", "<", 200)),
        ("longest gap<=0.5s", Limit("longest gap", "<=", 500)),
        (" Lost  Updates == 0 ", Limit("lost updates", "=", 0)),
        ("sections > 1000", Limit("sections", ">", 1000)),
        ("fairness >= 0.9", Limit("fairness", ">=", 0.9)),
        ("longest overlap = 0", Limit("longest overlap", "=", 0)),
    ],
)
def test_a_limit_is_a_figure_an_operator_and_a_value(text: str, limit: Limit) -> None:
    assert Limit.parse(text) == limit
    assert Limit.parse(str(limit)) == limit


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("acquire p98 < 200ms", "did you mean acquire p99?"),
        ("foo < 1", "`fencepost test --help` lists them"),
        ("acquire p99 < 200", "'200' has no unit"),
        ("lost updates = 0ms", "'0ms' is not a number"),
        ("sections > -1", "'-1' is not a number"),
        ("sections", "is not a limit"),
        ("sections < 1 < 2", "is not a limit"),
        ("", "is not a limit"),
    ],
)
def test_what_is_wrong_with_a_limit_is_said_in_one_line_before_anything_starts(
    text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", "--limit", text]) == 254
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert "--limit" in line


def test_a_figure_that_the_workload_does_not_have_is_refused_before_anything_starts() -> None:
    check_measured(RunConfig(seed=1, limits=(Limit("lost updates", "=", 0),)))
    check_measured(RunConfig(seed=1, workload="semaphore", limits=(Limit("most inside", "<", 3),)))
    with pytest.raises(UsageError, match="--limit 'most inside < 3': --workload fenced-counter"):
        check_measured(RunConfig(seed=1, limits=(Limit("most inside", "<", 3),)))


@pytest.mark.parametrize("figure", FIGURES.values(), ids=list(FIGURES))
def test_every_figure_is_one_that_its_checkers_measure(figure: LimitedFigure) -> None:
    for name in figure.checkers:
        *owners, last = figure.attribute.split(".")
        kind: Any = checkers()[name].figures
        for owner in owners:
            hint = get_type_hints(kind)[owner]
            kind = next((one for one in getattr(hint, "__args__", ()) if one is not type(None)), hint)
        assert hasattr(kind, last)
        assert figure.is_time is ("_ms" in figure.attribute)


def test_limits_are_judged_by_what_the_checkers_measured(golden: Golden) -> None:
    limits = judge(two_sections("sections > 1", "acquire max < 15ms", "acquire max < 20.5ms").recorded()).limits
    assert [(each.outcome, each.measured) for each in limits] == [("met", 2), ("missed", 20), ("met", 20)]
    golden(str(limits[1]))


def test_a_figure_that_the_run_did_not_measure_is_unknown_and_not_passed(golden: Golden) -> None:
    """The nodes were not watched."""
    (limit,) = judge(two_sections("orphans = 0").recorded()).limits
    assert (limit.outcome, limit.measured) == ("unknown", None)
    golden(str(limit))


def test_a_run_that_was_cut_short_decides_no_limit() -> None:
    history = two_sections("sections > 1", "sections > 100")
    history.timeline = replace(history.timeline, end_ns=None)
    verdict = judge(history.recorded())
    assert verdict.verdict == "unknown"
    assert {limit.outcome for limit in verdict.limits} == {"unknown"}


@pytest.mark.parametrize(
    "history", [two_sections, lambda *limits: two_sections(*limits).section("c1", 45, 60, number=2)]
)
def test_the_verdict_of_the_lock_does_not_depend_on_limits(history: Any) -> None:
    without, missed = judge(history().recorded()), judge(history("sections > 100").recorded())
    assert (missed.verdict, missed.promises, missed.findings) == (without.verdict, without.promises, without.findings)
    assert missed.conclusion == ("violation" if without.verdict == "violation" else "limit missed")


@pytest.mark.parametrize(
    ("word", "limits", "conclusion", "code", "code_if_expected"),
    [
        ("valid", [MET], "valid", 0, 1),
        ("valid", [MET, MISSED, UNKNOWN], "limit missed", 1, 1),
        ("valid", [MET, UNKNOWN], "unknown", 2, 1),
        ("unknown", [MET], "unknown", 2, 2),
        ("unknown", [MISSED], "limit missed", 1, 1),
        ("violation", [MET], "violation", 1, 0),
        ("violation", [UNKNOWN], "violation", 1, 2),
        ("violation", [MISSED], "violation", 1, 1),
    ],
)
def test_the_exit_code_is_of_the_verdict_and_of_the_limits(
    word: Word, limits: list[LimitOutcome], conclusion: str, code: int, code_if_expected: int
) -> None:
    verdict = Verdict(word, "lock", (), (), {}, limits=tuple(limits))
    assert verdict.conclusion == conclusion
    assert [exit_code(verdict), exit_code(verdict, expect_violation=True)] == [code, code_if_expected]


def test_limits_are_kept_with_the_run_and_in_its_verdict(tmp_path: Path) -> None:
    history = two_sections("sections > 1", "acquire p99 < 15ms")
    folder = RunFolder.create(tmp_path, history.config)
    assert folder.read_config().limits == history.config.limits
    verdict = judge(history.recorded())
    folder.write_verdict(verdict)
    kept = recorded_verdict(folder)
    assert kept is not None
    assert kept.limits == verdict.limits != ()


def test_a_limit_of_a_later_version_is_unknown() -> None:
    assert judge_limit(Limit("a figure to come", "<", 1), {}).outcome == "unknown"


def test_a_value_that_would_read_like_its_limit_is_told_with_all_digits() -> None:
    said = str(LimitOutcome(Limit("acquire p99", "<", 200), "missed", 200.25))
    assert [float(n) for n in re.findall(r"[\d.]+(?= ms)", said)] == [200.25, 200]

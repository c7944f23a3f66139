"""Each kind of finding belongs to one promise, and a promise is broken by what was required of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fencepost.errors import InternalError
from harness import checkers
from harness.checkers.judge import judge
from harness.checkers.kinds import kinds
from harness.figures import CheckerFigures
from harness.promises import PROMISES, REQUIREMENTS, Belongs
from harness.verdict import Answer, Blame, Finding, outcome_of
from tests.judge.histories import History

KINDS = {name: kind.promise for name, kind in kinds().items()}
DECLARED = re.compile(r'FindingKind\(\s*"([a-z-]+)"')
SOURCES = [path for folder in checkers.__path__ for path in Path(folder).glob("*.py")]


def found(kind: str, blame: Blame = "lock") -> Finding:
    return kinds()[kind].found(blame, "it", 1, ())


def test_each_kind_of_finding_is_declared_once_by_its_checker() -> None:
    assert sorted(name for path in SOURCES for name in DECLARED.findall(path.read_text())) == sorted(KINDS)


@pytest.mark.parametrize(("kind", "promise"), KINDS.items())
def test_what_the_lock_is_to_blame_for_is_a_violation_unless_it_breaks_no_promise(kind: str, promise: Belongs) -> None:
    finding = found(kind)
    assert finding.decides("lock") is (promise != "none")
    asked = {require for require in REQUIREMENTS if finding.decides(require)}
    if promise == "record":
        assert asked == set(REQUIREMENTS)
    elif promise == "none":
        assert asked == set()
    else:
        assert asked == {"lock", promise} | ({"lease"} if promise == "exclusion" else set())


@pytest.mark.parametrize(("kind", "promise"), KINDS.items())
def test_what_is_undecided_breaks_only_exclusion_and_data(kind: str, promise: Belongs) -> None:
    finding = found(kind, "undecided")
    assert not finding.decides("lock") or promise == "record"
    asked = {require for require in PROMISES if finding.decides(require)}
    expected = {"exclusion": {"exclusion"}, "data": {"data"}, "record": set(PROMISES)}
    assert asked == expected.get(promise, set())


def test_a_client_that_outlived_its_lease_breaks_exclusion_and_data_where_these_are_required() -> None:
    overlap, lost = found("overlap", "client"), found("lost-update", "client")
    assert [require for require in REQUIREMENTS if overlap.decides(require)] == ["exclusion"]
    assert [require for require in REQUIREMENTS if lost.decides(require)] == ["data"]


def test_several_promises_are_required_at_once() -> None:
    assert found("lost-update", "client").decides("lock+data")
    assert not found("lost-update", "client").decides("lock+exclusion")
    assert found("unavailable-while-free").decides("lease+liveness")
    assert not found("late-grant").decides("exclusion+liveness")


def test_what_the_harness_is_to_blame_for_is_a_violation_whatever_is_required() -> None:
    assert all(found("lost-update", "harness").decides(require) for require in REQUIREMENTS)
    assert not any(found("fault-missed", "harness").decides(require) for require in REQUIREMENTS)


def test_how_a_promise_comes_out() -> None:
    def word(*findings: Finding, is_shown: bool = True) -> str:
        return outcome_of("liveness", findings, "lock", is_shown=is_shown).outcome

    assert word() == word(found("overlap")) == "kept"
    assert word(is_shown=False) == "unknown"
    assert (
        word(found("unavailable-while-free", "undecided"))
        == word(found("unavailable-while-free", "undecided"), is_shown=False)
        == "undecided"
    )
    assert word(found("unavailable-while-free"), found("no-recovery", "undecided"), is_shown=False) == "broken"


def test_a_kind_of_ones_own_names_its_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Finding("signature-lost", "lock", "it", promise="data")
    assert (mine.breaks, mine.decides("lock"), mine.decides("lease")) == ("data", True, False)
    answer = Answer(findings=(Finding("signature-lost", "lock", "it"),))
    guests = checkers.Checker("guests", lambda _: answer, CheckerFigures, only_if_named=False)
    monkeypatch.setattr("harness.checkers.judge.checkers_of", lambda _: {"guests": guests})
    with pytest.raises(InternalError, match="guests found a 'signature-lost'"):
        judge(History().recorded())


def test_a_finding_happened_when_its_earliest_example_did_unless_its_checker_says_otherwise() -> None:
    examples = ({"at_ms": 30.0}, {"at_ms": 10.0}, {"key": "k1"})
    assert Finding("overlap", "lock", "it", 5, examples).at_ms == 10
    assert Finding("overlap", "lock", "it", 5, examples, at_ms=4.0).at_ms == 4
    assert Finding("wrong-final-value", "resource", "it", 1, examples[2:]).at_ms is None

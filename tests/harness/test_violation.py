"""Which violation is looked for, and when it came about."""

from __future__ import annotations

import pytest

from fencepost.errors import UsageError
from harness.checkers.judge import judge
from harness.history.recorded import Recorded
from harness.replay.violation import Kind, Moment, choose_kind, gravest, moments_of
from harness.verdict import Finding, Verdict
from tests.judge.histories import History


def both(require: str = "exclusion") -> Recorded:
    """c1 outlives its lease and c2 walks in (client); then c1 and c2 are let in at once (lock)."""
    history = History(require=require)
    history.section("c1", 10, 200, deadline=110).section("c2", 150, 160)
    return history.section("c1", 300, 350, number=2).section("c2", 320, 360, number=2).recorded()


def found(run: Recorded, kind: Kind) -> Finding:
    finding = kind.among(judge(run))
    assert finding is not None
    return finding


def test_the_lock_s_violation_is_graver_than_a_client_s() -> None:
    verdict = judge(both())
    assert gravest(verdict) == choose_kind(verdict, None) == Kind("exclusion", "overlap", "lock")


def test_what_does_not_break_what_was_required_is_chosen_only_by_name() -> None:
    history = History(require="lease").section("c1", 10, 200, deadline=110).section("c2", 150, 160)
    verdict = judge(history.recorded())
    assert gravest(verdict) is None
    with pytest.raises(UsageError, match=r"no violation of --require lease; --kind can be .*overlap:client"):
        choose_kind(verdict, None)
    assert choose_kind(verdict, "overlap") == choose_kind(verdict, "overlap:client")


def test_a_kind_that_the_run_does_not_show_is_refused_with_those_that_it_does() -> None:
    verdict = judge(both())
    for wanted in ("overlap:undecided", "lost-update", "nonsense", ""):
        with pytest.raises(UsageError, match=r"overlap:lock, overlap:client|overlap:client, overlap:lock"):
            choose_kind(verdict, wanted)


def test_the_same_finding_with_another_blame_is_another_kind() -> None:
    verdict = judge(History(require="exclusion").section("c1", 0, 50).section("c2", 20, 60).recorded())
    assert Kind("exclusion", "overlap", "lock").among(verdict) is not None
    assert Kind("exclusion", "overlap", "client").among(verdict) is None


@pytest.mark.parametrize(("blame", "moment"), [("client", Moment(10, 150)), ("lock", Moment(300, 320))])
def test_an_overlap_came_about_from_the_first_section_s_begin_to_the_second_one_s(blame: str, moment: Moment) -> None:
    run = both()
    assert moments_of(run, found(run, Kind("exclusion", "overlap", blame))) == (moment,)  # type: ignore[arg-type]


def test_a_lost_update_came_about_from_the_first_section_s_begin_to_the_write_that_overwrote_it() -> None:
    finding = Finding(
        "lost-update",
        "client",
        "",
        examples=(
            {"key": "k1", "lost": {"client": "c1", "section": 2}, "by": {"client": "c2", "section": 2}, "at_ms": 350},
            {"key": "k1", "lost": {"client": "c2", "section": 1}, "by": {"client": "c1", "section": 1}, "at_ms": 190},
        ),
    )
    assert moments_of(both(), finding) == (Moment(10, 190), Moment(300, 350))


def test_examples_that_do_not_say_when_give_no_moment() -> None:
    finding = Finding("wrong-final-value", "resource", "", examples=({"key": "k1", "read": 3, "last_write": 4},))
    assert moments_of(both(), finding) == ()


def test_a_verdict_without_findings_has_no_kind() -> None:
    with pytest.raises(UsageError, match="it has no findings"):
        choose_kind(Verdict("valid", "lease", (), (), {}), None)

"""The rule: from runs to kept, broken or unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harness.campaign.folder import RunLine
from harness.checkers.kinds import kinds
from harness.survey.findings import About, Finding
from harness.survey.grid import FAULTS
from harness.survey.promises import ENOUGH, PROMISES, surveyed_as
from harness.survey.settle import Settled, beside, rows_of
from harness.survey.wording import controls
from tests.golden import Golden
from tests.survey import made
from tests.survey.made import HUNG, blamed, line


def answers(lines: list[RunLine], name: str = "redlock-ng", **more: Any) -> dict[str, Settled]:
    (row,) = rows_of([made.subject(name)], made.grid(name), lines, **more)
    return {settled.promise.name: settled for settled in row.settled}


def many(fault: str = "partition", runs: int = ENOUGH, **more: Any) -> list[RunLine]:
    return [line("redlock-ng", fault, seed=seed, **more) for seed in range(1, runs + 1)]


@pytest.mark.parametrize("kind", [kind for kind in kinds() if surveyed_as(kind) not in (None, "follows")])
def test_a_kind_of_finding_is_about_one_promise_unless_the_fault_decides_which(kind: str) -> None:
    about = [promise.name for promise in PROMISES if promise.is_about(kind)]
    assert len(about) == 1 or (kind, about) == ("unavailable-while-free", ["free", "minority", "hung"])


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        ("overlap", "exclusive"),
        ("late-grant", "validity"),
        ("lease-without-majority", "validity"),
        ("extension-without-majority", "extension"),
        ("orphan-outlasts-ttl", "free"),
        ("keys-left-behind", "orphans"),
        ("acquire-overrun", "timeout"),
    ],
)
def test_one_run_in_which_the_lock_is_blamed_breaks_its_promise_and_no_other(kind: str, promise: str) -> None:
    found = answers([*many(), line("redlock-ng", "jitter", "long holds", blamed(kind), verdict="violation")])
    assert {name for name, settled in found.items() if settled.answer == "broken"} == {promise}
    settled = found[promise]
    assert (settled.rate.events, settled.rate.trials) == (1, ENOUGH + 1)
    assert settled.by_fault == {"jitter": 1}
    assert settled.kinds == {kind: 1}
    assert [each.line.folder for each in settled.broken] == ["run-redlock-ng-jitter-long-holds-1"]


def test_kinds_of_finding_are_told_by_how_many_runs_had_them_and_else_as_they_came() -> None:
    kinds = ["overstated-validity", "no-validity", "late-grant", "lease-outlasts-keys", "lease-without-majority"]
    broken = [
        line("redlock-ng", "jitter", "long holds", *map(blamed, some), seed=seed, verdict="violation")
        for seed, some in enumerate((kinds, kinds[3:4]), start=1)
    ]
    assert list(answers(broken)["validity"].kinds) == [kinds[3], *kinds[:3], kinds[4]]


def test_a_promise_that_a_finding_shows_broken_is_not_kept_and_no_other_changes(golden: Golden) -> None:
    about = About("redlock-ng", "validity", "late-grant", "violation", "it.tar.xz")
    (row,) = rows_of([made.subject("redlock-ng")], made.grid("redlock-ng"), many())
    answered = {each.promise.name: each for each in row.settled}
    changed = {each.promise.name: each for each in beside(row, [Finding("it", about, "# A title")]).settled}
    assert {name for name in answered if changed[name] != answered[name]} == {"validity"}
    assert changed["validity"].answer == "unknown"
    golden(changed["validity"].why)
    (broken,) = rows_of(
        [row.subject], made.grid("redlock-ng"), [line("redlock-ng", "jitter", "long holds", blamed("late-grant"))]
    )
    assert beside(broken, [Finding("it", about, "# A title")]) == broken


def test_a_promise_that_a_replay_broke_is_not_kept_unless_the_lock_tells_that_its_lease_is_over() -> None:
    def after(name: str, *kinds: str) -> dict[str, str]:
        lines = [line(name, seed=seed) for seed in range(1, ENOUGH + 1)]
        (row,) = rows_of([made.subject(name)], made.grid(name), lines)
        replayed = dict.fromkeys(kinds, "as documented: TTL 10 s")
        return {each.promise.name: each.brief for each in beside(row, (), replayed).settled if each.answer == "unknown"}

    assert after("redlock-ng", "late-grant")["validity"] == "a replay broke it"
    assert "validity" not in after("redlock-node-5", "late-grant")
    assert "exclusive" not in after("redlock-ng", "late-grant", "unavailable-while-free")


def test_what_a_replay_broke_is_told_with_the_settings_of_that_replay() -> None:
    (row,) = rows_of([made.subject("redlock-ng")], made.grid("redlock-ng"), many())
    changed = {each.promise.name: each for each in beside(row, (), {"late-grant": "as documented: TTL 10 s"}).settled}
    assert changed["validity"].why.endswith(": late-grant (as documented: TTL 10 s)")


def test_a_promise_is_kept_if_it_was_at_stake_often_enough_and_shows_its_bound() -> None:
    found = answers(many())
    for name in ("exclusive", "validity", "extension", "free", "orphans", "timeout"):
        assert found[name].answer == "kept", name
        assert found[name].rate.trials == ENOUGH
        assert "at most 46 %" in found[name].why


def test_with_too_few_runs_nothing_is_kept() -> None:
    assert {settled.answer for settled in answers(many(runs=ENOUGH - 1)).values()} == {"unknown", "inapplicable"}


@pytest.mark.parametrize(
    ("promise", "missing"),
    [
        ("exclusive", {"faults_observed": 0}),
        ("exclusive", {"grants": 1}),
        ("exclusive", {"verdict": "unknown"}),
        ("validity", {"verdict": "unknown"}),
        ("extension", {"stakes": {"calls": {"acquire": {"ok": 90}, "extend": {"fail": 9}}}}),
        ("free", {"orphans": 0}),
        ("free", {"orphans": None}),
        ("orphans", {"stakes": {"keys_looked_at": 0}}),
        ("orphans", {"stakes": {"keys_looked_at": None}}),
        ("timeout", {"stakes": {"met": {"inside": 3}}}),
        ("minority", {"stakes": {"outages": (HUNG,)}}),
        ("hung", {}),
    ],
)
def test_runs_in_which_a_promise_was_not_at_stake_do_not_count(promise: str, missing: dict[str, Any]) -> None:
    settled = answers(many(**missing))[promise]
    assert (settled.answer, settled.why) == ("unknown", "never tested")


def test_a_lease_that_the_library_renews_by_itself_is_not_extended_by_its_user() -> None:
    lines = [line("redlock-renewing", use="renewed", seed=seed) for seed in range(1, ENOUGH + 1)]
    assert answers(lines, "redlock-renewing")["extension"].why == "never tested"


def test_a_run_that_broke_off_or_has_no_figures_counts_for_nothing() -> None:
    broke = [
        RunLine(cell=each.cell, seed=each.seed, folder="x", verdict="broke off", took_s=1, error="x") for each in many()
    ]
    (row,) = rows_of([made.subject("redlock-ng")], made.grid("redlock-ng"), broke)
    assert {each.why for each in row.settled if each.answer != "inapplicable"} == {"not played yet"}
    assert (row.runs, row.broke_off) == (0, ENOUGH)


def test_what_cannot_be_played_or_asked_says_why(golden: Golden) -> None:
    found = answers([], cannot={"redlock-ng": "it is not installed"})
    assert found["exclusive"].why == "not played: it is not installed"
    assert answers([], "redlock-py")["extension"].why == "its users cannot extend a lease"
    golden(answers(many(stakes={"acquire_limit_ms": None}))["timeout"].why)
    golden(answers([], "set-nx-px")["hung"].why)


@pytest.mark.parametrize(("fault", "promise"), [("server hung", "hung"), ("server killed, back empty", "minority")])
def test_a_lock_that_nobody_gets_is_held_against_the_fault_in_force(fault: str, promise: str) -> None:
    found = answers([line("redlock-ng", fault, "short holds", blamed("unavailable-while-free"))])
    assert {name for name, settled in found.items() if settled.answer == "broken"} == {promise}
    elsewhere = answers([line("redlock-ng", "jitter", "short holds", blamed("unavailable-while-free"))])
    assert {name for name, settled in elsewhere.items() if settled.answer == "broken"} == {"free"}


def test_an_outage_counts_if_it_was_long_and_somebody_got_in_meanwhile(golden: Golden) -> None:
    def hung(**changed: Any) -> Settled:
        outage = made.MinorityOutage(
            **{"how": "hung", "lasted_ms": 5_000, "grants": 9, "longest_idle_ms": 400} | changed
        )
        return answers(many("server hung", stakes={"outages": (outage,)}))["hung"]

    assert hung().answer == "kept"
    assert hung(lasted_ms=2_999).why == "never tested"
    assert hung(how="down").why == "never tested"
    golden(hung(longest_idle_ms=3_100).why)


def test_two_inside_because_a_clock_was_wrong_is_not_the_librarys_doing() -> None:
    def clocks(**parts: int) -> Any:
        stakes = {"overlaps_by_part": parts} if parts else {}
        one = line("redlock-ng", "clock set", "short holds", blamed("overlap"), verdict="violation", stakes=stakes)
        (row,) = rows_of([made.subject("redlock-ng")], made.grid("redlock-ng"), [one])
        return row

    for parts in ({"clock": 2, "library": 0}, {"servers": 1}, {"unknown": 1}, {}):
        row = clocks(**parts)
        assert row.settled[0].answer == "unknown", parts
        assert (row.clocks.events, row.clocks.trials) == (1, 1)
    spoilt = clocks(clock=2, library=1).settled[0]
    assert (spoilt.answer, spoilt.rate.trials) == ("unknown", 0), "a run with a wrong clock counts for nothing"
    plain = answers([line("redlock-ng", "jitter", "short holds", blamed("overlap"), verdict="violation")])
    assert plain["exclusive"].answer == "broken", "without a wrong clock it need not be shown which part failed"


def test_no_fault_but_a_wrong_clock_makes_two_inside_of_unknown_cause_anything_but_the_librarys_doing() -> None:
    def several(**parts: int) -> str:
        stakes = {"overlaps_by_part": parts} if parts else {}
        one = line("redlock-ng", "several at once", "short holds", blamed("overlap"), stakes=stakes)
        return answers([one])["exclusive"].answer

    assert several(servers=1) == "unknown", "the record shows that it was the server"
    for parts in ({"servers": 2, "unknown": 1}, {"unknown": 1}, {}, {"servers": 2, "library": 1}):
        assert several(**parts) == "broken", parts


def test_a_late_extension_that_did_no_harm_breaks_nothing_and_other_findings_are_told_apart() -> None:
    (row,) = rows_of(
        [made.subject("redlock-ng")],
        made.grid("redlock-ng"),
        [line("redlock-ng", "jitter", "extended", blamed("late-extension"), blamed("lease-lost-early"))],
    )
    assert not row.is_blamed
    assert row.others == {"late-extension": 1, "lease-lost-early": 1}


def test_a_lease_that_its_lock_says_is_over_is_too_short_and_safe() -> None:
    late = answers([line("redlock-node-5", "jitter", "long holds", blamed("late-grant"))], "redlock-node-5")
    assert late["validity"].answer == "unknown"
    untold = answers([line("redlock-ng", "jitter", "long holds", blamed("late-grant"))])
    assert untold["validity"].answer == "broken"
    gone = answers([line("redlock-node-5", "jitter", "long holds", blamed("lease-without-majority"))], "redlock-node-5")
    assert gone["validity"].answer == "broken"


def test_what_no_finding_explains_is_no_accusation_but_of_a_lock_of_ours() -> None:
    def settled(name: str, *findings: Finding, kinds: Sequence[str] = ("overlap",)) -> Settled:
        one = line(name, "jitter", "long holds", *map(blamed, kinds), verdict="violation")
        (row,) = rows_of([made.subject(name)], made.grid(name), [one])
        return beside(row, findings).settled[0]

    about = About("redlock-ng", "exclusive", "overlap", "violation", "it.tar.xz")
    assert settled("redlock-ng", Finding("it", about, "# A title")).answer == "broken"
    other = About("redlock-ng", "exclusive", "late-grant", "violation", "it.tar.xz")
    assert settled("redlock-ng", Finding("it", other, "# A title")).answer == "unknown", "of another kind"
    beneath = settled("redlock-ng", Finding("it", other, "# A title"), kinds=("overlap", "late-grant"))
    assert beneath.answer == "broken", "of a kind that every such run has, too"
    lines = [
        line("redlock-ng", "jitter", "long holds", *map(blamed, kinds), seed=seed, verdict="violation")
        for seed, kinds in enumerate((("overlap", "late-grant"), ("overlap",)), start=1)
    ]
    (row,) = rows_of([made.subject("redlock-ng")], made.grid("redlock-ng"), lines)
    assert beside(row, [Finding("it", other, "# A title")]).settled[0].answer == "unknown", "of one that only some have"
    unexplained = settled("redlock-ng")
    assert (unexplained.answer, unexplained.brief) == ("unknown", "1 of 1, unexplained")
    assert settled("control-quorum-of-two").answer == "broken"


def test_tokens_that_do_not_increase_are_held_against_locks_that_have_tokens() -> None:
    def tokens(name: str) -> Settled:
        return answers([line(name, "jitter", "long holds", blamed("token-not-increasing"))], name)["tokens"]

    assert tokens("redisson-fenced-lock").answer == "broken"
    assert tokens("redlock-token").answer == "broken"
    assert answers(many())["tokens"].answer == "inapplicable"


def test_a_correct_lock_may_break_what_it_is_known_not_to_keep() -> None:
    one = line("redlock-token", "jitter", "long holds", blamed("token-not-increasing"))
    (row,) = rows_of([made.subject("redlock-token")], made.grid("redlock-token"), [one])
    assert row.is_as_it_must_be is True
    assert "not blamed, but for tokens increase, of which it is known" in controls([row])[0]


@pytest.mark.parametrize(
    ("name", "found", "is_right"),
    [
        ("redlock", [], True),
        ("redlock", [blamed("late-grant")], False),
        ("control-quorum-of-two", [blamed("overlap")], True),
        ("redlock-ng", [blamed("overlap")], None),
    ],
)
def test_the_controls_show_whether_the_survey_can_be_relied_on(
    name: str, found: list[Any], is_right: bool | None
) -> None:
    (row,) = rows_of([made.subject(name)], made.grid(name), [line(name, "partition", "short holds", *found)])
    assert row.is_as_it_must_be is is_right
    assert controls([row]) == [] if is_right is None else ("relied on" in controls([row])[0]) is not is_right
    (nothing,) = rows_of([made.subject(name)], made.grid(name), [])
    assert nothing.is_as_it_must_be is None


@pytest.mark.parametrize(("runs", "is_right"), [(5, None), (6, False)])
def test_a_broken_lock_is_given_some_runs_to_be_caught_in(runs: int, is_right: bool | None) -> None:
    name = "control-quorum-of-two"
    lines = [line(name, "partition", "short holds", seed=seed) for seed in range(runs)]
    (row,) = rows_of([made.subject(name)], made.grid(name), lines)
    assert row.is_as_it_must_be is is_right
    (said,) = controls([row])
    assert said.endswith("5 runs, not blamed so far." if is_right is None else "nothing on this page can be relied on.")


def test_every_promise_can_be_at_stake_under_some_fault() -> None:
    assert {fault.outage for fault in FAULTS} == {None, "down", "hung"}

from __future__ import annotations

from harness.checkers import exclusion
from harness.checkers.exclusion import OVERLAP
from harness.checkers.faults import MISSED as FAULT_MISSED
from harness.checkers.kinds import kinds
from harness.checkers.liveness import NO_RECOVERY
from harness.checkers.updates import LOST_UPDATE
from harness.explain.causes import Cause
from harness.explain.examples import Case
from harness.explain.explanation import Explained, Explanation
from harness.limits import Limit, LimitOutcome
from harness.report import wording
from harness.verdict import Blame, Finding, Outcome, Verdict, Word
from tests.golden import Golden


def test_the_headline_of_a_violation_names_the_lock_first(golden: Golden) -> None:
    client, lock = OVERLAP.found("client", "2 overlaps", 2, ()), OVERLAP.found("lock", "1 overlap", 1, ())
    verdict = Verdict("violation", "exclusion", (client, lock), (), {})
    golden("\n".join(wording.headline(verdict)))


OVERLAPS = exclusion.Figures(1234, {"lock": 0, "client": 2, "undecided": 0}, 2, 1.5)
BY_A_CLIENT = OVERLAP.found("client", "2 overlaps", 2, ())
LOST = LOST_UPDATE.found("client", "24 of 137 updates were lost", 24, ())
STUCK = NO_RECOVERY.found("lock", "no client acquired", 1, ())
MISSED = FAULT_MISSED.found("harness", "1 of 9 faults was not seen to take", 1, ())


def test_the_headline_of_a_valid_run_says_what_else_was_broken(golden: Golden) -> None:
    verdict = Verdict("valid", "lease", (BY_A_CLIENT, STUCK), (), {"exclusion": OVERLAPS})
    golden("\n".join(wording.headline(verdict)))


def test_the_headline_of_a_valid_run_says_first_that_data_were_lost(golden: Golden) -> None:
    verdict = Verdict("valid", "lease", (BY_A_CLIENT, STUCK, LOST), (), {"exclusion": OVERLAPS})
    golden(wording.headline(verdict)[1])


def test_the_headline_of_an_unknown_run_says_that_data_were_lost(golden: Golden) -> None:
    verdict = Verdict("unknown", "lease", (LOST,), ("too few faults",), {"exclusion": OVERLAPS})
    golden("\n".join(wording.headline(verdict)))


def test_what_breaks_no_promise_is_not_in_the_headline(golden: Golden) -> None:
    verdict = Verdict("valid", "lease", (MISSED,), (), {"exclusion": OVERLAPS})
    golden("\n".join(wording.headline(verdict)))


def test_each_promise_is_named_with_how_it_came_out() -> None:
    promises = (
        Outcome("exclusion", "kept"),
        Outcome("lease", "undecided"),
        Outcome("liveness", "broken", decides=True),
        Outcome("data", "broken"),
    )
    more = LOST_UPDATE.found("undecided", "2 more were lost", 2, ())
    verdict = Verdict("violation", "lock", (STUCK, LOST, more), (), {}, promises=promises)
    exclusion, lease, liveness, data = wording.promises(verdict).split(" · ")
    assert (exclusion, lease, liveness) == ("exclusion kept", "lease undecided", "liveness BROKEN")
    assert "26 × lost update" in data
    assert "not required" in data
    assert wording.promises(Verdict("unknown", "lock", (), (), {})) == ""


def test_the_headline_names_everything_that_was_required() -> None:
    _, says = wording.headline(Verdict("valid", "lock+data", (), (), {"exclusion": OVERLAPS}))
    assert "no promise broken by the lock" in says
    assert "no lost update" in says


def test_an_unknown_verdict_says_why() -> None:
    verdict = Verdict("unknown", "lease", (), ("no client", "no fault seen."), {})
    assert wording.headline(verdict) == ("UNKNOWN", "no client; no fault seen")


def test_an_example_names_eight_of_many(golden: Golden) -> None:
    golden(wording.example({"clients": tuple("abcdefgh")}))
    assert wording.example({"clients": tuple("abcdefghij")}).endswith("g and h and 2 more")


def test_an_example_cuts_a_long_text_short() -> None:
    assert wording.example({"what": "x" * 200}) == f"what {'x' * 200}"
    assert wording.example({"what": "x" * 201}) == f"what {'x' * 199}…"


def test_an_example_reads_like_a_sentence(golden: Golden) -> None:
    side = {"client": "c1", "life": 1, "section": 4, "start_ms": 1200.0, "end_ms": 1274.5}
    golden(wording.example({"key": "k1", "at_ms": 1234.56, "earlier": side}))


def found(kind: str, count: int, at_ms: float | None = None, blame: Blame = "lock") -> Finding:
    return kinds()[kind].found(blame, "a sentence of its own", count, (), at_ms)


def because_of(cause: Cause, *findings: Finding) -> tuple[Explained, ...]:
    return tuple(Explained(each, (Explanation(Case(each, {}, {}), "So.", cause=cause),)) for each in findings)


def test_the_headline_of_a_violation_begins_with_the_cause_and_then_says_what_it_led_to(golden: Golden) -> None:
    belief, overlap = found("lease-without-majority", 36, 2_400), found("overlap", 9, 2_410)
    lost = found("lost-update", 31, 9_000)
    verdict = Verdict("violation", "lock", (overlap, lost, belief), (), {})
    golden(wording.headline(verdict, because_of("deleted", belief, overlap))[1])


def test_what_began_before_the_case_that_names_the_cause_did_not_come_of_it() -> None:
    grant, overlap = found("grant-before-majority", 1, 17_000), found("overlap", 692, 60)
    verdict = Verdict("violation", "lock", (overlap, grant), (), {})
    _, says = wording.headline(verdict, because_of("too few nodes", grant, overlap))
    assert "after 17 s; related: 692 overlaps;" in says


def test_the_gravest_consequences_are_named_and_the_others_counted(golden: Golden) -> None:
    led_to = ("late-grant", "lease-lost-early", "lost-update", "keys-left-behind", "overlap")
    first, others = (
        found("changed-another-clients-key", 2, 1),
        [found(kind, 1, place + 2) for place, kind in enumerate(led_to)],
    )
    verdict = Verdict("violation", "lock", (*others, first), (), {})
    golden(wording.headline(verdict, because_of("deleted", first, *others))[1])


def test_causes_that_have_nothing_to_do_with_each_other_are_counted() -> None:
    verdict = Verdict("violation", "lock", (found("overlap", 1, 5), found("late-grant", 1, 9), MISSED), (), {})
    says = wording.headline(verdict)[1]
    assert (says.startswith("1 overlap, after 5.0 ms;"), says.endswith("(and 1 other cause)")) == (True, True)


def test_a_headline_that_was_kept_is_shown_where_nothing_is_explained() -> None:
    verdict = Verdict("violation", "lock", (belief := found("lease-without-majority", 1, 5),), (), {})
    explained = because_of("expired", belief)
    kept = wording.with_headline(verdict, explained)
    assert wording.headline(kept) == wording.headline(verdict, explained) != wording.headline(verdict)


SLOW = LimitOutcome(Limit("acquire p99", "<", 200), "missed", 312)
UNWATCHED = LimitOutcome(Limit("orphans", "=", 0), "unknown", None)


def test_a_missed_limit_is_the_headline_unless_the_lock_broke_a_promise(golden: Golden) -> None:
    valid, unknown = (Verdict(word, "lock", (LOST,), reasons, {}, limits=(SLOW,)) for word, reasons in _NOT_BROKEN)
    broken = Verdict("violation", "lock", (found("overlap", 1),), (), {}, limits=(SLOW,))
    for verdict in (valid, unknown, broken):
        golden("\n".join(wording.headline(verdict)))
        assert list(wording.outcomes(verdict)) == [f"limits: {SLOW} (MISSED)"]


_NOT_BROKEN: tuple[tuple[Word, tuple[str, ...]], ...] = (("valid", ()), ("unknown", ("too few faults",)))


def test_a_limit_that_was_not_measured_makes_a_valid_run_unknown(golden: Golden) -> None:
    verdict = Verdict("valid", "lock", (), (), {}, limits=(UNWATCHED,))
    golden("\n".join(wording.headline(verdict)))

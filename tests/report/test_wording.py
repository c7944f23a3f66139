from __future__ import annotations

from harness.checkers import exclusion
from harness.checkers.exclusion import OVERLAP
from harness.checkers.faults import MISSED as FAULT_MISSED
from harness.checkers.liveness import NO_RECOVERY
from harness.checkers.updates import LOST_UPDATE
from harness.report import wording
from harness.verdict import Outcome, Verdict
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
    verdict = Verdict("unknown", "lease", (), ("nobody acquired", "no fault was seen."), {})
    assert wording.headline(verdict) == ("UNKNOWN", "nobody acquired; no fault was seen")


def test_an_example_names_eight_of_many(golden: Golden) -> None:
    golden(wording.example({"clients": tuple("abcdefgh")}))
    assert wording.example({"clients": tuple("abcdefghij")}).endswith("g and h and 2 more")


def test_an_example_cuts_a_long_text_short() -> None:
    assert wording.example({"what": "x" * 200}) == f"what {'x' * 200}"
    assert wording.example({"what": "x" * 201}) == f"what {'x' * 199}…"


def test_an_example_reads_like_a_sentence(golden: Golden) -> None:
    side = {"client": "c1", "life": 1, "section": 4, "start_ms": 1200.0, "end_ms": 1274.5}
    golden(wording.example({"key": "k1", "at_ms": 1234.56, "earlier": side}))

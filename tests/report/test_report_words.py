from __future__ import annotations

import pytest

from harness.checkers.base import Finding, Verdict
from harness.report import words


def test_the_bound_for_nothing_in_500_is_the_exact_two_sided_one() -> None:
    assert words.upper_bound_percent(500) == pytest.approx(0.7351, abs=0.0001)
    assert words.bound(500) == "95 % upper bound 0.74 %"


def test_the_bound_is_the_rate_at_which_nothing_would_be_seen_in_one_run_of_forty() -> None:
    for trials in (1, 7, 1234, 10_000_000):
        rate = words.upper_bound_percent(trials) / 100
        assert (1 - rate) ** trials == pytest.approx(0.025, rel=1e-6)


def test_a_zero_count_is_shown_with_its_bound_and_any_other_count_without() -> None:
    assert words.of_sections(0, 1234) == "0 of 1,234 sections (95 % upper bound 0.30 %)"
    assert words.of_sections(3, 1234) == "3 of 1,234 sections"
    assert words.of_sections(0, 0) == "0 of 0 sections"


def test_a_shown_bound_is_never_below_the_exact_one() -> None:
    for trials in range(1, 3000, 7):
        shown = float(words.bound(trials).split()[-2])
        assert words.upper_bound_percent(trials) <= shown + 1e-9 <= words.upper_bound_percent(trials) * 1.11 + 1e-9


@pytest.mark.parametrize(
    ("value_ms", "shown"),
    [(0.085, "85 µs"), (3.21, "3.2 ms"), (410.4, "410 ms"), (2310, "2.31 s"), (250_000, "4 min 10 s"), (None, "–")],
)
def test_durations_come_with_the_unit_that_reads_best(value_ms: float | None, shown: str) -> None:
    assert words.milliseconds(value_ms) == shown


def test_the_headline_of_a_violation_names_the_lock_first() -> None:
    client = Finding("exclusion", "overlap", "client", "2 overlaps", breaks=("exclusion",))
    lock = Finding("exclusion", "overlap", "lock", "1 overlap", breaks=("lease", "exclusion"))
    verdict = Verdict("violation", "exclusion", (client, lock), (), {})
    assert words.headline(verdict) == ("VIOLATION", "the lock is to blame: 1 overlap (and 1 more finding)")


def test_findings_that_do_not_break_the_requirement_are_not_in_the_headline() -> None:
    client = Finding("exclusion", "overlap", "client", "2 overlaps", breaks=("exclusion",))
    figures: dict[str, dict[str, object]] = {"exclusion": {"sections": 1234}}
    assert words.headline(Verdict("valid", "lease", (client,), (), figures)) == (
        "VALID",
        "no overlap blamed on the lock in 1,234 sections",
    )


def test_an_unknown_verdict_says_why() -> None:
    verdict = Verdict("unknown", "lease", (), ("nobody acquired", "no fault was seen."), {})
    assert words.headline(verdict) == ("UNKNOWN", "nobody acquired; no fault was seen")


def test_what_foreign_programs_wrote_cannot_steer_a_terminal() -> None:
    shown = words.printable("bad\x1b[2J\nline\ud800\u202e")
    assert shown == "bad\N{REPLACEMENT CHARACTER}[2J line\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"


def test_an_example_reads_like_a_sentence() -> None:
    side = {"client": "c1", "life": 1, "section": 4, "start_ms": 1200.0, "end_ms": 1274.5}
    text = words.example({"key": "k1", "overlap_from_ms": 1234.56, "earlier": side})
    assert text == "key k1 · overlap from 1,234.6 ms · earlier c1 in section 4 (1,200.0 to 1,274.5 ms)"

from __future__ import annotations

import pytest

from fencepost import text


def test_the_bound_for_nothing_in_500_is_the_exact_two_sided_one() -> None:
    assert text.upper_bound_percent(500) == pytest.approx(0.7351, abs=0.0001)
    assert text.bound(500) == "95 % upper bound for this run 0.74 %"


def test_the_bound_is_the_rate_at_which_nothing_would_be_seen_in_one_run_of_forty() -> None:
    for trials in (1, 7, 1234, 10_000_000):
        rate = text.upper_bound_percent(trials) / 100
        assert (1 - rate) ** trials == pytest.approx(0.025, rel=1e-6)


def test_a_zero_count_is_shown_with_its_bound_and_any_other_count_without() -> None:
    assert text.of_sections(0, 1234) == "0 of 1,234 sections (95 % upper bound for this run 0.30 %)"
    assert text.of_sections(3, 1234) == "3 of 1,234 sections"
    assert text.of_sections(0, 0) == "0 of 0 sections"


def test_a_shown_bound_is_never_below_the_exact_one() -> None:
    for trials in range(1, 3000, 7):
        shown = float(text.bound(trials).split()[-2])
        assert text.upper_bound_percent(trials) <= shown + 1e-9 <= text.upper_bound_percent(trials) * 1.11 + 1e-9


def test_a_long_text_ends_in_an_ellipsis() -> None:
    assert [text.cut("k1\nk2", most) for most in (5, 4, 1)] == ["k1 k2", "k1 …", "…"]


@pytest.mark.parametrize(
    ("value_ms", "shown"),
    [
        *[
            (0.085, "85 µs"),
            (3.21, "3.2 ms"),
            (410.4, "410 ms"),
            (2310, "2.31 s"),
            (250_000, "4 min 10 s"),
            (None, "–"),
        ],
        *[(0.0, "0 ms"), (-0.0, "0 ms"), (-0.0004, "0 ms"), (0.0006, "1 µs")],
    ],
)
def test_durations_come_with_the_unit_that_reads_best(value_ms: float | None, shown: str) -> None:
    assert text.milliseconds(value_ms) == shown


def test_what_foreign_programs_wrote_cannot_steer_a_terminal() -> None:
    shown = text.printable("bad\x1b[2J\nline\ud800\u202e")
    assert shown == "bad\N{REPLACEMENT CHARACTER}[2J line\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"


def test_bytes_are_shown_as_text_if_they_are_text_and_else_without_losing_any() -> None:
    assert text.text_of("größer".encode()) == "größer"
    assert text.text_of(b"\xff\x00a") == "0xff0061"
    assert len({text.text_of(bytes([first, 0xFF])) for first in range(256)}) == 256

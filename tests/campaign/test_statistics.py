from __future__ import annotations

import re
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.text import upper_bound_percent
from harness.campaign import wording
from harness.campaign.statistics import difference, holm, mcnemar, rate


def test_nothing_in_500_leaves_an_upper_bound_of_0_74_percent() -> None:
    found = rate(0, 500)
    assert (found.low, round(100 * found.high, 2)) == (0.0, 0.74)
    assert 100 * found.high == pytest.approx(upper_bound_percent(500))
    assert wording.interval(found) == "at most 0.74 %"


def test_the_ends_of_the_exact_interval_have_tails_of_two_and_a_half_percent() -> None:
    found = rate(3, 20)

    def at_most(k: int, p: float) -> float:
        return sum(comb(20, i) * p**i * (1 - p) ** (20 - i) for i in range(k + 1))

    assert at_most(3, found.high) == pytest.approx(0.025)
    assert 1 - at_most(2, found.low) == pytest.approx(0.025)


def test_fishers_test_is_the_sum_of_the_tables_that_are_as_unlikely() -> None:
    """3 of 4 against 1 of 4: the margins allow tables with 0 to 4, with weights 1, 16, 36, 16, 1 of 70; as unlikely as
    the one seen are 1 + 16 + 16 + 1."""
    found = difference(rate(1, 4), rate(3, 4))
    assert found is not None
    assert found.p == pytest.approx(34 / 70)
    assert found.share == pytest.approx(0.5)


def test_the_interval_of_a_difference_is_newcombes() -> None:
    """His example (1998, table II, a): 56 of 70 and 48 of 80 differ by 0.20, from 0.0524 to 0.3339."""
    found = difference(rate(48, 80), rate(56, 70))
    assert found is not None
    assert (round(found.share, 4), round(found.low, 4), round(found.high, 4)) == (0.2, 0.0524, 0.3339)


def test_a_difference_from_nothing_is_none() -> None:
    assert difference(rate(0, 0), rate(1, 2)) is None


def test_mcnemars_test_looks_only_where_the_two_differ() -> None:
    pairs = [(True, True)] * 9 + [(False, False)] * 9 + [(True, False)] * 5
    assert mcnemar(pairs) == pytest.approx(2 / 2**5)
    assert mcnemar([(True, True)]) == 1.0


def test_holm_adjusts_the_smallest_most_and_keeps_the_order() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([]) == []


@pytest.mark.parametrize("trials", [1, 3, 17, 100, 12_345])
def test_a_zero_is_never_written_without_its_bound_and_the_bound_is_never_understated(trials: int) -> None:
    text = wording.counted(rate(0, trials))
    assert text.startswith(f"0 of {trials:,}: at most ")
    assert float(text.split()[-2]) >= 100 * rate(0, trials).high - 1e-9


def test_a_rate_without_trials_claims_nothing() -> None:
    assert wording.counted(rate(0, 0)) == "0 of 0: nothing was tried"


def test_more_events_than_trials_are_no_rate() -> None:
    with pytest.raises(ValueError, match="no rate"):
        rate(3, 2)


def test_small_and_large_shares_keep_two_digits() -> None:
    assert wording.percent(0.000123) == "0.012 %"
    assert wording.percent(0.5) == "50 %"
    assert wording.percent(0.994) == "99 %"
    assert wording.percent(0.996) == "99.6 %"
    assert wording.percent(0.9999) == ">99.9 %"
    assert wording.percent(1.0) == "100 %"
    assert wording.interval(rate(2, 30)) == "6.7 % (0.82 % to 23 %)"


def _number(percent: str) -> float:
    return float(percent.strip(" %<>"))


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_is_never_a_smaller_percentage_and_only_all_is_100(one: float, another: float) -> None:
    low, high = sorted((one, another))
    assert 0 <= _number(wording.percent(low)) <= _number(wording.percent(high)) <= 100
    assert (wording.percent(high) == "100 %") is (high == 1)
    assert _number(wording.percent(low, up=True)) >= 100 * low - 1e-6


@given(st.integers(1, 500).flatmap(lambda trials: st.tuples(st.integers(1, trials), st.just(trials))))
def test_a_rate_lies_between_the_ends_of_its_interval_as_they_are_written(of: tuple[int, int]) -> None:
    share, low, high = re.findall(r"[\d.]+", wording.interval(rate(*of)))
    assert float(low) <= float(share) <= float(high) <= 100

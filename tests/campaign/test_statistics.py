from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from harness.campaign import wording
from harness.campaign.statistics import Count, difference, holm, paired, rate, rate_of, yes_or_no

COUNTS = st.integers(1, 400).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials)))
RUNS = st.lists(COUNTS, min_size=1, max_size=12)


def ends(counts: Sequence[Count]) -> tuple[float, float]:
    found = rate_of(counts)
    return found.low, found.high


HITS = st.integers(1, 40).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs)))


@given(HITS, HITS)
def test_the_p_of_runs_that_show_it_or_not_is_that_of_fishers_exact_test(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    found = difference(yes_or_no(*first), yes_or_no(*second))
    assert found is not None
    table = [[hits, runs - hits] for hits, runs in (first, second)]
    assert found.p == pytest.approx(scipy.stats.fisher_exact(table).pvalue, abs=1e-12)


def test_nothing_in_500_runs_leaves_an_upper_bound_of_0_74_percent() -> None:
    found = rate(0, 500)
    assert (found.low, round(100 * found.high, 2)) == (0.0, 0.74)
    assert wording.interval(found) == "at most 0.74 % of runs"


@given(st.integers(1, 200).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs))))
def test_the_interval_is_clopper_and_pearsons_where_a_run_is_one_trial(of: tuple[int, int]) -> None:
    found, exact = rate(*of), scipy.stats.binomtest(*of).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_an_end_is_the_quantile_of_the_mean_weighted_at_random_with_one_more_run_at_worst() -> None:
    counts = [(0, 14), (2, 14), (3, 9), (9, 14)]
    weights = np.random.default_rng(1).standard_exponential((200_000, 5))
    of_runs = np.array([events / trials for events, trials in counts])
    for worst, end, tail in ((0, rate_of(counts).low, 0.025), (1, rate_of(counts).high, 0.975)):
        means = weights @ np.append(of_runs, worst) / weights.sum(axis=1)
        assert end == pytest.approx(np.quantile(means, tail), abs=0.003)


@given(RUNS)
def test_the_interval_contains_the_rate_and_what_did_not_happen_mirrors_it(counts: list[Count]) -> None:
    found = rate_of(counts)
    assert found.share is not None
    assert 0 <= found.low <= found.share + 1e-9
    assert found.share - 1e-9 <= found.high <= 1
    spared = rate_of([(trials - events, trials) for events, trials in counts])
    assert (spared.low, spared.high) == pytest.approx((1 - found.high, 1 - found.low), abs=1e-9)


@given(RUNS, st.integers(2, 50), st.data())
def test_sections_that_are_counted_again_within_their_run_add_no_evidence(
    counts: list[Count], times: int, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(counts) - 1))
    events, trials = counts[place]
    again = [*counts[:place], (times * events, times * trials), *counts[place + 1 :]]
    assert ends(again) == pytest.approx(ends(counts), abs=1e-9)


@given(RUNS, st.integers(1, 400), st.integers(2, 4))
def test_more_runs_narrow_the_interval(counts: list[Count], trials: int, times: int) -> None:
    low, high = ends(counts)
    assert ends([*counts, (0, trials)])[1] <= high + 1e-9, "one more run without an event"
    assert ends([*counts, (trials, trials)])[0] >= low - 1e-9, "one more in which everything went wrong"
    more_low, more_high = ends(counts * times)
    assert low - 1e-9 <= more_low <= more_high <= high + 1e-9


@given(RUNS, st.data())
def test_one_more_event_never_lowers_an_end(counts: list[Count], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(counts) - 1))
    events, trials = counts[place]
    more = [*counts[:place], (min(events + 1, trials), trials), *counts[place + 1 :]]
    assert all(after >= before - 1e-9 for before, after in zip(ends(counts), ends(more), strict=True))


@given(st.lists(st.integers(1, 100_000), min_size=1, max_size=30))
def test_without_an_event_only_the_number_of_runs_counts(trials: list[int]) -> None:
    found = rate_of([(0, each) for each in trials])
    assert (found.events, found.trials, found.runs) == (0, sum(trials), len(trials))
    assert found.high == pytest.approx(1 - 0.025 ** (1 / len(trials)))


def test_a_run_without_a_trial_says_nothing() -> None:
    assert rate_of([(1, 4), (0, 0)]) == rate_of([(1, 4)])
    assert (rate_of([(0, 0)]).share, *ends([(0, 0)])) == (None, 0.0, 1.0)


def test_the_interval_covers_clustered_rates_and_one_of_independent_trials_does_not() -> None:
    """Five runs of 14 outages, whose own rates are 30 % on average and differ (intraclass correlation 0.3)."""
    draw, times = np.random.default_rng(2), 300
    own = draw.beta(0.3 * 7 / 3, 0.7 * 7 / 3, (times, 5))
    hits = draw.binomial(14, own)
    by_run = [ends([(int(events), 14) for events in of_runs]) for of_runs in hits]
    pooled = [scipy.stats.binomtest(int(of_runs.sum()), 70).proportion_ci(0.95, method="exact") for of_runs in hits]
    assert sum(low <= 0.3 <= high for low, high in by_run) >= 0.95 * times
    assert sum(found.low <= 0.3 <= found.high for found in pooled) < 0.75 * times


def test_fishers_test_is_the_sum_of_the_tables_that_are_as_unlikely() -> None:
    """3 of 4 against 1 of 4: the margins allow tables with 0 to 4, with weights 1, 16, 36, 16, 1 of 70; as unlikely as
    the one seen are 1 + 16 + 16 + 1."""
    found = difference(yes_or_no(1, 4), yes_or_no(3, 4))
    assert found is not None
    assert found.p == pytest.approx(34 / 70)
    assert found.share == pytest.approx(0.5)


def test_runs_of_many_trials_are_dealt_to_the_two_groups_in_every_way() -> None:
    few, many = [(0, 10), (0, 200), (1, 10)], [(5, 10), (6, 10), (140, 200)]
    found = difference(few, many)
    assert found is not None
    assert found.p == pytest.approx(2 / 20), "no other deal but the mirrored one sets them so far apart"
    more = difference(few * 10, many * 10)
    assert more is not None
    assert more.p == pytest.approx(1 / 10_000), "of so many runs some deals are drawn"


@given(RUNS, RUNS)
def test_a_difference_lies_within_its_interval_and_turns_around(first: list[Count], second: list[Count]) -> None:
    there, back = difference(first, second), difference(second, first)
    assert there is not None
    assert back is not None
    assert -1 - 1e-9 <= there.low <= there.share + 1e-9
    assert there.share - 1e-9 <= there.high <= 1 + 1e-9
    assert (back.share, back.low, back.high) == pytest.approx((-there.share, -there.high, -there.low), abs=1e-9)
    assert 0 < there.p <= 1
    assert back.p == pytest.approx(there.p, abs=0.05)


def test_a_difference_from_nothing_is_none() -> None:
    assert difference([], yes_or_no(1, 2)) is None
    assert difference([(0, 0)], yes_or_no(1, 2)) is None


def test_mcnemars_test_looks_only_where_the_two_differ() -> None:
    hit, spared = (1, 1), (0, 1)
    pairs = [(hit, hit)] * 9 + [(spared, spared)] * 9 + [(hit, spared)] * 5
    assert paired(pairs) == pytest.approx(2 / 2**5)
    assert paired([(hit, hit)]) == 1.0


def test_pairs_of_runs_are_compared_by_their_rates_and_those_without_a_trial_left_out() -> None:
    assert paired([((3, 10), (100, 200)), ((0, 10), (1, 10)), ((0, 4), (4, 4)), ((0, 0), (4, 4))]) == 2 / 2**3
    assert paired([((0, 10), (1, 10))] * 40) == pytest.approx(1 / 10_000), "of so many pairs some signs are drawn"


def test_holm_adjusts_the_smallest_most_and_keeps_the_order() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([]) == []


@pytest.mark.parametrize("trials", [1, 3, 17, 100, 12_345])
def test_a_zero_is_never_written_without_its_bound_and_the_bound_is_never_understated(trials: int) -> None:
    text = wording.counted(rate(0, trials))
    assert text.startswith(f"0 of {trials:,}: at most ")
    assert float(text.split()[-4]) >= 100 * rate(0, trials).high - 1e-9


def test_runs_of_many_trials_are_said_to_be_how_many() -> None:
    text = wording.counted(rate_of([(0, 20), (0, 30)]), "crashes")
    assert text.startswith("0 of 50 crashes")
    assert text.endswith("85 % of runs")


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

"""What the proxy adds to a request: percentiles of one distribution, and what is said of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.run.proxy_overhead import overhead_us

times_us = st.floats(1, 10_000)


@given(st.lists(st.tuples(times_us, times_us), min_size=1))
def test_a_higher_percentile_is_never_less(pairs: list[tuple[float, float]]) -> None:
    found = overhead_us(pairs)
    for name in ("direct", "through", "added"):
        assert found[f"{name}_p50"] <= found[f"{name}_p99"]


@given(st.lists(times_us, min_size=1), st.floats(1, 1_000))
def test_what_is_added_every_time_is_added_at_every_percentile(direct: list[float], added: float) -> None:
    found = overhead_us([(time, time + added) for time in direct])
    assert found["added_p50"] == pytest.approx(added, abs=0.06)
    assert found["added_p99"] == pytest.approx(added, abs=0.06)


def test_one_slow_ping_on_the_direct_way_does_not_hide_what_the_proxy_adds() -> None:
    """The difference of the two 99th percentiles would be less than nothing."""
    found = overhead_us([(50.0, 170.0)] * 90 + [(4_000.0, 170.0)] * 10)
    assert found["through_p99"] < found["direct_p99"]
    assert found["added_p50"] == found["added_p99"] == 120

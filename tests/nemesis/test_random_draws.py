"""Draws use nothing but `Random.random()` and stay within their bounds."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from nemesis.random_draws import below, between, by_octaves, jittered, one_of, shuffled, some, weighted


class OnlyRandom(Random):
    """Every method but `random` may change between versions of Python, so using one is an error."""

    def getrandbits(self, k: int) -> int:
        raise AssertionError("getrandbits is not promised to stay the same")


@pytest.mark.parametrize("seed", range(20))
def test_draws_need_only_random(seed: int) -> None:
    rng = OnlyRandom(f"{seed}")
    assert 0 <= below(rng, 7) < 7
    assert one_of(rng, "abc") in "abc"
    assert weighted(rng, {"a": 1, "b": 3}) in "ab"
    assert sorted(shuffled(rng, range(9))) == list(range(9))
    assert 500 <= jittered(rng, 1000) <= 1500
    assert 2 <= between(rng, 2, 3) <= 3
    assert 5 <= by_octaves(rng, 5, 1300) <= 1300
    assert by_octaves(rng, 200, 200) == 200
    assert 0 <= by_octaves(rng, 0, 10) <= 10


def test_some_keeps_the_order_of_the_items_and_their_number() -> None:
    for seed in range(50):
        picked = some(Random(seed), "abcdefg", 3)
        assert len(picked) == 3
        assert list(picked) == sorted(picked)


def test_each_doubling_is_as_likely_as_the_next() -> None:
    rng = Random(1)
    octaves: Counter[int] = Counter()
    for _ in range(10_000):
        value, octave = by_octaves(rng, 5, 160), 0
        while value >= 10:
            value, octave = value / 2, octave + 1
        octaves[octave] += 1
    assert sorted(octaves) == [0, 1, 2, 3, 4]
    assert all(1_800 < count < 2_200 for count in octaves.values())


def test_the_draws_of_a_seed_are_these_and_stay_these() -> None:
    rng = Random("7:partition:0")
    assert [below(rng, 1_000) for _ in range(4)] == [761, 977, 521, 511]
    assert "".join(shuffled(rng, "abcdefg")) == "bgdcfea"
    assert by_octaves(rng, 5, 1_300).hex() == "0x1.2a2d4c29bfa72p+9"

"""Waiting for servers ends soon after the run was called off, however many there are."""

from __future__ import annotations

import time

import pytest

from cluster.base import NotInTimeError
from cluster.polling import HURRY_S, Patience


def test_all_that_is_awaited_after_a_stop_shares_one_second() -> None:
    patience = Patience(lambda: True)
    began_s = time.monotonic()
    for _ in range(20):
        with pytest.raises(NotInTimeError, match="an answer of n1 was not awaited"):
            patience.becomes_true(lambda: False, "an answer of n1", within_s=60)
    assert HURRY_S <= time.monotonic() - began_s < HURRY_S + 5
    assert patience.becomes_true(lambda: True, "an answer of n1", within_s=60), "what holds already needs no time"


def test_without_a_stop_it_waits_until_the_time_is_up() -> None:
    patience = Patience(lambda: False)
    assert not patience.becomes_true(lambda: False, "an answer", within_s=0.05)
    assert not patience.is_over()

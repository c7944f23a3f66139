"""Asking to stop reaches everybody who watches, and nobody else."""

from __future__ import annotations

import signal

import pytest

from harness.run.interruption import Interruption


def test_a_run_among_many_and_what_makes_them_are_both_told() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption().watch() as outer:
        with Interruption().watch() as inner:
            signal.raise_signal(signal.SIGINT)
            assert inner
        assert outer
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_handler_that_was_there_before_is_not_called_while_somebody_watches(number: signal.Signals) -> None:
    with Interruption().watch() as interruption:
        signal.raise_signal(number)
        assert interruption


def test_nobody_asked_nobody_is_told() -> None:
    with Interruption().watch() as interruption:
        pass
    assert not interruption

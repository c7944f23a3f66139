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


def test_what_was_ignored_before_stays_ignored() -> None:
    """As SIGHUP is under nohup, and Ctrl-C in a job that a script started in the background."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption().watch() as interruption:
            signal.raise_signal(signal.SIGHUP)
            assert not interruption
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)

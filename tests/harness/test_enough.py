"""A run that was made for one finding ends when its record shows it, and is asked about it now and then only."""

from __future__ import annotations

import pytest

from harness.run import scheduled
from harness.run.scheduled import Sparing


def asked(answers: list[bool], every_ms: float = 100, until_ms: float = 5_000) -> tuple[float | None, int]:
    """When the run has shown enough, if ever, and how often this was asked."""
    left = list(answers)
    sparing = Sparing(lambda: left.pop(0))
    at_ms = 0.0
    while at_ms < until_ms and left:
        if sparing.at(at_ms):
            return at_ms, len(answers) - len(left)
        at_ms += every_ms
    return None, len(answers) - len(left)


def test_it_must_be_seen_twice_in_a_row() -> None:
    """The record is a moment behind: what a fault does is in it before the fault is."""
    assert asked([True, True, True]) == (800, 2)
    assert asked([False, True, True, True]) == (1200, 3)
    assert asked([True, False, True, False]) == (None, 4)


def test_it_is_not_asked_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked([False] * 100) == (None, 12)
    ticks = iter(range(1000))
    monkeypatch.setattr(scheduled, "monotonic", lambda: next(ticks))  # each look takes a second
    assert asked([False] * 100, until_ms=20_000) == (None, 5)

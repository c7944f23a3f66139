"""Ctrl-C, SIGTERM and a closed terminal, taken at a moment that suits the run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns
from types import FrameType
from typing import Any


class Interruption:
    """Whether the user asked to stop. Ctrl-C, SIGTERM or a closed terminal end the load; teardown is never
    interrupted. Where one watches within another, as a run among many does, both learn of it. What is ignored since
    before, as SIGHUP is under `nohup`, stays ignored.
    """

    def __init__(self) -> None:
        self.asked_ns: int | None = None
        """When they first asked, on CLOCK_MONOTONIC."""
        self._before: dict[int, Any] = {}

    def ask(self) -> None:
        """Ask to stop, from any thread."""
        if self.asked_ns is None:
            self.asked_ns = monotonic_ns()

    def __bool__(self) -> bool:
        return self.asked_ns is not None

    @contextmanager
    def watch(self) -> Iterator[Interruption]:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(each) is not signal.SIG_IGN:
                self._before[each] = signal.signal(each, self._ask)
        try:
            yield self
        finally:
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.ask()
        outer = getattr(self._before[number], "__self__", None)
        if isinstance(outer, Interruption):
            outer._ask(number, frame)

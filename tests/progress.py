"""How far the tests are: one live line in a terminal, a line now and then in a log, and every failure at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from shutil import get_terminal_size
from time import monotonic
from typing import Any, Final

import pytest

from fencepost.text import plural
from tests.durations import load, seconds

_LIVE_S: Final = 0.5
_LOG_S: Final = 20.0
_LONG_S: Final = 30.0
_ESTIMATE_FROM: Final = 0.02
"""The share of the work after which the speed so far is believed."""


class Tally:
    """What is done and what is left, in tests and in the seconds that they took before."""

    def __init__(self, nodeids: Sequence[str], record: Mapping[str, float], clock: Callable[[], float] = monotonic):
        self._clock = clock
        self._weights = {nodeid: seconds(nodeid, record) for nodeid in nodeids}
        self._total = sum(self._weights.values())
        self._left = dict(self._weights)
        self._running: dict[str, float] = {}
        self._began = clock()

    def starts(self, nodeid: str) -> None:
        self._running[nodeid] = self._clock()

    def ends(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)
        self._left.pop(nodeid, None)

    def in_words(self) -> str:
        """`2,310 of 5,200 tests, about 6 minutes left`, and which test has been running for long."""
        total = len(self._weights)
        words = f"{total - len(self._left):,} of {plural(total, 'test')}"
        left = sum(self._left.values())
        done = self._total - left
        if self._left and done > _ESTIMATE_FROM * self._total:
            words += f", about {_about((self._clock() - self._began) * left / done)} left"
        if self._running:
            nodeid, since = min(self._running.items(), key=lambda each: each[1])
            if (running_s := self._clock() - since) >= _LONG_S:
                words += f"; {nodeid} has been running for {running_s:.0f} s"
        return words


def _about(left_s: float) -> str:
    if left_s < 90:
        return f"{max(10, round(left_s, -1)):.0f} seconds"
    return plural(round(left_s / 60), "minute")


class Progress:
    """The plugin of the process that shows the tests, whichever processes play them."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter
        self._is_live = reporter.isatty
        self._every_s = _LIVE_S if self._is_live else _LOG_S
        self._tally: Tally | None = None
        self._shown = monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        reporter.showfspath = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """This process plays the tests itself: what a thread said during a test would be taken for its output."""
        if session.items:
            self._tally = Tally([item.nodeid for item in session.items], load())

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        if self._tally is None and ids:
            self._tally = Tally(ids, load())
            self._thread.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(self) -> Generator[None, Any, Any]:
        """No dots: the line says it. The summary needs the words."""
        category, *shown = yield
        return (category, *shown) if self._ended.is_set() else (category, "", "")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._tally is not None:
            with self._lock:
                self._tally.starts(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if self._tally is not None:
            with self._lock:
                self._tally.ends(nodeid)
            self._show()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with self._lock:
                self._clear()
                self._reporter.write_line(f"FAILED {report.nodeid} ({report.when})", red=True)
                self._reporter.flush()

    def pytest_sessionfinish(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._clear()

    def _go_on(self) -> None:
        while not self._ended.wait(self._every_s):
            self._show()

    def _show(self) -> None:
        with self._lock:
            if self._tally is None or monotonic() - self._shown < self._every_s:
                return
            self._shown = monotonic()
            if self._is_live:
                self._reporter.rewrite(self._tally.in_words()[: get_terminal_size().columns - 1], erase=True)
            else:
                self._reporter.write_line(self._tally.in_words())
            self._reporter.flush()

    def _clear(self) -> None:
        if self._is_live:
            self._reporter.rewrite("", erase=True)
            self._reporter.rewrite("")

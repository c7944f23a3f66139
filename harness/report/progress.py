"""Live progress while a run works: one line on a terminal, which is redrawn, and a line every ten seconds elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from rich.console import Console, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from fencepost.text import cut, plural, printable
from harness.report.live import live
from harness.report.terminal import Text
from harness.run.snapshot import Snapshot

_RATE_WINDOW_S: Final = 2.0
_FAULTS_SHOWN: Final = 6
_FAULTS_IN_VIEW: Final = 1
_BAR: Final = 8
_FAULT_WIDTH: Final = 100
"""Of a plain line, for each fault: with many clients one fault may name hundreds of links."""


def live_view(now: Snapshot, ops_per_s: float, heading: str = "") -> RenderableType:
    """What a terminal shows: one line, which is cut at its right end. `heading`: which run of many this is."""
    share = min(now.elapsed_s / now.total_s, 1.0) if now.total_s > 0 else 0.0
    texts = [
        *filter(None, [heading]),
        f"{printable(now.phase)} {now.elapsed_s:.0f} of {now.total_s:.0f} s",
        plural(now.sections, "section"),
        f"{ops_per_s:,.0f} ops/s",
    ]
    faults = "; ".join(map(printable, now.active_faults[:_FAULTS_IN_VIEW])) or "no fault"
    if (hidden := len(now.active_faults) - _FAULTS_IN_VIEW) > 0:
        faults = f"{hidden} more and {faults}"
    line = Text(" · ".join(texts), no_wrap=True, overflow="ellipsis")
    line.append(f" · {faults}", style="yellow" if now.active_faults else "dim")
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, width=_BAR)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_row(ProgressBar(total=1.0, completed=share, width=_BAR), line)
    return grid


def plain_line(now: Snapshot, ops_per_s: float) -> str:
    """What a log shows: one line."""
    faults = [cut(fault, _FAULT_WIDTH) for fault in now.active_faults[:_FAULTS_SHOWN]]
    if (hidden := len(now.active_faults) - _FAULTS_SHOWN) > 0:
        faults.append(f"and {hidden} more")
    told = "; ".join(faults) or "no fault"
    return f"[{now.elapsed_s:5.1f} of {now.total_s:.0f} s] {printable(now.phase)}: {_counts(now, ops_per_s)}; {told}"


def _counts(now: Snapshot, ops_per_s: float) -> str:
    return (
        f"{ops_per_s:,.0f} ops/s, {plural(now.ops, 'op')}, {plural(now.sections, 'section')}, "
        f"{plural(now.clients_alive, 'client')} alive"
    )


class Progress:
    """Shows the latest snapshot for as long as the `with` block lasts.

    It installs no signal handler, so Ctrl-C reaches the caller as ever. Where there is no terminal a line is written at
    most every `plain_interval_s`. `heading`: which run of many this is; without a terminal it is the whole line.
    """

    def __init__(
        self,
        console: Console,
        *,
        clock: Callable[[], float] = time.monotonic,
        plain_interval_s: float = 10.0,
        heading: str = "",
    ) -> None:
        self._console = console
        self._clock = clock
        self._plain_interval_s = plain_interval_s
        self._heading = heading
        self._next_line_s = float("-inf")
        self._now: Snapshot | None = None
        self._recent: deque[tuple[float, int]] = deque()
        self._shown = ExitStack()
        self._is_live = False

    def __enter__(self) -> Progress:
        self._is_live = self._shown.enter_context(live(self._console, self._view))
        return self

    def update(self, now: Snapshot) -> None:
        """Take the newest snapshot; cheap enough to be called in any loop."""
        self._recent.append((now.elapsed_s, now.ops))
        while len(self._recent) > 2 and self._recent[0][0] < now.elapsed_s - _RATE_WINDOW_S:
            self._recent.popleft()
        self._now = now
        if not self._is_live and self._clock() >= self._next_line_s:
            self._next_line_s = self._clock() + self._plain_interval_s
            self._console.print(Text(self._heading or plain_line(now, self._ops_per_s())), soft_wrap=True)

    def __exit__(self, *_: object) -> None:
        self._is_live = False
        self._shown.close()

    def _ops_per_s(self) -> float:
        if len(self._recent) < 2:
            return 0.0
        (then_s, then_ops), (now_s, now_ops) = self._recent[0], self._recent[-1]
        return max(now_ops - then_ops, 0) / (now_s - then_s) if now_s > then_s else 0.0

    def _view(self) -> RenderableType:
        return live_view(self._now, self._ops_per_s(), self._heading) if self._now else Text("")

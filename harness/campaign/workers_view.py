"""Live progress of parallel runs: one row per worker."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.table import Table

from fencepost.text import printable
from harness.report.live import live
from harness.report.terminal import Text

Showing = tuple[str, str, int, str, float, float]
"""A worker's name, and of its run: cell, seed, phase, seconds since the start of the load, and of how many."""


class WorkersView:
    """Shows what every worker does, on a terminal only, for as long as the `with` block lasts. `heading`: how far the
    campaign is. `is_live`: whether there is a terminal that shows it."""

    def __init__(self, console: Console) -> None:
        self.heading = ""
        self.is_live = False
        self._console = console
        self._newest: dict[str, Showing] = {}
        self._lock = threading.Lock()
        self._shown = ExitStack()

    def update(self, shown: Showing) -> None:
        """Called from any thread."""
        with self._lock:
            self._newest[shown[0]] = shown

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._console.print(line, soft_wrap=True)

    def __enter__(self) -> Self:
        self.is_live = self._shown.enter_context(live(self._console, self.view))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.is_live = False
        self._shown.close()

    def view(self) -> RenderableType:
        """What a terminal shows now."""
        table = Table.grid(padding=(0, 2))
        with self._lock:
            newest = sorted(self._newest.items())
        for name, (_, cell, seed, phase, elapsed_s, total_s) in newest:
            run = f"{printable(cell)}, seed {seed}"
            table.add_row(f"  worker {printable(name)}", run, printable(phase), f"{elapsed_s:.0f} of {total_s:.0f} s")
        return Group(Text(self.heading, no_wrap=True, overflow="ellipsis"), table)

"""Something on a terminal that is redrawn while work goes on, and gone afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, RenderableType
from rich.live import Live

_REFRESHES_PER_S: Final = 8


@contextmanager
def live(console: Console, view: Callable[[], RenderableType]) -> Iterator[bool]:
    """Show what `view` returns, redrawn by a thread of rich's, for as long as the block lasts; whether there is a
    terminal that can show it. On every way out the cursor is there again. What others print appears above."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield False
        return
    shown = Live(
        console=console,
        get_renderable=view,
        refresh_per_second=_REFRESHES_PER_S,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # a pipe stays a pipe
        redirect_stderr=True,
    )
    shown.start()
    try:
        yield True
    finally:
        try:
            shown.stop()
        finally:
            console.show_cursor(True)

"""What a terminal shows of runs side by side."""

from __future__ import annotations

import io

from rich.console import Console

from harness.campaign.workers_view import WorkersView
from tests.golden import Golden


def shown(view: WorkersView) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    console.print(view.view())
    file = console.file
    assert isinstance(file, io.StringIO)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_every_worker_has_a_row_with_the_newest_of_its_run(golden: Golden) -> None:
    view = WorkersView(Console(file=io.StringIO()))
    view.heading = "[3/40, 5 min left]"
    view.update(("1", "redlock", 2, "starting 5 clients", 0, 12))
    view.update(("0", "control-quorum-of-two", 1, "load", 3.4, 12))
    view.update(("1", "redlock", 2, "load", 0.6, 12))
    golden("\n".join(shown(view)))


def test_without_a_terminal_nothing_is_drawn() -> None:
    file = io.StringIO()
    with WorkersView(Console(file=file)) as view:
        view.update(("0", "redlock", 1, "load", 3.4, 12))
        assert not view.is_live
    assert file.getvalue() == ""


def test_what_a_cell_is_called_cannot_steer_the_terminal() -> None:
    view = WorkersView(Console(file=io.StringIO()))
    view.update(("0", "\x1b[2J", 1, "load", 3.4, 12))
    assert not any("\x1b" in line for line in shown(view))

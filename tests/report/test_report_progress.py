from __future__ import annotations

import io
import time
from dataclasses import replace

import pytest
from rich.console import Console

from harness.report.progress import Progress, live_view, plain_line
from harness.run.snapshot import Snapshot

NOW = Snapshot(
    phase="load",
    elapsed_s=12.3,
    total_s=33,
    ops=12_345,
    sections=678,
    active_faults=("drop both ways: c1,c2 | n3",),
    clients_alive=10,
)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def text_of(snapshot: Snapshot, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(live_view(snapshot, 1234.4))
    return console.export_text()


def test_the_view_shows_time_rate_sections_and_the_faults_in_words() -> None:
    text = text_of(NOW, width=100)
    for part in ("load 12 of 33 s", "1,234 ops/s", "678 sections", "drop both ways: c1,c2 | n3"):
        assert part in text, part


def test_the_view_is_one_line_of_a_narrow_terminal_however_many_faults_there_are() -> None:
    text = text_of(replace(NOW, active_faults=("x" * 300,) * 40), width=60)
    assert len(text.splitlines()) == 1
    assert len(text.rstrip()) <= 60
    assert "load 12 of 33 s · 678 sections" in text
    assert "39 more and x" in text_of(replace(NOW, active_faults=("x",) * 40))


def test_the_view_survives_a_run_of_unknown_length() -> None:
    assert "bringing up 5 redis nodes" in text_of(Snapshot("bringing up 5 redis nodes", 0, 0, 0, 0, (), 0))


def test_a_plain_line_is_one_line_whatever_a_fault_is_called() -> None:
    line = plain_line(replace(NOW, active_faults=("a\nb\x1b[2J",)), 10)
    assert "\n" not in line
    assert "\x1b" not in line
    assert "12.3 of 33 s" in line


def test_a_plain_line_stays_readable_however_many_links_and_faults_there_are() -> None:
    line = plain_line(replace(NOW, active_faults=("c1," * 500,) * 8), 10)
    assert len(line) < 800
    assert line.count("…") == 6
    assert line.endswith("; and 2 more")
    assert plain_line(replace(NOW, active_faults=("x" * 100,)), 10).endswith("; " + "x" * 100)


def test_without_a_terminal_a_line_is_written_every_ten_seconds_at_most() -> None:
    out, clock = io.StringIO(), Clock()
    with Progress(Console(file=out, width=40), clock=clock) as progress:
        for tenth in range(241):
            clock.now_s = 100 + tenth / 10
            progress.update(replace(NOW, elapsed_s=tenth / 10, ops=tenth * 100))
    lines = out.getvalue().splitlines()
    assert len(lines) == 3, "at 0, 10 and 20 s"
    assert "1,000 ops/s" in lines[-1]
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_the_last_snapshot_is_drawn_and_the_cursor_comes_back() -> None:
    out = io.StringIO()
    with Progress(Console(file=out, force_terminal=True, width=80, _environ={"TERM": "xterm"})) as progress:
        progress.update(NOW)
    text = out.getvalue()
    assert "678 sections" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_on_a_terminal_many_updates_are_few_redraws() -> None:
    out = io.StringIO()
    began = time.monotonic()
    with Progress(Console(file=out, force_terminal=True, width=80, _environ={"TERM": "xterm"})) as progress:
        for n in range(50_000):
            progress.update(replace(NOW, ops=n))
    took_s = time.monotonic() - began
    assert out.getvalue().count("sections") <= 8 * took_s + 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_ctrl_c_and_errors_pass_through_and_restore_the_cursor(error: type[BaseException]) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, _environ={"TERM": "xterm"})

    def interrupted() -> None:
        with Progress(console) as progress:
            progress.update(NOW)
            raise error

    with pytest.raises(error):
        interrupted()
    assert out.getvalue().rindex("\x1b[?25h") > out.getvalue().rindex("\x1b[?25l")

"""A test that is interrupted calls its run off, once, and waits until it has cleaned up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pytest

from cluster.polling import becomes_true
from pytest_fencepost.program import Program

WAITS = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def stop(*_):
    with (folder / "signals").open("a") as signals:
        signals.write("SIGINT\\n")
    time.sleep(0.1)
    (folder / "cleaned").touch()
    sys.exit(2)
signal.signal(signal.SIGINT, stop)
(folder / "ready").touch()
while True:
    signal.pause()
"""


def test_an_interruption_reaches_the_run_which_cleans_up_before_pytest_goes_on(tmp_path: Path) -> None:
    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    def is_waited_for() -> bool:
        frame = sys._current_frames()[threading.main_thread().ident or 0]
        return (tmp_path / "ready").exists() and subprocess.Popen.wait.__code__ in (
            each.f_code for each, _ in traceback.walk_stack(frame)
        )

    def when_ready() -> None:
        assert becomes_true(is_waited_for, within_s=60, every_s=0.01)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    thread = threading.Thread(target=when_ready)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            Program([sys.executable, "-c", WAITS, str(tmp_path)]).test({}, tmp_path, shows_progress=False)
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert (tmp_path / "cleaned").exists()
    assert (tmp_path / "signals").read_text() == "SIGINT\n"

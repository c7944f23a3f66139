"""When the proxy was kept waiting for a processor: it then takes late what clients sent in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from cluster.polling import becomes_true
from fencepost.history import Gap
from harness.run.harness_heartbeat import watched_waits
from harness.store.append_log import read_lines

BUSY = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for _ in range(3):
    os.fork()
while True:
    pass
"""
"""Eight processes on one processor."""


def test_a_process_that_is_kept_waiting_is_on_record(tmp_path: Path) -> None:
    log = tmp_path / "gaps"
    busy = subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True)
    try:
        with watched_waits(busy.pid, log):
            assert becomes_true(log.exists, within_s=30)
    finally:
        os.killpg(busy.pid, signal.SIGKILL)
        busy.wait()
    (first, *_) = [gap for piece in read_lines(log, Gap) for gap in piece]
    assert first.waited_ns == first.to_ns - first.from_ns > 0


def test_of_one_that_is_not_there_nothing_is_on_record(tmp_path: Path) -> None:
    with watched_waits(None, tmp_path / "gaps"):
        pass
    assert not (tmp_path / "gaps").exists()

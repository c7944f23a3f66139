"""Runs at the same time, in one checkout and with one temporary folder, do not wait for each other."""

from __future__ import annotations

import signal
from pathlib import Path

from cluster.polling import becomes_true
from fencepost.files import matching
from tests.harness import runs

ARGUMENTS = runs.short_run("--nemesis", "none", "--duration", "1s", "--recovery", "0")


def test_eight_runs_at_once_are_valid_although_one_of_them_stands_still(tmp_path: Path) -> None:
    stuck = runs.start(tmp_path, *ARGUMENTS)
    assert becomes_true(lambda: matching(tmp_path, "tmp/fencepost-*/2*/proxy") != [], within_s=60)
    stuck.send_signal(signal.SIGSTOP)
    try:
        others = [runs.start(tmp_path, *ARGUMENTS) for _ in range(7)]
        for code, out, err in [runs.finish(each) for each in others]:
            assert code == 0, out + err
            assert "left something behind" not in out
    finally:
        stuck.send_signal(signal.SIGCONT)
    code, out, err = runs.finish(stuck)
    assert code in (0, 2), out + err
    assert len([path for path in tmp_path.glob("results/runs/2*") if (path / "verdict.json").exists()]) == 8
    assert runs.state_left(tmp_path) == []

"""Runs with many clients end on time, and so do runs whose proxy does not answer any more."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil
import pytest

from cluster.polling import becomes_true
from cluster.run_processes import RUN_VARIABLE
from cluster.toxiproxy import CHANGE_LIMIT_S
from fencepost import load
from fencepost.history import FaultEvent, Timeline
from harness.store.run_folder import RunFolder
from tests.harness.runs import fencepost, finish, is_gone, only_run, short_run, start

pytestmark = pytest.mark.needs("sandbox")

PARTITIONS = "partition:interval=1s,duration=500ms,shape=halves"


def test_64_clients_under_partitions_end_on_time_with_a_verdict(tmp_path: Path) -> None:
    load = ["--clients", "64", "--duration", "6s", "--recovery", "1s", "--seed", "7", "--retry-delay", "1s"]
    code, out, err = fencepost(
        tmp_path, "test", "--cluster", "process", "--lock", "redlock", "--nemesis", PARTITIONS, *load, timeout_s=170
    )
    assert code in (0, 2), out + err
    folder = RunFolder(only_run(tmp_path))
    injected = [event for event in folder.read_log("nemesis.jsonl", FaultEvent) if event.event == "injected"]
    assert injected
    assert all(event.done_ns - event.began_ns < (CHANGE_LIMIT_S + 1) * 1e9 for event in injected)
    assert sum(len(event.cut_links) for event in injected) >= 128


@pytest.mark.parametrize(("how", "code"), [(signal.SIGSTOP, 2), (signal.SIGKILL, 255)])
def test_a_proxy_that_does_not_answer_any_more_does_not_keep_the_run_from_ending(
    tmp_path: Path, how: signal.Signals, code: int
) -> None:
    process = start(tmp_path, *short_run("--nemesis", PARTITIONS, "--duration", "6s"))
    assert becomes_true(lambda: _load_has_begun(tmp_path), within_s=60, every_s=0.02)
    _proxy(only_run(tmp_path)).send_signal(how)
    began = time.monotonic()
    ended, out, err = finish(process, timeout_s=90)
    # The rest of the load, one change under way, everything healed in vain, and the clients' last calls.
    assert time.monotonic() - began < 60
    assert ended == code, out + err
    if how == signal.SIGKILL:
        assert "Toxiproxy" in err
    else:
        reasons = load(only_run(tmp_path)).verdict.unknown
        assert any("not everything was healed in time when the load was over" in reason for reason in reasons)
    assert is_gone(tmp_path, only_run(tmp_path))


def _load_has_begun(folder: Path) -> bool:
    runs = folder / "results" / "runs"
    if not runs.is_dir() or not (runs / "latest" / "timeline.json").exists():
        return False
    timeline = RunFolder((runs / "latest").resolve()).read_timeline()
    return isinstance(timeline, Timeline) and timeline.start_ns + 5e8 < time.monotonic_ns()


def _proxy(run: Path) -> psutil.Process:
    for process in psutil.process_iter(["name"]):
        try:
            if "toxiproxy" in process.exe() and process.environ().get(RUN_VARIABLE) == run.name:
                return process
        except psutil.Error:
            continue
    raise AssertionError("the run has no Toxiproxy")

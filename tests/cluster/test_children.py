"""A child that is ended takes its own children with it: a killed server must not finish its snapshot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil

from cluster.children import end_child, spawn, stop_child, wants_processor
from cluster.owner import Owner
from cluster.waiting import becomes_true
from tests.cluster.processes import is_gone


def test_a_child_is_ended_with_its_own_children_also_when_it_is_stopped(tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = ["-c", "sleep 60 & echo $!; wait"]
    process = spawn(Path("/bin/sh"), words, owner=Owner.of_run(), folder=tmp_path, log=log, environment={})
    assert becomes_true(lambda: log.read_text().endswith("\n"))
    grandchild = psutil.Process(int(log.read_text()))
    assert stop_child(process)
    end_child(process)
    end_child(process)
    assert becomes_true(lambda: is_gone(grandchild))


def test_a_process_with_something_to_do_wants_a_processor_and_one_that_waits_does_not(tmp_path: Path) -> None:
    for does, wants in (("while :; do :; done", True), ("read nothing", False)):
        process = subprocess.Popen(["/bin/sh", "-c", does], stdin=subprocess.PIPE)
        try:
            assert becomes_true(lambda pid=process.pid, wants=wants: wants_processor(pid) is wants)  # type: ignore[misc]
        finally:
            process.kill()
            process.communicate()
        assert not wants_processor(process.pid)

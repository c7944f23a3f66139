"""A child that is ended takes its own children with it: a killed server must not finish its snapshot."""

from __future__ import annotations

from pathlib import Path

import psutil

from cluster.children import end_child, spawn, stop_child
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

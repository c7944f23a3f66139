"""A child that is ended takes its own children with it: a killed server must not finish its snapshot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil

from cluster.polling import becomes_true
from cluster.run_processes import RUN_VARIABLE, end_processes
from cluster.run_user import Owner
from cluster.subprocesses import continue_child, end_child, is_stopped, spawn, stop_child, wants_processor
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


def test_a_child_is_stopped_continued_and_ended_with_children_in_sessions_of_their_own(tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = ["-c", "setsid sh -c 'sleep 60 & echo $! $$; wait' & wait"]
    process = spawn(Path("/bin/sh"), words, owner=Owner.of_run(), folder=tmp_path, log=log, environment={})
    assert becomes_true(lambda: log.read_text().endswith("\n"))
    tree = [process.pid, *map(int, log.read_text().split())]
    others = [psutil.Process(pid) for pid in tree[1:]]

    assert stop_child(process)
    assert all(map(is_stopped, tree))
    continue_child(process)
    assert becomes_true(lambda: not any(map(is_stopped, tree)))
    end_child(process)
    assert all(map(is_gone, others))


def test_a_child_that_wrote_over_its_environment_is_ended_with_its_parent(tmp_path: Path) -> None:
    said = tmp_path / "said"
    words = f"env -i setsid sh -c 'sleep 60 & echo $! > {said}; wait' & wait"
    process = subprocess.Popen(["/bin/sh", "-c", words], env={RUN_VARIABLE: "a-run-of-this-test"})
    assert becomes_true(lambda: said.exists() and said.read_text().endswith("\n"))
    unmarked = psutil.Process(int(said.read_text()))
    end_processes("a-run-of-this-test")
    process.wait()
    assert is_gone(unmarked)

"""A lock object that several tasks of one client process share: each task is an owner of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import fencepost
from fencepost.history import process_of
from harness.checkers.exclusion import check
from tests.harness import runs
from tests.harness.second_tries import caught
from tests.judge.histories import History

NOT_THREAD_SAFE = '''
from workloads.locks.redlock import Redlock


class Remembers(Redlock):
    """Remembers that it is held, and not by which thread: a second thread of the process is told that it holds it."""

    def __init__(self, nodes, settings):
        super().__init__(nodes, settings)
        self._remembered = None

    def acquire(self, key, ttl_ms):
        if self._remembered is not None:
            return self._remembered
        lease = super().acquire(key, ttl_ms)
        if lease is not None:
            self._remembered = lease
        return lease

    def release(self, lease):
        self._remembered = None
        return super().release(lease)
'''
TWO_OF_THREE = ["--clients", "2", "--tasks", "3", "--hold", "5ms", "--nemesis", "none"]


def test_tasks_that_share_the_reference_exclude_each_other(tmp_path: Path) -> None:
    # Who has just released is the quickest to acquire again; while it rests, the others get in.
    code, out, err = runs.fencepost(tmp_path, *runs.short_run(*TWO_OF_THREE, "--think", "100ms"))
    assert code == 0, out + err
    assert "2 clients of 3 tasks" in out
    run = fencepost.load(runs.only_run(tmp_path))
    users = {f"c{client}@{task}" for client in (1, 2) for task in (1, 2, 3)}
    assert set(run.sections["client"]) == users
    assert {path.name for path in (run.path / "clients").iterdir()} == {f"{user}.1.jsonl" for user in users}
    assert [(end["client"], end["how"]) for end in ends(run.path)] == [(user, "finished") for user in sorted(users)]


def test_a_lock_object_that_is_not_thread_safe_is_caught(tmp_path: Path) -> None:
    given = runs.short_run(*TWO_OF_THREE, "--lock", "my_lock:Remembers")
    code, said, run = caught(tmp_path, given, NOT_THREAD_SAFE)
    assert code == 1, said
    (overlap,) = [finding for finding in run.verdict.findings if (finding.kind, finding.blame) == ("overlap", "lock")]
    processes = [{str(side["client"]).partition("@")[0] for side in sides(example)} for example in overlap.examples]
    assert any(len(names) == 1 for names in processes), "two tasks of one process"


def test_with_one_task_the_same_lock_is_as_good_as_the_reference(tmp_path: Path) -> None:
    (tmp_path / "my_lock.py").write_text(NOT_THREAD_SAFE)
    alone = [*TWO_OF_THREE, "--tasks", "1", "--lock", "my_lock:Remembers"]
    code, out, err = runs.fencepost(tmp_path, *runs.short_run(*alone))
    assert code == 0, out + err


def test_a_fault_that_hits_a_client_hits_all_its_tasks(tmp_path: Path) -> None:
    faults = ["--nemesis", "pause:targets=clients,interval=500ms,duration=300ms", "--hold", "5ms"]
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--tasks", "2", *faults, "--require", "lease"))
    assert code == 0, out + err
    run = fencepost.load(runs.only_run(tmp_path))
    paused = [names for names in run.faults["paused_clients"] if names]
    assert paused
    for names in paused:
        clients = {process_of(name) for name in names}
        assert {*clients, *(f"{client}@{task}" for client in clients for task in (1, 2))} == set(names)


def test_killed_tasks_go_on_numbering_their_sections(tmp_path: Path) -> None:
    # A process takes a while to start, and must get in before it is killed in its turn.
    faults = ["--nemesis", "crash:targets=clients,interval=2s,restart-delay=0", "--duration", "6s"]
    load = ["--tasks", "2", "--hold", "5ms", "--think", "50ms"]
    code, out, err = runs.fencepost(tmp_path, *runs.short_run(*load, *faults))
    assert code == 0, out + err
    run = fencepost.load(runs.only_run(tmp_path))
    assert run.sections["life"].max() > 1
    numbered = run.sections.groupby(["client", "section"], observed=True).size()
    assert numbered.max() == 1, "no number is used by two lives"


@pytest.mark.needs("lock:redlock-node-5")
def test_what_a_program_s_calls_send_is_of_the_task_that_calls(tmp_path: Path) -> None:
    given = [
        "--clients",
        "1",
        "--tasks",
        "2",
        "--lock",
        "redlock-node-5",
        "--nemesis",
        "none",
        "--require",
        "exclusion",
    ]
    code, out, err = runs.fencepost(tmp_path, *runs.short_run(*given))
    assert code == 0, out + err
    run = fencepost.load(runs.only_run(tmp_path))
    sent = run.requests[run.requests["command"].isin(["EVALSHA", "EVAL"]) & (run.requests["node"] != "resource")]
    pairs = {(words[3], task) for words, task in zip(sent["arguments"], sent["task"].astype(object), strict=True)}
    assert {task for _, task in pairs} == {"c1@1", "c1@2"}
    assert len({value for value, _ in pairs}) == len(pairs), "each value is of one task"


def ends(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "client-ends.jsonl").read_bytes().splitlines()
    return sorted((msgspec.json.decode(line) for line in lines), key=lambda end: str(end["client"]))


def sides(example: Any) -> list[dict[str, object]]:
    return [side for side in example.values() if isinstance(side, dict)]


def test_two_tasks_inside_at_once_are_two_holders() -> None:
    history = History(clients=1, tasks=2).section("c1@1", 10, 50).section("c1@2", 30, 60)
    found = check(history.recorded()).findings
    assert [(finding.kind, finding.blame) for finding in found] == [("overlap", "lock")]

"""Toys from outside the source tree: each is one file, found without any other edit, and used in a real run.

Toy locks in other languages are in `tests/locks/test_added_locks.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.errors import UsageError
from fencepost.extensions import VARIABLE, extended
from tests.harness import runs
from tests.harness.second_tries import script, spared

TOYS = Path(__file__).parent / "toys"


def test_a_toy_nemesis_a_toy_lock_and_a_toy_checker_make_a_run_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(TOYS))
    given = runs.short_run("--nemesis", "hiccup:length=150ms", "--lock", "one-node", "--require", "lease")
    code, out, run = spared(tmp_path, given)
    assert code == 0, out
    folder = run.path
    busiest = json.loads((folder / "verdict.json").read_text())["figures"]["busiest"]
    said = f"{busiest['client']} with {busiest['sections']} sections"
    assert f"busiest {said}" in " ".join(out.split())
    assert said in (folder / "report.html").read_text()
    assert json.loads((folder / "environment.json").read_text())["extensions"] == [str(TOYS)]
    events = [json.loads(line) for line in (folder / "nemesis.jsonl").read_text().splitlines()]
    events = [event for event in events if not event.get("unplanned")]  # as if a disk made the resource wait
    assert {event["nemesis"] for event in events} == {"hiccup"}
    assert all(event["holds"] for event in events)
    code, out, err = runs.fencepost(tmp_path, "test", "--help")
    assert "the first client stands still" in " ".join(out.split())
    assert "A toy lock: SET NX PX on the first node" in " ".join(out.split())
    assert "A toy in a program of its own" in " ".join(out.split())
    monkeypatch.delenv(VARIABLE)
    code, out, err = runs.fencepost(tmp_path, "analyze", str(folder))
    assert code == 0, out + err
    assert "busiest" not in out, "and the run can be judged without the toys"


@pytest.mark.parametrize(
    ("file", "text", "options", "must_be"),
    [
        ("nemesis/five.py", "NEMESIS = 5", (), "NEMESIS must be a nemesis.base.Nemesis"),
        ("nemesis/five.py", "MIX = None", (), "MIX must be a nemesis.base.Mix"),
        ("workloads/locks/mine.py", "LOCK = 7", ("--lock", "mine"), "LOCK must be a collections.abc.Callable"),
        ("workloads/locks/mine.py", "", ("--lock", "mine"), "LOCK must be a collections.abc.Callable"),
        ("workloads/kinds/mine.py", "WORKLOAD = {}", ("--workload", "mine"), "a workloads.workload.Workload"),
        ("cluster/servers/mine.py", "SERVER = None", (), "SERVER must be a cluster.server.Server"),
    ],
)
def test_what_is_of_another_kind_is_refused_by_the_name_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, options: tuple[str, ...], must_be: str
) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    code, _, error = runs.fencepost(tmp_path, *runs.short_run(*options))
    assert (code, error.count("\n")) == (254, 1), error
    assert f"{tmp_path / file}: " in error
    assert must_be in error


def test_a_toy_server_without_key_events_makes_a_run_that_says_that_it_was_not_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(TOYS))
    given = runs.short_run("--server", "quiet", "--lock", "one-node", "--nemesis", "crash:restart-delay=100ms")
    given = [*given, "--persistence", "aof-always"]
    code, out, run = spared(tmp_path, given)
    assert code == 0, out
    folder, said = run.path, " ".join(out.split())
    assert said.count("quiet has no key events") == 2, "before it starts, and in the summary"
    assert "quiet has no key events" in (folder / "report.html").read_text()
    assert not (folder / "nodes.jsonl").exists()
    environment = json.loads((folder / "environment.json").read_text())
    assert [environment["cluster"][part]["name"] for part in ("server", "resource_server")] == ["quiet", "redis"]
    assert environment["lock"]["dials"].endswith("/3"), "a lock dials what the server says"
    assert [environment["servers"][name]["databases"] for name in ("n1", "resource")] == ["4", "16"]
    events = [json.loads(line) for line in (folder / "nemesis.jsonl").read_text().splitlines()]
    assert any(event["nodes"] for event in events if event["event"] == "injected")
    for lacking in (("--nemesis", "shutdown"), ("--persistence", "rdb"), ("--nemesis", "hunt:how=shutdown")):
        code, _, err = runs.fencepost(tmp_path, *runs.short_run("--server", "quiet", *lacking))
        assert (code, err.count("\n")) == (254, 1), err
        assert "quiet does not" in err
    code, out, err = runs.fencepost(tmp_path, "test", "--help")
    assert "a Redis that says that it has no key events" in " ".join(out.split())
    monkeypatch.delenv(VARIABLE)
    code, out, err = runs.fencepost(tmp_path, "analyze", str(folder))
    assert code == 0, out + err
    assert "quiet has no key events" in " ".join(out.split())
    code, _, err = runs.fencepost(tmp_path, *runs.short_run("--server", "quiet"))
    assert (code, err.count("\n")) == (254, 1)
    known = "etcd, hazelcast, postgres, redis, redis-cluster, redis-sentinel, valkey, zookeeper"
    assert f"'quiet' is not known; write {known} or" in err


def test_a_toy_checker_s_finding_is_explained_by_its_own_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(TOYS))
    told = subprocess.run(
        [sys.executable, "-c", _TOLD], cwd=TOYS.parents[1], text=True, capture_output=True, check=True
    )
    assert told.stdout.split("\n", 1)[0] == "data"
    assert "fewer pages than guests were told of" in told.stdout


_TOLD = """
from harness.checkers.kinds import kinds
from harness.checkers.explained import explain
from harness.verdict import Verdict
from tests.judge.histories import History

lost = kinds()["signature-lost"].found("resource", "2 signatures are gone", 2, [{}])
(explained,) = explain(History().recorded(), Verdict("violation", "lock", (lost,), (), {}))
print(lost.breaks)
print(explained.explanations[0].sentence)
"""


def test_a_toy_workload_brings_its_steps_its_script_its_checker_and_its_story(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(TOYS))
    given = runs.short_run("--nemesis", "none", "--workload", "guest-book", "--require", "data")
    code, out, run = spared(tmp_path, given)
    assert code == 0, out
    folder = run.path
    figures = json.loads((folder / "verdict.json").read_text())["figures"]
    assert figures["pages"]["signed"] == figures["pages"]["kept"] > 10
    assert {"exclusion", "liveness"} < set(figures)
    assert not {"counter", "fencing", "register"} & set(figures)
    assert f"{figures['pages']['kept']} of {figures['pages']['signed']} signatures kept" in " ".join(out.split())
    page = (folder / "report.html").read_text()
    assert "signed the guest book" in page
    assert "a counter" not in page
    code, out, err = runs.fencepost(tmp_path, "test", "--help")
    assert "A toy workload: every client that comes in signs a book" in " ".join(out.split())
    (tmp_path / "signs.py").write_text(_SIGNS)
    _, (code, out, err) = script(tmp_path / "signs", str(tmp_path / "signs.py"), "--cluster", "process")
    assert code == 0, out + err
    monkeypatch.delenv(VARIABLE)
    code, _, err = runs.fencepost(tmp_path, "analyze", str(folder))
    assert (code, err.count("\n")) == (254, 1)
    assert "no workload is named 'guest-book'" in err


_SIGNS = """
from harness.scripts.expect import sections
from harness.scripts.experiment import Stage, experiment


@experiment(workload="guest-book", expect=sections(1))
def signs(stage: Stage) -> None:
    \"\"\"A driven client takes a step that only its workload has.\"\"\"
    one = stage.client("c1")
    one.acquire("k1")
    assert one.step("sign").value == 1
    one.release()
"""


def test_without_the_variable_nobody_knows_the_toys(tmp_path: Path) -> None:
    code, _, err = runs.fencepost(tmp_path, *runs.short_run("--nemesis", "hiccup"))
    assert (code, err.count("\n")) == (254, 1)
    assert "hiccup" in err


@pytest.mark.parametrize("name", ["partition", "registry"])
def test_a_file_with_a_name_that_is_taken_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nemesis").mkdir()
    (tmp_path / "nemesis" / f"{name}.py").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(UsageError, match=f"nemesis.{name} already; rename the file"):
        extended([str(runs.ROOT / "nemesis")], "nemesis")


def test_a_folder_that_does_not_exist_is_one_line_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "gone"))
    code, _, err = runs.fencepost(tmp_path, *runs.short_run())
    assert (code, err.count("\n")) == (254, 1)
    assert f"{VARIABLE} names {tmp_path / 'gone'}" in err

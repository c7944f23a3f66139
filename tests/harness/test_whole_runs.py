"""The main job, end to end, as a user starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

import fencepost
from cluster.polling import becomes_true
from fencepost.files import matching
from harness.run.plan import topology_of
from harness.store.run_folder import RunFolder
from harness.verdict import EXIT_CODES
from nemesis.schedule import draw_schedule, parse_spec
from tests.harness import runs
from tests.harness.second_tries import Played, valid

BACKENDS = ["process", pytest.param("docker", marks=pytest.mark.needs("engine"))]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def partitioned(folder: Path, backend: str) -> Played:
    """A short run under partitions. A machine that stands still heals a fault too late, or lets a client outlive its
    lease and lose an update."""
    return valid(folder, runs.short_run("--nemesis", "partition", cluster=backend), went_as_planned)


@pytest.fixture(scope="module")
def on_processes(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """A run that several tests read."""
    return partitioned(tmp_path_factory.mktemp("recorded"), "process")


@pytest.fixture
def recorded(on_processes: Played) -> Path:
    """The folder of a short run under faults, for tests that only read it."""
    return on_processes.run.path


@pytest.mark.quick
def test_a_run_ends_with_a_verdict_and_leaves_its_folder_and_nothing_else(on_processes: Played) -> None:
    assert_whole_and_alone(on_processes)


@pytest.mark.needs("engine")
def test_a_run_on_containers_ends_with_a_verdict_and_leaves_its_folder_and_nothing_else(tmp_path: Path) -> None:
    assert_whole_and_alone(partitioned(tmp_path, "docker"))


def assert_whole_and_alone(played: Played) -> None:
    code, said, run = played
    assert code == 0, said
    assert "VALID" in said
    folder = run.path
    present = {path.name for path in folder.iterdir()}
    assert present >= {
        "config.json",
        "environment.json",
        "schedule.json",
        "timeline.json",
        "nemesis.jsonl",
        "resource.jsonl",
        "client-ends.jsonl",
        "clients",
        "final.json",
        "history.parquet",
        "verdict.json",
        "report.html",
        "logs",
    }
    assert not (folder / "sealed.json").exists()
    assert runs.processes_of(folder) == []
    assert runs.state_left(folder.parents[2]) == []

    assert len(run.sections) > 10
    assert went_as_planned(run), run.verdict.figures
    counter = run.verdict.figures["counter"]
    assert counter.complete
    assert counter.final["k1"] == counter.accepted


def went_as_planned(run: fencepost.Run) -> bool:
    faults, counter = run.verdict.figures["faults"], run.verdict.figures["counter"]
    return bool(faults.observed == faults.planned > 0 and counter.lost == 0)


def test_the_same_seed_draws_the_same_schedule_byte_for_byte(recorded: Path) -> None:
    config = RunFolder.open(recorded).read_config()
    drawn = draw_schedule(parse_spec("partition"), 7, topology_of(config), config.duration_ms)
    assert (recorded / "schedule.json").read_bytes() == drawn.to_bytes()


def test_a_saved_schedule_is_replayed(recorded: Path, tmp_path: Path) -> None:
    schedule = recorded / "schedule.json"
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--seed", "9", "--schedule", str(schedule)))
    assert code == 0, out + err
    assert (runs.only_run(tmp_path) / "schedule.json").read_bytes() == schedule.read_bytes()


def test_analyze_judges_a_run_again_without_a_cluster(recorded: Path) -> None:
    before = (recorded / "verdict.json").read_bytes()
    (recorded / "verdict.json").unlink()
    code, out, err = runs.fencepost(recorded.parents[2], "analyze", str(recorded))
    assert code == EXIT_CODES[json.loads(before)["verdict"]], out + err
    assert (recorded / "verdict.json").read_bytes() == before


def await_load(process: subprocess.Popen[str], tmp_path: Path) -> Path:
    """The run's folder, once every client has recorded something."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline and process.poll() is None:
        logs = list(tmp_path.glob("results/runs/2*/clients/*.1.jsonl"))
        if len(logs) == 3 and all(log.stat().st_size for log in logs):
            return logs[0].parent.parent
        time.sleep(0.01)
    process.terminate()
    raise AssertionError(f"the load never began: {runs.finish(process)}")


def test_ctrl_c_under_load_heals_takes_down_and_still_judges(tmp_path: Path, backend: str) -> None:
    process = runs.start(tmp_path, *runs.short_run("--duration", "60s", cluster=backend))
    folder = await_load(process, tmp_path)
    os.kill(process.pid, signal.SIGINT)
    code, out, err = runs.finish(process)
    assert code == 2, out + err
    assert "UNKNOWN" in out
    assert runs.processes_of(folder) == []
    assert json.loads((folder / "timeline.json").read_text())["interrupted"]


def test_ctrl_c_does_not_wait_for_clients_that_hold_the_lock_for_long(tmp_path: Path) -> None:
    process = runs.start(tmp_path, *runs.short_run("--ttl", "60s", "--hold", "40s", "--duration", "60s"))
    folder = await_load(process, tmp_path)
    process.send_signal(signal.SIGINT)
    code, out, err = runs.finish(process, timeout_s=20)
    assert code == 2, out + err
    ends = [json.loads(line) for line in (folder / "client-ends.jsonl").read_text().splitlines()]
    assert "cut-off" in {end["how"] for end in ends}


def test_a_run_that_is_interrupted_while_it_comes_up_is_not_judged(tmp_path: Path, backend: str) -> None:
    # So many clients take seconds to start, and the load begins only after that.
    process = runs.start(tmp_path, *runs.short_run("--duration", "60s", "--clients", "24", cluster=backend))
    assert becomes_true(lambda: matching(tmp_path, "tmp/fencepost-*/2*/proxy") != [], within_s=30)
    process.send_signal(signal.SIGTERM)
    code, out, err = runs.finish(process)
    assert code == 2, out + err
    assert "interrupted before the load began: there is nothing to judge" in out
    folder = runs.only_run(tmp_path)
    assert not (folder / "verdict.json").exists()
    assert runs.processes_of(folder) == []
    assert runs.state_left(tmp_path) == []
    assert "the run was interrupted" in runs.fencepost(tmp_path, "analyze", str(folder))[1]


@pytest.mark.parametrize("delay_s", [0.3, 1.0])
def test_ctrl_c_while_it_is_coming_up_leaves_nothing(tmp_path: Path, delay_s: float) -> None:
    process = runs.start(tmp_path, *runs.short_run("--duration", "60s"))
    # Before the command has its own handler, Python's answers Ctrl-C; it imports msgspec after that.
    assert becomes_true(lambda: "msgspec" in Path(f"/proc/{process.pid}/maps").read_text(), within_s=30)
    time.sleep(delay_s)  # any moment will do: what must hold, holds at all of them
    os.kill(process.pid, signal.SIGINT)
    code, out, err = runs.finish(process)
    assert code in (2, 130, -signal.SIGINT), out + err
    assert "Traceback" not in err
    for folder in tmp_path.glob("results/runs/2*"):
        assert runs.processes_of(folder) == []
        assert runs.state_left(tmp_path) == []


def test_after_sigkill_of_the_harness_everything_goes_by_itself_and_the_history_reads(
    tmp_path: Path, backend: str
) -> None:
    process = runs.start(tmp_path, *runs.short_run("--nemesis", "pause+crash", "--duration", "60s", cluster=backend))
    folder = await_load(process, tmp_path)
    assert becomes_true(lambda: sealed_bytes(folder, "clients/c1.1.jsonl") > 0, within_s=30)
    time.sleep(Random(backend).uniform(0, 2))  # a random moment
    process.kill()
    process.communicate()
    assert runs.is_gone(tmp_path, folder)
    assert "a dead run left something behind" not in runs.fencepost(tmp_path, "clean")[1]

    code, out, err = runs.fencepost(tmp_path, "analyze", str(folder))
    assert code == 2, out + err
    run = fencepost.load(folder)
    assert set(run.ops["client"]) == {"c1", "c2", "c3"}
    for _, ops in run.ops.groupby(["client", "life"], observed=True):
        assert_nothing_missing_but_the_last(ops["f"].tolist(), ops["outcome"].tolist(), ops["section"].tolist())

    log = folder / "clients" / "c1.1.jsonl"
    log.write_text(log.read_text().replace("_ns", "_NS", 1))
    code, out, err = runs.fencepost(tmp_path, "analyze", str(folder))
    assert (code, out) == (254, ""), out + err
    assert f"{log} does not begin with" in err


def sealed_bytes(folder: Path, name: str) -> int:
    """How much of this file the run's seal vouches for."""
    if not (folder / "sealed.json").exists():
        return 0
    sealed = json.loads((folder / "sealed.json").read_text())["files"]
    return sum(file["bytes"] for file in sealed if file["name"] == name)


def assert_nothing_missing_but_the_last(
    names: list[str], outcomes: list[str], sections: list[int], *, forgets: bool = False
) -> None:
    """Sections are whole and follow one another; only the last one may stop early. `forgets`: clients may go on without
    a release (`--forget`)."""
    whole = [["acquire", "read", "write", "release"], ["acquire", "read", "release"]]
    whole += [steps[:-1] for steps in whole] if forgets else []
    for number in sorted(set(sections))[:-1]:
        steps = [
            name
            for name, outcome, section in zip(names, outcomes, sections, strict=True)
            if section == number and (name, outcome) not in (("acquire", "fail"), ("acquire", "info"))
        ]
        assert steps in whole, (number, steps)
    assert sorted(set(sections)) == list(range(min(sections), max(sections) + 1))


def test_a_lock_command_that_dies_is_one_clear_line_and_the_history_is_kept(tmp_path: Path) -> None:
    (tmp_path / "lock.py").write_text("import sys\nsys.stdin.readline()\nsys.exit('out of luck')\n")
    given = f"{sys.executable} {tmp_path / 'lock.py'}"
    code, _, err = runs.fencepost(tmp_path, *runs.short_run("--lock-command", given))
    assert code == 255
    assert len(err.strip().splitlines()) == 1, err
    folder = runs.only_run(tmp_path)
    assert runs.processes_of(folder) == []


def test_a_lock_of_ones_own_is_imported_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from workloads.locks.redlock import LOCK\n\n\nclass MyLock(LOCK):\n    def quorum(self):\n        return 0\n"
    )
    code, out, err = runs.fencepost(
        tmp_path,
        *runs.short_run("--lock", "mine:MyLock", "--expect", "violation", "--nemesis", "none", "--clients", "6"),
    )
    assert code == 0, out + err
    assert "VIOLATION" in out
    assert "lock" in out

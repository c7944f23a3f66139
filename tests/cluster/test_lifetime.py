"""What a dead run left goes away; what a living one has stays."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cluster import run_processes
from cluster.lifetime import RunState, is_alive
from cluster.run_processes import RUN_VARIABLE
from cluster.sweep import sweep, sweep_one
from fencepost.errors import BrokenEnvironmentError
from tests.cluster.reapers import kill_reaper, processes_of

HARNESS = """
import sys, pathlib
from cluster.lifetime import RunState
from cluster.process import ProcessCluster
from tests.specs import spec_of
parent = pathlib.Path(sys.argv[1])
state = RunState.create(sys.argv[2], parent=parent)
cluster = ProcessCluster(spec_of(["n1", "n2"], ["c1"]), state, parent.parent / "logs")
cluster.start()
cluster.nodes["n1"].pause()
print("up", flush=True)
sys.stdin.read()
cluster.stop()
state.close()
"""


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def run_id(tmp_path: Path) -> str:
    """Not another test's, because processes are found by it."""
    return f"run-{os.getpid()}-{tmp_path.name}"


@pytest.fixture
def harness(parent: Path, run_id: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a running cluster, one of its nodes paused."""
    process = subprocess.Popen(
        [sys.executable, "-c", HARNESS, parent, run_id], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    yield process
    process.kill()
    process.communicate()
    sweep(parent=parent)


ALL = ["fencepost-toxiproxy", "redis-server", "redis-server", "redis-server"]


def test_a_killed_harness_and_reaper_leave_nothing_after_a_sweep(
    harness: subprocess.Popen[str], parent: Path, run_id: str
) -> None:
    kill_reaper(parent / run_id)
    harness.kill()
    harness.wait()
    assert processes_of(run_id) == ALL
    swept = sweep(parent=parent)
    assert processes_of(run_id) == []
    (run,) = swept.runs
    assert run.run_id == run_id
    assert sorted(line.split()[1][:15] for line in run.processes) == [name[:15] for name in ALL]
    assert not run.folder.exists()
    assert sweep(parent=parent).runs == ()


def test_a_living_run_is_not_swept(harness: subprocess.Popen[str], parent: Path, run_id: str) -> None:
    assert sweep(parent=parent).runs == ()
    assert is_alive(parent / run_id)
    assert processes_of(run_id) == ALL


def test_a_harness_that_ends_by_itself_leaves_nothing(
    harness: subprocess.Popen[str], parent: Path, run_id: str
) -> None:
    harness.communicate("")
    assert processes_of(run_id) == []
    assert not (parent / run_id).exists()


def test_closing_ends_what_still_carries_the_run(parent: Path) -> None:
    with RunState.create(parent=parent) as state:
        forgotten = subprocess.Popen(["sleep", "60"], env={**os.environ, **state.environment})
    assert forgotten.wait(5) == -signal.SIGKILL
    assert not state.path.exists()
    state.close()


def test_closing_ends_what_is_just_being_started(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within exec(2), a process has no environment for a moment."""
    environment, looks = run_processes._environment, list[int]()
    with RunState.create(parent=parent) as state:
        starting = subprocess.Popen(["sleep", "60"], env={**os.environ, **state.environment})

        def late(pid: int) -> bytes:
            looks.append(pid)
            return b"" if pid == starting.pid and looks.count(pid) == 1 else environment(pid)

        monkeypatch.setattr(run_processes, "_environment", late)
    assert starting.wait(30) == -signal.SIGKILL


def test_a_program_without_any_environment_is_not_waited_for_long(parent: Path) -> None:
    stranger = subprocess.Popen(["sleep", "60"], env={})
    try:
        with RunState.create(parent=parent):
            pass
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_process_of_another_run_is_not_touched(parent: Path) -> None:
    with RunState.create("run-1", parent=parent) as one:
        stranger = subprocess.Popen(["sleep", "60"], env={**os.environ, RUN_VARIABLE: "run-10"}, cwd=one.path)
        try:
            one.close()
            assert stranger.poll() is None
        finally:
            stranger.kill()
            stranger.wait()


def dead_run(parent: Path, run_id: str) -> Path:
    """What a harness leaves that died together with its reaper: a folder whose lock nobody holds."""
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, os, pathlib, psutil; from cluster.lifetime import RunState; "
            "state = RunState.create(sys.argv[2], parent=pathlib.Path(sys.argv[1])); "
            "[child.kill() for child in psutil.Process().children()]; os._exit(9)",
            parent,
            run_id,
        ],
        check=False,
    )
    folder = parent / run_id
    assert folder.is_dir()
    return folder


def test_a_backends_sweeper_is_told_who_lives_before_folders_go(parent: Path) -> None:
    dead = dead_run(parent, "dead")
    asked: dict[str, bool] = {}

    def sweeper(alive: Callable[[Path], bool]) -> Sequence[str]:
        asked.update(dead=alive(dead), living=alive(living.path), gone=alive(parent / "gone"), there=dead.exists())
        return ["container x"]

    with RunState.create("living", parent=parent) as living:
        swept = sweep([sweeper], parent=parent)
    assert asked == {"dead": False, "living": True, "gone": False, "there": True}
    assert swept.others == ("container x",)
    assert [run.run_id for run in swept.runs] == ["dead"]


def test_a_failing_sweeper_stops_nobody_and_what_it_leaves_is_found_by_the_next_sweep(parent: Path) -> None:
    dead = dead_run(parent, "dead")

    def failing(alive: Callable[[Path], bool]) -> Sequence[str]:
        raise BrokenEnvironmentError("the engine does not answer")

    swept = sweep([failing, lambda _: ["disk y"]], parent=parent)
    assert (swept.stuck, swept.others) == (("the engine does not answer",), ("disk y",))
    assert dead.exists()
    assert [run.run_id for run in sweep(parent=parent).runs] == ["dead"]


def test_a_folder_without_a_lock_file_is_a_dead_runs(parent: Path) -> None:
    dead = dead_run(parent, "dead")
    (dead / "owner.lock").unlink()
    (dead / "nodes").mkdir()
    (dead / "nodes" / "data").write_text("x")
    assert [run.run_id for run in sweep(parent=parent).runs] == ["dead"]
    assert not dead.exists()


def test_of_sweeps_at_the_same_time_each_dead_run_goes_to_one_and_starting_runs_to_none(parent: Path) -> None:
    for number in range(4):
        dead_run(parent, f"dead-{number}")
    swept: list[str] = []
    problems: list[BaseException] = []

    def sweeping() -> None:
        try:
            for _ in range(5):
                swept.extend(run.run_id for run in sweep(parent=parent).runs)
        except BaseException as error:
            problems.append(error)

    def starting(name: str) -> None:
        try:
            for number in range(50):
                state = RunState.create(f"{name}-{number}", parent=parent)
                assert is_alive(state.path)
                state.close()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=sweeping) for _ in range(3)]
    threads += [threading.Thread(target=starting, args=(f"living-{i}",)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert sorted(swept) == [f"dead-{number}" for number in range(4)]


def test_the_last_run_leaves_nothing_in_the_temporary_folder(parent: Path) -> None:
    with RunState.create("one", parent=parent):
        RunState.create("two", parent=parent).close()
        assert sorted(path.name for path in parent.iterdir()) == [".lock", "one"]
    assert not parent.exists()
    dead_run(parent, "dead")
    assert [run.run_id for run in sweep(parent=parent).runs] == ["dead"]
    sweep(parent=parent)
    assert not parent.exists()


def test_a_folder_that_is_taken_away_while_it_is_made_is_made_again(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir, refused = Path.mkdir, list[Path]()

    def gone_by_the_next_look(self: Path, *arguments: Any, **options: Any) -> None:
        if self == parent and not refused:
            refused.append(self)
            raise FileExistsError(errno.EEXIST, "File exists")
        mkdir(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", gone_by_the_next_look)
    RunState.create("one", parent=parent).close()
    assert refused == [parent]


def test_who_waits_for_a_lock_that_is_taken_away_makes_the_next_one(parent: Path) -> None:
    parent.mkdir(mode=0o700)
    made: list[RunState] = []
    with (parent / ".lock").open("w") as leaving:
        fcntl.flock(leaving, fcntl.LOCK_EX)
        waiting = threading.Thread(target=lambda: made.append(RunState.create("next", parent=parent)))
        waiting.start()
        waiting.join(0.1)
        (parent / ".lock").unlink()
        parent.rmdir()
    waiting.join(30)
    (state,) = made
    assert [run.run_id for run in sweep(parent=parent).runs] == []
    assert is_alive(state.path)
    state.close()


def test_a_run_waits_with_its_folder_while_someone_decides_who_is_dead(parent: Path) -> None:
    parent.mkdir(mode=0o700)
    made: list[RunState] = []
    with (parent / ".lock").open("w") as deciding:
        fcntl.flock(deciding, fcntl.LOCK_EX)
        starting = threading.Thread(target=lambda: made.append(RunState.create("starting", parent=parent)))
        starting.start()
        starting.join(0.1)
        assert not (parent / "starting").exists(), "a folder without its lock would be taken for a dead run's"
    starting.join(5)
    (state,) = made
    assert is_alive(state.path)
    state.close()


def test_a_sweep_decides_nothing_while_a_run_is_between_its_folder_and_its_lock(parent: Path) -> None:
    parent.mkdir(mode=0o700)
    swept: list[str] = []
    with (parent / ".lock").open("w") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        (parent / "starting").mkdir()
        sweeping = threading.Thread(target=lambda: swept.extend(run.run_id for run in sweep(parent=parent).runs))
        sweeping.start()
        sweeping.join(0.1)
        with (parent / "starting" / "owner.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(starting, fcntl.LOCK_UN)
            sweeping.join(5)
            assert swept == []
            assert is_alive(parent / "starting")


def test_the_same_run_cannot_be_created_twice(parent: Path) -> None:
    with RunState.create("one", parent=parent), pytest.raises(BrokenEnvironmentError, match="temporary folder"):
        RunState.create("one", parent=parent)


def test_a_parent_folder_that_others_can_enter_is_refused(parent: Path, tmp_path: Path) -> None:
    parent.mkdir(mode=0o755)
    parent.chmod(0o755)
    with pytest.raises(BrokenEnvironmentError, match="mode 0700"):
        RunState.create(parent=parent)
    link = tmp_path / "link"
    (tmp_path / "target").mkdir(mode=0o700)
    link.symlink_to(tmp_path / "target")
    with pytest.raises(BrokenEnvironmentError, match="mode 0700"):
        sweep(parent=link)


@pytest.mark.parametrize(
    ("found_at_s", "ends_at_s"),
    [
        ([], 1.0),  # what appears late appears within a second of the harness's death
        ([0.0, 0.5], 1.0),  # the time that removal takes is a part of it
        ([0.9], 1.3),
        ([0.9, 1.2], 1.6),  # an engine that is slow to remove may be slow to create
        ([2.5], 1.0),
    ],
)
def test_a_dead_run_counts_as_cleaned_up_soon_after_the_last_that_was_found(
    parent: Path, monkeypatch: pytest.MonkeyPatch, found_at_s: list[float], ends_at_s: float
) -> None:
    now_s = 0.0
    appearing = list(found_at_s)

    def sleep(for_s: float) -> None:
        nonlocal now_s
        now_s += for_s

    def sweeper(_: object) -> list[str]:
        found = [f"a thing of {at}" for at in appearing if at <= now_s + 1e-9]
        del appearing[: len(found)]
        return found

    monkeypatch.setattr("cluster.sweep.monotonic", lambda: now_s)
    monkeypatch.setattr("cluster.sweep.sleep", sleep)
    parent.mkdir(mode=0o700)
    (parent / "dead").mkdir()
    sweep_one(parent / "dead", [sweeper])
    assert now_s == pytest.approx(ends_at_s, abs=0.11)
    assert not (parent / "dead").exists()

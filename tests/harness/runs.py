"""Making runs as a user makes them: the command, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import psutil

from cluster.polling import becomes_true
from cluster.run_processes import RUN_VARIABLE
from fencepost.files import matching
from nemesis.schedule import Planned, draw_schedule, parse_spec
from tests.cluster.reapers import WITHIN_S
from tests.harness import warm
from tests.nemesis.fakes import topology
from tests.processes import every_process

ROOT = Path(__file__).parent.parent.parent
HANGS_AFTER_S: Final = 200.0
"""A command that takes longer hangs, on a busy machine, too. Less than a test may take (`timeout` of pytest)."""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fencepost", *arguments]


def start(folder: Path, *arguments: str, before: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start `fencepost` in `folder`, in a session of its own, with pipes for what it says. Its temporary state lies
    there too, so that no other run on this machine sweeps it. `before`: a command that starts it."""
    (folder / "tmp").mkdir(exist_ok=True)
    return subprocess.Popen(
        [*before, *command(*arguments)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=_environment(folder),
    )


def _environment(folder: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100", "TMPDIR": str(folder / "tmp")}


def finish(process: subprocess.Popen[str], timeout_s: float = HANGS_AFTER_S) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=timeout_s)
    return process.returncode, out, err


def fencepost(folder: Path, *arguments: str, timeout_s: float = HANGS_AFTER_S) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of one command."""
    if not warm.is_usual():
        return finish(start(folder, *arguments), timeout_s)
    (folder / "tmp").mkdir(exist_ok=True)
    return warm.fencepost(folder, arguments, _environment(folder), timeout_s)


def short_run(*arguments: str, cluster: str = "process") -> Sequence[str]:
    """The arguments of a run of a few seconds."""
    few = ["--clients", "3", "--duration", "2s", "--recovery", "1s", "--seed", "7"]
    lock = [] if "--lock-command" in arguments else ["--lock", "redlock"]
    return ["test", "--cluster", cluster, *lock, *few, *arguments]


def schedule_of(folder: Path, fault: Planned) -> Path:
    """A schedule of this one fault, for three clients and five nodes."""
    drawn = draw_schedule(parse_spec("none"), 7, topology(clients=3), 30_000)
    path = folder / "schedule.json"
    path.write_bytes(msgspec.structs.replace(drawn, faults=(fault,)).to_bytes())
    return path


def only_run(folder: Path) -> Path:
    """The one run folder below `folder`."""
    runs = [path for path in (folder / "results" / "runs").iterdir() if not path.is_symlink()]
    assert len(runs) == 1, runs
    return runs[0]


def state_left(folder: Path) -> list[Path]:
    """Temporary state of runs started in `folder` that is still there."""
    return [path for path in matching(folder, "tmp/fencepost-*/*") if path.is_dir()]


def is_gone(folder: Path, run: Path) -> bool:
    """Whether nothing of a run that was started in `folder` is left within seconds, without any command."""
    # To look at every process takes a while, and nothing is left only when the folder is gone.
    return becomes_true(lambda: not state_left(folder) and not processes_of(run), within_s=WITHIN_S, every_s=0.02)


def belongs_to_a_run(process: psutil.Process) -> bool:
    return bool(_found([process], lambda environment: RUN_VARIABLE in environment))


def processes_of(run: Path) -> list[str]:
    """Processes of a run that are still there."""
    return _found(every_process(), lambda environment: environment.get(RUN_VARIABLE) == run.name)


def processes_below(folder: Path) -> list[str]:
    """Processes of all runs whose temporary state lies below this folder that are still there."""
    return _found(
        every_process(),
        lambda environment: RUN_VARIABLE in environment and environment.get("TMPDIR", "").startswith(f"{folder}/"),
    )


def _found(processes: Iterable[psutil.Process], is_meant: Callable[[Mapping[str, str]], bool]) -> list[str]:
    """Those with such an environment. One that vanishes meanwhile is not among them."""
    found = []
    for process in processes:
        with suppress(psutil.Error):
            if is_meant(process.environ()):
                found.append(f"{process.pid} {process.name()}")
    return found

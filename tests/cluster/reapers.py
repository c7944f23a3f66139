"""For tests of what happens after a SIGKILL of the harness: with its reaper, and without one."""

from __future__ import annotations

from pathlib import Path

import psutil

from cluster.mounts import mounts_below
from cluster.polling import becomes_true
from cluster.run_processes import RUN_VARIABLE
from tests.cluster.disks import images_attached
from tests.processes import every_process

WITHIN_S = 5.0
"""How soon nothing may be left after the harness died."""


def reaper_of(folder: Path) -> psutil.Process | None:
    """The reaper of the run with this state folder, waiting or at work."""
    for process in every_process():
        try:
            if process.cmdline()[-1:] == [str(folder)] and process.status() != psutil.STATUS_ZOMBIE:
                return process
        except psutil.Error:
            continue
    return None


def kill_reaper(folder: Path) -> None:
    """What is left to a sweep when the reaper was killed together with the harness."""
    reaper = reaper_of(folder)
    assert reaper is not None
    reaper.kill()
    assert becomes_true(lambda: reaper_of(folder) is None)


def processes_of(run_id: str) -> list[str]:
    """The names of the processes that carry the run's mark, sorted."""
    names = []
    for process in every_process():
        try:
            if process.environ().get(RUN_VARIABLE) == run_id:
                names.append(process.name())
        except psutil.Error:
            continue
    return sorted(names)


def is_gone(folder: Path, within_s: float = WITHIN_S) -> bool:
    """Whether nothing of a run is left within this time. The folder goes last, and is looked at first: to look at every
    process of the machine takes a while."""
    return becomes_true(lambda: not folder.exists() and not left_of(folder), within_s=within_s, every_s=0.01)


def left_of(folder: Path) -> list[str]:
    """What of a run is left on this machine, except containers and networks: processes, mounts, loop devices, and the
    state folder itself."""
    return [
        *processes_of(folder.name),
        *(f"mount {point}" for point in mounts_below(folder.resolve())),
        *(f"loop device on {image}" for image in images_attached() if str(folder.resolve()) in image),
        *([str(folder)] if folder.exists() else []),
    ]

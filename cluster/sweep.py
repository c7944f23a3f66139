"""Remove everything that dead runs left behind: processes, containers, networks, disks, folders.

A run is dead when the lock on its state folder is free (`cluster.lifetime`). A sweep looks once and removes what it
finds; it runs at every start. `sweep_one` cleans up after one run that has just died, and keeps looking until nothing
more appears, because the last thing that the harness asked for may take effect after its death.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from cluster.lifetime import checked_parent, claim_dead, claim_one, delete_state, is_alive, parent_locked
from cluster.run_processes import end_processes
from fencepost.errors import BrokenEnvironmentError

Sweeper = Callable[[Callable[[Path], bool]], Sequence[str]]
"""A backend's own sweeper (containers, mounts). It is given a test whether the run with that state folder is alive
(False also for a folder that is gone), removes everything that belongs to dead runs, and returns a line for each thing
removed."""

_APPEARS_WITHIN_S = 1.0
"""How long after the death of its harness something of a run may still appear, as a container that the engine was
creating at that moment."""
_QUIET_S = 0.4
"""How long nothing must have been found before a dead run counts as cleaned up: an engine that is slow to remove may be
slow to create, too."""
_LOOK_EVERY_S = 0.1
_GIVE_UP_S = 60.0


class UnaskedError(BrokenEnvironmentError):
    """A place that may hold something of a dead run does not answer, so it is unknown."""


@dataclass(frozen=True, slots=True)
class DeadRun:
    """A run whose harness is gone, and what was removed of it. `processes`: `pid name` of each that was killed."""

    run_id: str
    folder: Path
    processes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep removed. `others`: the lines of the backends' sweepers. `stuck`: what could not be removed, and why,
    a line each; the folders of the dead runs are then kept for the next sweep. `unasked`: who could not be asked, and
    why, a line each."""

    runs: tuple[DeadRun, ...]
    others: tuple[str, ...]
    stuck: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()


def sweep(sweepers: Sequence[Sweeper] = (), *, parent: Path | None = None) -> Swept:
    """Remove everything that dead runs left: processes, what the backends' sweepers know, folders.

    Raises BrokenEnvironmentError if a process cannot be ended. Anything else that cannot be removed is told; a new run
    shares nothing with it.
    """
    parent = checked_parent(parent)
    claimed = claim_dead(parent)
    names = {folder.name for folder in claimed}
    others: list[str] = []
    stuck: list[str] = []
    unasked: list[str] = []
    try:
        runs = tuple(DeadRun(folder.name, folder, end_processes(folder.name)) for folder in claimed)

        def alive(folder: Path) -> bool:
            # Under the parent's lock, like every decision about life and death: a run that is between making its
            # folder and locking it has started nothing yet.
            with parent_locked(parent):
                return folder.name not in names and is_alive(folder)

        for sweeper in sweepers:
            try:
                others += sweeper(alive)
            except UnaskedError as error:
                unasked.append(str(error))
            except BrokenEnvironmentError as error:
                stuck.append(str(error))
        for folder in [] if stuck else list(claimed):
            delete_state(folder, claimed.pop(folder))
    finally:
        for lock in claimed.values():
            os.close(lock)
    return Swept(runs, tuple(others), tuple(stuck), tuple(unasked))


def sweep_one(folder: Path, sweepers: Sequence[Sweeper]) -> None:
    """Remove everything of the run with this state folder, whose harness has just died, and the folder last.

    What cannot be removed is tried again for a minute. Another sweep that got the run first is waited for. If the
    folder is gone (it was deleted, or the harness died before it made one), the rest is removed all the same.
    Raises BrokenEnvironmentError if something is left; the next sweep finds it.
    """
    deadline = monotonic() + _GIVE_UP_S
    lock: int | None = None
    with suppress(FileNotFoundError):
        while (lock := claim_one(folder)) is None:
            if monotonic() > deadline:
                raise BrokenEnvironmentError(f"another process holds the lock of {folder}")
            sleep(_LOOK_EVERY_S)
    began = quiet_since = monotonic()
    while monotonic() < max(began + _APPEARS_WITHIN_S, quiet_since + _QUIET_S):
        try:
            if end_processes(folder.name) or _removed(sweepers, folder):
                quiet_since = monotonic()
        except BrokenEnvironmentError:
            if monotonic() > deadline:
                if lock is not None:
                    os.close(lock)
                raise
            quiet_since = monotonic()
        sleep(_LOOK_EVERY_S)
    if lock is not None:
        delete_state(folder, lock)


def _removed(sweepers: Sequence[Sweeper], dead: Path) -> list[str]:
    """What the sweepers removed of this run. Who cannot be asked is left to the next sweep."""
    removed: list[str] = []
    for each in sweepers:
        with suppress(UnaskedError):
            removed += each(_all_but(dead))
    return removed


def _all_but(dead: Path) -> Callable[[Path], bool]:
    """Whether a run is alive, for sweepers that are to leave every other run alone."""
    return lambda folder: folder.name != dead.name

"""A run's temporary state, and how what a dead run left behind is found and removed.

Each run has a folder `<temporary folder>/fencepost-<uid>/<run id>/` and holds a lock (flock) on `owner.lock` in it
for as long as its harness lives; the kernel lets go of the lock however the harness ends. Every process that a run
starts carries FENCEPOST_RUN=<run id> in its environment. So a sweep needs no list that could be out of date: whose
lock can be taken is dead, and what carries its id goes away.

Making a folder with its lock, deciding that an owner is dead, and deleting a folder each happen under one lock on
the parent folder, held for a moment: a run that is just starting is never taken for dead, and of two sweeps at the
same time only one gets each dead run.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import select
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from fencepost.errors import BrokenEnvironmentError

RUN_VARIABLE = "FENCEPOST_RUN"
"""The variable of the environment that marks every process of a run."""

_LOCK_NAME = "owner.lock"
_PARENT_LOCK = ".lock"
_END_LIMIT_S = 10.0

Sweeper = Callable[[Callable[[Path], bool]], Sequence[str]]
"""A backend's own sweeper (containers, mounts). It is given a test whether the run with that state folder is alive
(False also for a folder that is gone), removes everything that belongs to dead runs, and returns a line for each."""


@dataclass(frozen=True, slots=True)
class DeadRun:
    """A run whose harness is gone, and what was removed of it. `processes`: `pid name` of each that was killed."""

    run_id: str
    folder: Path
    processes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep removed. `others`: the lines of the backends' sweepers."""

    runs: tuple[DeadRun, ...]
    others: tuple[str, ...]


class RunState:
    """The temporary state of a living run: its folder and the lock on it. A context manager that closes itself."""

    def __init__(self, run_id: str, folder: Path, parent: Path, lock: int) -> None:
        self.run_id = run_id
        self.path = folder
        self._parent = parent
        self._lock: int | None = lock

    @classmethod
    def create(cls, run_id: str | None = None, *, parent: Path | None = None) -> Self:
        """A new folder, locked. `parent` is `state_parent()` by default.

        Raises BrokenEnvironmentError if the folder exists already or cannot be made.
        """
        parent = _checked_parent(parent)
        run_id = run_id or f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"
        folder = parent / run_id
        with _parent_locked(parent):
            try:
                folder.mkdir(mode=0o700)
            except OSError as error:
                raise BrokenEnvironmentError(f"cannot make the run's temporary folder: {error}") from error
            lock = _open_lock(folder)
            fcntl.flock(lock, fcntl.LOCK_EX)  # at most someone's `is_alive` holds it, for a moment
        return cls(run_id, folder, parent, lock)

    @property
    def environment(self) -> Mapping[str, str]:
        """What every process of this run must have in its environment."""
        return {RUN_VARIABLE: self.run_id}

    def close(self) -> None:
        """End what still carries this run's id, delete the folder, let go of the lock. A second call does nothing."""
        if self._lock is None:
            return
        end_processes(self.run_id)
        _delete(self.path, self._parent, self._lock)
        self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def state_parent() -> Path:
    """Where this user's runs keep their temporary state."""
    return Path(tempfile.gettempdir()) / f"fencepost-{os.getuid()}"


def is_alive(folder: Path) -> bool:
    """Whether the harness of the run with this state folder lives: someone holds its lock."""
    try:
        descriptor = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def sweep(sweepers: Sequence[Sweeper] = (), *, parent: Path | None = None) -> Swept:
    """Remove everything that dead runs left: processes, what the backends' sweepers know, folders.

    Raises BrokenEnvironmentError if something cannot be removed; what is left is found again by the next sweep.
    """
    parent = _checked_parent(parent)
    claimed = _claim_dead(parent)
    try:
        runs = tuple(DeadRun(folder.name, folder, end_processes(folder.name)) for folder in claimed)

        def alive(folder: Path) -> bool:
            # Under the parent's lock, like every decision about life and death: a run that is between making its
            # folder and locking it has started nothing yet.
            with _parent_locked(parent):
                return folder not in claimed and is_alive(folder)

        others = tuple(line for sweeper in sweepers for line in sweeper(alive))
        for folder in list(claimed):
            _delete(folder, parent, claimed.pop(folder))
    finally:
        for lock in claimed.values():
            os.close(lock)
    return Swept(runs, others)


def end_processes(run_id: str) -> tuple[str, ...]:
    """SIGKILL every process that carries the run's id in its environment, and wait until all are gone.

    Never the caller itself. Returns `pid name` of each. Raises BrokenEnvironmentError if one does not go.
    """
    ended: list[str] = []
    deadline = time.monotonic() + _END_LIMIT_S
    # A process may have started another between the look and its end, so look until none is found.
    while found := list(_processes_of(run_id)):
        try:
            for pid, descriptor in found:
                if (line := f"{pid} {_process_name(pid)}") not in ended:
                    ended.append(line)
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            for pid, descriptor in found:
                left_s = max(0.0, deadline - time.monotonic())
                if not select.select([descriptor], [], [], left_s)[0]:
                    raise BrokenEnvironmentError(f"process {pid} of run {run_id} does not end after SIGKILL")
        finally:
            for _, descriptor in found:
                os.close(descriptor)
    return tuple(ended)


def _processes_of(run_id: str) -> Iterator[tuple[int, int]]:
    """Every process of the run, as pid and pidfd.

    The pidfd is opened before the process is looked at and the process is seen alive afterwards, so it means the
    process that was looked at, whatever happens to the number later.
    """
    own = os.getpid()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == own or not _belongs(entry.name, run_id):
            continue
        pid = int(entry.name)
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            continue
        if _belongs(entry.name, run_id):
            yield pid, descriptor
        else:
            os.close(descriptor)


def _belongs(pid: str, run_id: str) -> bool:
    """Whether a living process carries the run's id; a dead one has no environment any more.

    Servers are told not to set their title, which they would write over the environment. Folders decide nothing: a
    user's shell may well be inside a dead run's folder.
    """
    try:
        environment = (Path("/proc") / pid / "environ").read_bytes()
    except OSError:
        return False
    return f"{RUN_VARIABLE}={run_id}".encode() in environment.split(b"\0")


def _process_name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "comm").read_text().strip()
    return "?"


def _claim_dead(parent: Path) -> dict[Path, int]:
    """The folders whose owner is dead, each with its lock, which now is ours."""
    claimed: dict[Path, int] = {}
    with _parent_locked(parent):
        for folder in sorted(parent.iterdir()):
            if folder.is_dir() and not folder.is_symlink() and (lock := _try_lock(folder)) is not None:
                claimed[folder] = lock
    return claimed


def _delete(folder: Path, parent: Path, lock: int) -> None:
    """Delete a folder whose lock we hold. The lock file goes last: half deleted it is still a dead run's folder."""
    try:
        for entry in [entry for entry in folder.iterdir() if entry.name != _LOCK_NAME]:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        with _parent_locked(parent):
            shutil.rmtree(folder)
    except FileNotFoundError:
        pass  # someone else (a cleaner of temporary files) was here; what is gone is gone
    except OSError as error:
        raise BrokenEnvironmentError(f"cannot delete {folder}: {error}; delete it by hand") from error
    finally:
        os.close(lock)


def _try_lock(folder: Path) -> int | None:
    """The lock of a folder (its file is made if it is missing), or None if someone holds it."""
    descriptor = _open_lock(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _open_lock(folder: Path) -> int:
    return os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


@contextlib.contextmanager
def _parent_locked(parent: Path) -> Iterator[None]:
    descriptor = os.open(parent / _PARENT_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _checked_parent(parent: Path | None) -> Path:
    """The parent folder, made if it is missing, and surely ours: in a temporary folder that everyone can write to,
    someone else could have put it there first."""
    parent = parent or state_parent()
    try:
        parent.mkdir(mode=0o700, exist_ok=True)
        status = parent.lstat()
    except OSError as error:
        raise BrokenEnvironmentError(f"cannot make the folder for temporary state: {error}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise BrokenEnvironmentError(
            f"{parent} must be a folder of this user that nobody else can enter (mode 0700); remove it, or set TMPDIR"
        )
    return parent

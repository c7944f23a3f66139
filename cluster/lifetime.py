"""A run's temporary state, and how anyone can tell whether the run is alive.

Each run has a folder `<temporary folder>/fencepost-<uid>/<run id>/` and holds a lock (flock) on `owner.lock` in it for
as long as its harness lives; the kernel releases the lock however the harness ends. Every process that a run starts
carries FENCEPOST_RUN=<run id> in its environment. So cleaning up (`cluster.sweep`) needs no list that could be out of
date: a run whose lock is free is dead, and everything that carries its id is removed. A reaper (`cluster.reaper`)
waits for the death of the harness and then cleans up immediately.

Making a folder with its lock, deciding that an owner is dead, and deleting a folder each happen under one lock on
the parent folder, held for a moment: a run that is just starting is never taken for dead, and of two sweeps at the
same time only one gets each dead run. A process that holds it and leaves nothing else in the parent folder takes that
away, so that nothing is left in the temporary folder when no run is under way.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from cluster.reaper import Reaper
from cluster.run_processes import RUN_VARIABLE, end_processes
from cluster.site import Site
from fencepost.errors import BrokenEnvironmentError

_LOCK_NAME = "owner.lock"
_PARENT_LOCK = ".lock"
_SITE_NAME = "site.json"
_LEFT_NAME = "left"


class StateFolder:
    """The folder for a run's temporary state, as every process of the run sees it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def site(self) -> Site | None:
        """Where the run has its servers, recorded when it was made; None for one without servers."""
        return _site_of(self.path)

    def leave_to_reaper(self) -> None:
        """Record that something of the run could not be removed: the reaper tries again when the run is closed, and
        the folder stays until that worked."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / _LEFT_NAME).touch()

    @property
    def environment(self) -> Mapping[str, str]:
        """What every process of this run must have in its environment."""
        return {RUN_VARIABLE: self.run_id}


class RunState(StateFolder):
    """The temporary state of a living run: its folder, the lock on it, and the reaper that watches over both. A context
    manager that closes itself."""

    def __init__(self, folder: Path, lock: int, reaper: Reaper) -> None:
        super().__init__(folder)
        self._lock: int | None = lock
        self._reaper = reaper

    @classmethod
    def create(cls, run_id: str | None = None, *, parent: Path | None = None, site: Site | None = None) -> Self:
        """A new folder, locked. `parent` is `state_parent()` by default. `site`: where the run has its servers.

        Raises BrokenEnvironmentError if the folder exists already or cannot be made.
        """
        parent = checked_parent(parent)
        run_id = run_id or f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"
        folder = parent / run_id
        reaper = Reaper.start(folder, site)  # first, so that what follows is always cleaned up
        try:
            with parent_locked(parent):
                try:
                    folder.mkdir(mode=0o700)
                    if site is not None:
                        (folder / _SITE_NAME).write_text(site.encode())
                except OSError as error:
                    if not isinstance(error, FileExistsError):
                        shutil.rmtree(folder, ignore_errors=True)
                    raise BrokenEnvironmentError(
                        f"the run's temporary folder, {folder}, cannot be made: {error.strerror}; make room, or set "
                        "TMPDIR"
                    ) from error
                lock = _open_lock(folder)
                fcntl.flock(lock, fcntl.LOCK_EX)  # at most an `is_alive` elsewhere holds it, for a moment
        except BaseException:
            reaper.dismiss()
            raise
        return cls(folder, lock, reaper)

    def close(self) -> None:
        """End every process that still carries this run's id, delete the folder, release the lock. A second call does
        nothing. Raises BrokenEnvironmentError if something resists; the reaper tries again when this process ends."""
        if self._lock is None:
            return
        end_processes(self.run_id)
        lock, self._lock = self._lock, None
        if (self.path / _LEFT_NAME).exists():
            os.close(lock)
            self._reaper.release()
            return
        delete_state(self.path, lock)
        self._reaper.dismiss()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def temporary_folder() -> Path:
    """$TMPDIR, or else /tmp. A cleanup must look where the run was: so it is never another folder because this
    one happens to be full, as it would be with `tempfile`."""
    return Path(os.environ.get("TMPDIR") or "/tmp").absolute()  # noqa: S108


def state_parent() -> Path:
    """Where this user's runs keep their temporary state."""
    return temporary_folder() / f"fencepost-{os.getuid()}"


def is_alive(folder: Path) -> bool:
    """Whether the harness of the run with this state folder lives: a process holds its lock."""
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


def sites_of_dead(parent: Path, backend: str, alive: Callable[[Path], bool]) -> dict[Path, Site]:
    """The state folders in `parent` of dead runs of this backend, and the site of each."""
    try:
        folders = sorted(parent.iterdir())
    except FileNotFoundError:
        return {}
    sites = {folder: site for folder in folders if (site := _site_of(folder)) and site.backend == backend}
    return {folder: site for folder, site in sites.items() if not alive(folder)}


def _site_of(folder: Path) -> Site | None:
    try:
        return Site.decode((folder / _SITE_NAME).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError):  # half-written by a harness that was killed, before it had servers
        return None


def live_runs(parent: Path) -> list[str]:
    """The ids of the runs in `parent` that are alive."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(folder.name for folder in parent.iterdir() if is_alive(folder))
    return []


def claim_dead(parent: Path) -> dict[Path, int]:
    """The state folders whose owner is dead, each with its lock, which is now the caller's."""
    with parent_locked(parent):
        folders = [folder for folder in sorted(parent.iterdir()) if folder.is_dir() and not folder.is_symlink()]
        return {folder: lock for folder in folders if (lock := _try_lock(folder)) is not None}


def claim_one(folder: Path) -> int | None:
    """The lock of this run's state folder, which is now the caller's; None while another process holds it. Raises
    FileNotFoundError if the folder is gone."""
    with parent_locked(folder.parent):
        return _try_lock(folder)


def delete_state(folder: Path, lock: int) -> None:
    """Delete a state folder whose lock the caller holds, and release the lock.

    The lock file goes last: a half-deleted folder is still recognized as a dead run's.
    """
    try:
        for entry in [entry for entry in folder.iterdir() if entry.name != _LOCK_NAME]:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        with parent_locked(folder.parent):
            shutil.rmtree(folder)
    except FileNotFoundError:
        pass  # another process (a cleaner of temporary files) was here; what is gone is gone
    except OSError as error:
        raise BrokenEnvironmentError(f"cannot delete {folder}: {error}; delete it by hand") from error
    finally:
        os.close(lock)


@contextlib.contextmanager
def parent_locked(parent: Path) -> Iterator[None]:
    """Every decision about the life and death of runs in `parent` is made while this is held. Raises
    BrokenEnvironmentError if the folder is not ours alone, FileNotFoundError if there is no place for it."""
    descriptor = _lock_parent(parent)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if [path.name for path in parent.iterdir()] == [_PARENT_LOCK]:
                (parent / _PARENT_LOCK).unlink()
                parent.rmdir()  # fails if another process has just made the next lock in it, and uses that
        os.close(descriptor)


def _lock_parent(parent: Path) -> int:
    """The lock of the folder, which is made if it is missing. It may be taken away at any moment until it is locked."""
    while True:
        with contextlib.suppress(FileExistsError):  # `exist_ok` fails if it is taken away just then
            parent.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            _check_ours(parent)
            descriptor = os.open(parent / _PARENT_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(descriptor), (parent / _PARENT_LOCK).lstat()):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)


def checked_parent(parent: Path | None) -> Path:
    """The parent folder, made if it is missing, and certainly ours: in a temporary folder that every user can write to,
    another user could have put it there first. Raises BrokenEnvironmentError."""
    parent = parent or state_parent()
    try:
        with contextlib.suppress(FileExistsError):  # whatever it is, it is looked at below
            parent.mkdir(mode=0o700)
    except OSError as error:
        raise BrokenEnvironmentError(
            f"the folder for temporary state, {parent}, cannot be made: {error.strerror}; make room, or set TMPDIR"
        ) from error
    with contextlib.suppress(FileNotFoundError):  # the last run has just taken it away
        _check_ours(parent)
    return parent


def _check_ours(parent: Path) -> None:
    status = parent.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise BrokenEnvironmentError(
            f"{parent} must be a folder that only this user can enter (mode 0700); remove it, or set TMPDIR"
        )


def _try_lock(folder: Path) -> int | None:
    """The lock of a folder (its file is made if it is missing), or None if a process holds it."""
    descriptor = _open_lock(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _open_lock(folder: Path) -> int:
    return os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

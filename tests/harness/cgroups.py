"""A control group of one's own, with whichever version of the interface the machine has: to freeze processes together,
and to give them less than a whole processor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cluster.polling import becomes_true

_ROOT = Path("/sys/fs/cgroup")
HAS_FREEZER = (_ROOT / "freezer").is_dir()
"""Whether this is the first version of the interface. There the kernel shows a frozen process as one in the kernel."""
_PERIOD_US = 50_000


class Group:
    """Processes that were put into it, with everything that they start."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders

    def add(self, pids: Iterable[int]) -> None:
        """A process that has ended meanwhile is left out."""
        for pid in pids:
            for folder in self._folders.values():
                with suppress(ProcessLookupError):
                    (folder / "cgroup.procs").write_text(str(pid))

    def freeze(self) -> None:
        self._set("freezer", {"freezer.state": "FROZEN", "cgroup.freeze": "1"})

    def thaw(self) -> None:
        self._set("freezer", {"freezer.state": "THAWED", "cgroup.freeze": "0"})

    def allow(self, processors: float) -> None:
        """Let all of them together have no more than this many processors."""
        quota_us = round(processors * _PERIOD_US)
        self._set("cpu", {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.max": f"{quota_us} {_PERIOD_US}"})
        self._set("cpu", {"cpu.cfs_quota_us": str(quota_us), "cpu.max": f"{quota_us} {_PERIOD_US}"})

    def _set(self, controller: str, values: dict[str, str]) -> None:
        for name, value in values.items():
            if (file := self._folders[controller] / name).exists():
                file.write_text(value)


def why_not() -> str:
    """Why this machine gives no control groups; empty if it does."""
    try:
        with group("fencepost-probe"):
            return ""
    except OSError as error:
        return f"control groups cannot be made here ({error})"


@contextmanager
def group(name: str) -> Iterator[Group]:
    """A new group, thawed and removed in the end; what is still in it goes back to the group above. Raises OSError."""
    if HAS_FREEZER:
        folders = {controller: _ROOT / controller / name for controller in ("freezer", "cpu")}
    else:
        with suppress(OSError):  # it may be on already, or not be ours to switch on
            (_ROOT / "cgroup.subtree_control").write_text("+cpu")
        folders = dict.fromkeys(("freezer", "cpu"), _ROOT / name)
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    own = Group(folders)
    try:
        yield own
    finally:
        own.thaw()
        for folder in dict.fromkeys(folders.values()):
            becomes_true(lambda folder=folder: _is_removed(folder))  # type: ignore[misc]


def _is_removed(folder: Path) -> bool:
    if not folder.exists():
        return True
    for pid in (folder / "cgroup.procs").read_text().split():
        with suppress(OSError):
            (folder.parent / "cgroup.procs").write_text(pid)
    with suppress(OSError):
        folder.rmdir()
    return not folder.exists()

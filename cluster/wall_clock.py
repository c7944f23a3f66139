"""The wall clock of one process, which can be set while the process runs.

A small library of ours (`fencepost/setup/clock/clock.c`, built by set-up) is preloaded into the process and answers in
place of libc when the process asks for the wall clock. Its setting is a file that it maps and that is written here, so
the process itself is told nothing. CLOCK_MONOTONIC stays as it is.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.setup.machine import SET_UP, tools_folder

LIBRARY: Final = "fencepost-clock.so"
_PAGE: Final = "setting"
_TOLD_MS: Final = 0.002
_MS_NS: Final = 1_000_000
_PPM_IN_PERCENT: Final = 10_000
_SETTING: Final = struct.Struct("4q")
"""`struct setting` of the library: since_ns, ahead_ns, rate_ppm, strobe_ns."""
_GENERATION: Final = struct.Struct("Q")
"""In native mode, so that it is written as one number and no process sees half of it."""


class ClockSetting(NamedTuple):
    """From the moment at which it is set, the clock is `ahead_ms` ahead of this machine's (behind, if negative) and
    gains `rate_percent` (loses, if negative). With `strobe_ms` it is ahead for so long, then right for so long, again
    and again."""

    ahead_ms: float = 0.0
    rate_percent: float = 0.0
    strobe_ms: float = 0.0


RIGHT: Final = ClockSetting()


class ClockAhead(NamedTuple):
    """Certainly at least `least_ms` and at most `most_ms` ahead of this machine's clock: it was read in between."""

    least_ms: float
    most_ms: float

    def may_be(self, least_ms: float, most_ms: float) -> bool:
        """Whether it may be ahead by something from `least_ms` to `most_ms`. Servers tell the time in microseconds."""
        return self.least_ms - _TOLD_MS <= most_ms and least_ms <= self.most_ms + _TOLD_MS


class WallClock:
    """One process's clock, in a `folder` of its own, which the process must be able to read. A new one is right."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        self._generation = 0
        try:
            folder.mkdir(mode=0o755, parents=True)
            shutil.copy(library, folder / LIBRARY)
            (folder / LIBRARY).chmod(0o755)
            descriptor = os.open(folder / _PAGE, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                os.fchmod(descriptor, 0o644)
                os.posix_fallocate(descriptor, 0, mmap.PAGESIZE)
                self._page = memoryview(mmap.mmap(descriptor, mmap.PAGESIZE))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise BrokenEnvironmentError(f"no clock can be made in {folder}: {error}") from error

    @property
    def files(self) -> Mapping[str, Path]:
        """What the process must have in its environment: paths of files to open, by variable."""
        return environment_in(self.folder)

    def set(self, setting: ClockSetting) -> None:
        """Takes effect at once, in a process that runs and in every later one."""
        place = _GENERATION.size + _SETTING.size * ((self._generation + 1) % 2)
        _SETTING.pack_into(
            self._page,
            place,
            time.monotonic_ns(),
            round(setting.ahead_ms * _MS_NS),
            round(setting.rate_percent * _PPM_IN_PERCENT),
            round(setting.strobe_ms * _MS_NS),
        )
        self._generation += 1
        _GENERATION.pack_into(self._page, 0, self._generation)


def environment_in(folder: Path) -> dict[str, Path]:
    """The same, for a process that sees the clock's folder there."""
    return {"LD_PRELOAD": folder / LIBRARY, "FENCEPOST_CLOCK": folder / _PAGE}


def find_clock_library() -> Path:
    """The library that set-up built. Raises UsageError if there is none."""
    library = tools_folder() / "lib" / LIBRARY
    if not library.is_file():
        raise UsageError(
            f"no wall clock can be set here: {library} is missing, because set-up found no C compiler or was not run; "
            f"install one (gcc) and run `{SET_UP}`, or leave out the nemesis clock and --clocks"
        )
    return library


def no_clock(name: str) -> BrokenEnvironmentError:
    """Asked to set the clock of a server that has none of its own."""
    return BrokenEnvironmentError(f"{name} has no clock of its own that could be set; bring the cluster up with clocks")

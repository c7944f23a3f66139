"""The wall clock of one client, which can be set while its process, and that of its foreign library, run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cluster.wall_clock import LIBRARY, ClockAhead, ClockSetting, WallClock, find_clock_library

_TELLS_THE_TIME: Final = "import time; print(time.time_ns())"
_TOLD_WITHIN_S: Final = 10.0


class ClientClock:
    """`environment`: the client's, to which the clock is added. Raises as `WallClock` does."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._clock = WallClock(folder, find_clock_library())
        self.environment = {**environment, **{name: str(path) for name, path in self._clock.files.items()}}

    def set(self, setting: ClockSetting) -> None:
        """Takes effect at once, and in every later process of the client."""
        self._clock.set(setting)

    def ahead(self, pids: Iterable[int]) -> ClockAhead | None:
        """How far it is ahead, as a process that has this clock reads it; None if one of the client's processes does
        not use it. (Programs that are linked statically, like those in Go, ask the kernel and not libc.)"""
        if not all(LIBRARY in Path(f"/proc/{pid}/maps").read_text() for pid in pids):
            return None
        words = [sys.executable, "-I", "-S", "-c", _TELLS_THE_TIME]
        before_ns = time.time_ns()
        told = subprocess.run(words, env=self.environment, capture_output=True, check=True, timeout=_TOLD_WITHIN_S)
        after_ns, told_ns = time.time_ns(), int(told.stdout)
        return ClockAhead((told_ns - after_ns) / 1e6, (told_ns - before_ns) / 1e6)

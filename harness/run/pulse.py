"""Records how late the process that makes the run wakes up, and how much of the machine a hypervisor took. On a busy
machine faults are injected late."""

from __future__ import annotations

import os
import threading
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Final, Self

from workloads.beat_log import BEAT_S, BeatLog

_STOLEN: Final = 8
"""The place of the stolen time in the first line of /proc/stat."""


class Pulse:
    """A context manager: a thread that beats as the heart of a client does. `log`: where its beats are recorded."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def _beat(self) -> None:
        waiting = Waiting()
        with closing(BeatLog(self._log)) as log:
            log.begin(monotonic_ns(), waiting.so_far_ns(), stolen_ns())
            while not self._is_over.wait(BEAT_S):
                log.beat(monotonic_ns(), waiting.so_far_ns(), stolen_ns())


class Waiting:
    """How long the threads of this process waited for a processor, those that have ended included."""

    def __init__(self) -> None:
        self._total_ns = 0
        self._of_living: dict[str, int] = {}

    def so_far_ns(self) -> int:
        """Since they began; 0 where the kernel does not say it."""
        living = {task.name: _second_number(task / "schedstat") for task in Path("/proc/self/task").iterdir()}
        self._total_ns += sum(max(0, waited - self._of_living.get(task, 0)) for task, waited in living.items())
        self._of_living = living
        return self._total_ns


def stolen_ns() -> int:
    """How long a hypervisor gave the processors to others, on their average; 0 where the kernel does not say it."""
    with suppress(OSError, IndexError, ValueError):
        ticks = int(_first_line(Path("/proc/stat")).split()[_STOLEN])
        return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK") // (os.cpu_count() or 1)
    return 0


def _second_number(path: Path) -> int:
    with suppress(OSError, IndexError, ValueError):
        return int(_first_line(path).split()[1])
    return 0


def _first_line(path: Path) -> str:
    with path.open() as file:
        return file.readline()

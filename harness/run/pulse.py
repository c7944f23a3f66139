"""Records how late the process that makes the run wakes up, and how much of the machine a hypervisor took. On a busy
machine faults are injected late."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event
from time import monotonic_ns
from typing import Final

from harness.run.beside import beside
from workloads.beat_log import BEAT_S, BeatLog

_STOLEN: Final = 8
"""The place of the stolen time in the first line of /proc/stat."""


@contextmanager
def pulse(log: Path) -> Iterator[None]:
    """A thread beats as the heart of a client does, while the block runs. `log`: where its beats are recorded."""

    def beat(is_over: Event) -> None:
        waiting = Waiting()
        with closing(BeatLog(log)) as beats:
            beats.begin(monotonic_ns(), waiting.so_far_ns(), stolen_ns())
            while not is_over.wait(BEAT_S):
                beats.beat(monotonic_ns(), waiting.so_far_ns(), stolen_ns())

    with beside(beat, "pulse"):
        yield


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

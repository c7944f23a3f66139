"""Records how late the process that makes the run wakes up, and how much of the machine a hypervisor took. On a busy
machine faults are injected late."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from time import monotonic_ns
from typing import Final

from harness.run.background import beside
from workloads.beat_log import BEAT_S, BeatLog

_STOLEN: Final = 8
"""The place of the stolen time in the first line of /proc/stat."""
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_ENOUGH_BYTES: Final = 256
"""More than what is looked for takes, also after years."""


@contextmanager
def pulse(log: Path) -> Iterator[None]:
    """A thread beats as the heart of a client does, while the block runs. `log`: where its beats are recorded."""

    def beat(is_over: Event) -> None:
        waiting = ThreadWaits()
        with closing(BeatLog(log)) as beats:
            beats.begin(monotonic_ns(), waiting.so_far_ns(), stolen_ns())
            while not is_over.wait(BEAT_S):
                beats.beat(monotonic_ns(), waiting.so_far_ns(), stolen_ns())

    with beside(beat, "pulse"):
        yield


class ThreadWaits:
    """How long each thread of this process waited for a processor, ended ones included."""

    def __init__(self) -> None:
        self._waits_ns: dict[str, int] = {}
        self._of_living: dict[str, int] = {}

    def so_far_ns(self) -> Mapping[str, int]:
        """Since it began, by a name that the next thread may have, too; 0 where the kernel does not say it."""
        with os.scandir("/proc/self/task") as tasks:
            living = {task.name: _number(f"{task.path}/schedstat", 1) for task in tasks}
        for task, waited_ns in living.items():
            since_ns = max(0, waited_ns - self._of_living.get(task, 0))
            self._waits_ns[task] = self._waits_ns.get(task, 0) + since_ns
        self._of_living = living
        return self._waits_ns


def stolen_ns() -> int:
    """How long a hypervisor gave the processors to others, on their average; 0 where the kernel does not say it."""
    return _number("/proc/stat", _STOLEN) * 1_000_000_000 // _TICKS_PER_S // (os.cpu_count() or 1)


def _number(path: str, place: int) -> int:
    """A number in a file of the kernel's, by its place among the words; 0 if it is not there. By system calls alone,
    because every thread's is read at every beat."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(file, _ENOUGH_BYTES).split(None, place + 1)[place])
        finally:
            os.close(file)
    except (OSError, IndexError, ValueError):
        return 0

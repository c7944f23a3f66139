"""Records how late the process that makes the run wakes up, and how much of the machine a hypervisor took. On a busy
machine faults are injected late."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from time import monotonic_ns
from typing import Final

from harness.run.background import beside
from workloads.beat_log import BEAT_S, BeatLog
from workloads.waiting import ThreadWaits, kernel_number

_STOLEN: Final = 8
"""The place of the stolen time in the first line of /proc/stat."""
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@contextmanager
def pulse(log: Path) -> Iterator[None]:
    """A thread beats as the heart of a client does, while the block runs. `log`: where its beats are recorded."""

    def beat(is_over: Event) -> None:
        waits = ThreadWaits()
        with closing(BeatLog(log)) as beats:
            beats.begin(monotonic_ns(), waits.so_far_ns, stolen_ns())
            while not is_over.wait(BEAT_S):
                waits.look()
                beats.beat(monotonic_ns(), waits.so_far_ns, stolen_ns())

    with beside(beat, "pulse"):
        yield


def stolen_ns() -> int:
    """How long a hypervisor gave the processors to others, on their average; 0 where the kernel does not say it."""
    return kernel_number("/proc/stat", _STOLEN) * 1_000_000_000 // _TICKS_PER_S // (os.cpu_count() or 1)

"""Records what a busy machine does to the harness: how late the process that makes the run wakes up, how much of the
machine a hypervisor took, and when the proxy was kept waiting. Faults are then injected late, and requests of clients
that did nothing wrong arrive late."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from threading import Event
from time import monotonic_ns
from typing import Final

from harness.run.background import beside
from workloads.beat_log import BEAT_S, BeatLog
from workloads.recorder import Recorder
from workloads.waiting import KeptWaiting, ThreadWaits, kernel_number

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


@contextmanager
def watched_waits(pid: int | None, log: Path) -> Iterator[None]:
    """A thread records when another process was kept waiting (`workloads.waiting`), while the block runs; nothing of a
    process that is not visible from here. `log`: is made when there is something to record."""

    def look(is_over: Event) -> None:
        waits, last_ns = ThreadWaits(pid), monotonic_ns()
        with ExitStack() as files:
            record = cache(lambda: files.enter_context(closing(Recorder(log))))
            kept = KeptWaiting(lambda gap: record()(gap))
            while not is_over.wait(BEAT_S):
                now_ns, waited_ns = monotonic_ns(), max(waits.look(), default=0)
                kept.beat(min(last_ns, now_ns - waited_ns), now_ns, waited_ns)  # it may have begun before the last look
                last_ns = now_ns
            kept.end(last_ns)

    with ExitStack() as stack:
        if pid is not None:
            stack.enter_context(beside(look, "waits"))
        yield


def stolen_ns() -> int:
    """How long a hypervisor gave the processors to others, on their average; 0 where the kernel does not say it."""
    return kernel_number("/proc/stat", _STOLEN) * 1_000_000_000 // _TICKS_PER_S // (os.cpu_count() or 1)

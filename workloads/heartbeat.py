"""A client's heartbeat: a second thread that notices when the process did not run, whoever stopped it.

A stopped process (SIGSTOP, a frozen cgroup, a paused virtual machine) takes its timestamps late. The judge must know
that, or it would blame the lock for it. The nemesis's own stops are on record. All others show here: a beat that comes
late says that the process stood still since the beat before. Each such *gap* is recorded in a log of its own, before
the next operation is, so that no operation is on record without the gap that made it late.

A process that wants to run and gets no processor is late too, and the kernel tells the two apart: it counts the time
for which a thread waited. Waiting often makes a call as slow as waiting for long, so times in which the process was
kept waiting for much of each beat are recorded as gaps too, all of it waiting.

The program of a foreign lock is a process of its own and may be stopped alone. It has no heartbeat, but the kernel says
whether it is stopped, and that is looked at with every beat.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic_ns, sleep
from types import TracebackType
from typing import Final, Self

from fencepost.history import Gap
from workloads.beat_log import BEAT_S, BeatLog
from workloads.recorder import Recorder

MARGIN_NS: Final = 50_000_000
"""A beat may be late by this much and is no gap: timers are late, and threads wait for the interpreter."""
_LATE_NS: Final = int(BEAT_S * 1e9) + MARGIN_NS
_MUCH_NS: Final = 20_000_000
"""So much waiting from one beat to the next means that the process is being kept waiting."""
_AT_MOST_NS: Final = 1_000_000_000
"""A long time of waiting is recorded in pieces of this length: a client that is killed takes the last one along."""
_STANDING: Final = frozenset(b"TtD")
"""Process states: stopped, traced, and in the kernel, where a frozen process is. They count only if they last."""


class Heartbeat:
    """A context manager. `log`: where gaps are recorded; the file is made when there is one. `beats`: where the beats
    are. `beaten`: called with the time of every beat. `others`: the processes of the lock that run on their own."""

    def __init__(self, log: Path, beats: Path, beaten: Callable[[int], None], others: Sequence[int] = ()) -> None:
        self._log = log
        self._beats = beats
        self._record: Recorder | None = None
        self._beaten = beaten
        self._others = [_Other(pid) for pid in others]
        self._waits = [_open("/proc/self/schedstat"), *(_open(f"/proc/{pid}/schedstat") for pid in others)]
        self._kept_from_ns: int | None = None
        self._is_over = False
        self._another_stands = False
        self._recording = threading.Lock()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._last_ns, self._waited_ns = monotonic_ns(), self._waited()

    def __enter__(self) -> Self:
        # What the client did before is no gap: until now it was getting ready.
        self._last_ns, self._waited_ns = monotonic_ns(), self._waited()
        for other in self._others:
            other.ran_ns = self._last_ns
        self._beaten(self._last_ns)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over = True
        self._thread.join()
        self._was_kept(self._last_ns)
        for fd in (*self._waits, *(other.fd for other in self._others)):
            if fd is not None:
                os.close(fd)
        if self._record is not None:
            self._record.close()

    def check(self, now_ns: int) -> None:
        """Record the gap that this moment reveals, if it does. Called before an operation is recorded, in case its
        client ran again before the heartbeat did. Raises BrokenEnvironmentError when the disk is full."""
        if now_ns - self._last_ns > _LATE_NS or self._another_stands:
            with self._recording:
                self._note(now_ns)

    def _beat(self) -> None:
        self._waits.append(_open("/proc/thread-self/schedstat"))
        with closing(BeatLog(self._beats)) as log:
            log.begin(self._last_ns, self._waited_ns)
            while not self._is_over:
                sleep(BEAT_S)
                now_ns = monotonic_ns()
                with self._recording:
                    self._note(now_ns)
                    waited_ns = self._waited_ns
                self._beaten(now_ns)
                log.beat(now_ns, waited_ns)

    def _note(self, now_ns: int) -> None:
        """Only what is on record counts as known: whoever sees the new time need not record the gap again."""
        waited_ns = self._waited()
        waited = max(0, waited_ns - self._waited_ns)
        is_late = now_ns - self._last_ns > _LATE_NS
        if not is_late and waited >= _MUCH_NS:
            if self._kept_from_ns is None:
                self._kept_from_ns = self._last_ns
            if now_ns - self._kept_from_ns >= _AT_MOST_NS:
                self._was_kept(now_ns)
        else:
            self._was_kept(self._last_ns)
        if is_late:
            self._write(Gap(self._last_ns, now_ns, waited))
        self._last_ns, self._waited_ns = now_ns, waited_ns
        for other in self._others:
            if other.stands():
                self._another_stands = True
                return
            if now_ns - other.ran_ns > _LATE_NS:
                self._write(Gap(other.ran_ns, now_ns, 0, other.pid))
            other.ran_ns = now_ns
        self._another_stands = False

    def _was_kept(self, until_ns: int) -> None:
        """Record the time for which the process was kept waiting, if it was."""
        if self._kept_from_ns is not None:
            self._write(Gap(self._kept_from_ns, until_ns, until_ns - self._kept_from_ns))
        self._kept_from_ns = None

    def _write(self, gap: Gap) -> None:
        if self._record is None:
            self._record = Recorder(self._log)
        self._record(gap)

    def _waited(self) -> int:
        """How long the heartbeat and the main threads of the client and its lock waited for a processor so far; 0 where
        the kernel does not say."""
        return sum(_second_number(fd) for fd in self._waits)


class _Other:
    """Another process, which the kernel shows as standing still or not. `ran_ns`: when it was last seen to run."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.fd = _open(f"/proc/{pid}/stat")
        self.ran_ns = monotonic_ns()

    def stands(self) -> bool:
        """A process that is gone has ended, and stands still no more."""
        return self.fd is not None and _state(self.fd) in _STANDING


def _open(path: str) -> int | None:
    with suppress(OSError):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return None


def _state(fd: int) -> int:
    try:
        stat = os.pread(fd, 512, 0)
    except OSError:
        return 0
    # The name, in parentheses, may hold anything; the state is the first letter after the last one.
    return stat[stat.rindex(b")") + 2]


def _second_number(fd: int | None) -> int:
    if fd is None:
        return 0
    try:
        return int(os.pread(fd, 128, 0).split()[1])
    except (OSError, IndexError, ValueError):
        return 0

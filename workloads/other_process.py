"""Whether another process, the program of a lock, stood still, by what the kernel shows of it.

There are three kinds of evidence. A look finds it stopped (or traced). A look finds that it was stopped and continued
since the look before: the kernel tells its parent, which is the client. Or two looks in a row find it in the kernel
(where one is that the freezer of control groups froze, and one that waits for a disk), and it had no processor in
between.

A late look is no evidence. Nor is a process that uses no processor: it may have nothing to do.
"""

from __future__ import annotations

import os
from contextlib import suppress
from time import monotonic_ns
from typing import Final

from fencepost.history import Gap

_STOPPED: Final = frozenset(b"Tt")
_IN_THE_KERNEL: Final = ord("D")
_GONE: Final = (0, 0)


class OtherProcess:
    """`worth_ns`: the shortest standstill that is worth a gap. `stands`: whether it stood still at the last look."""

    def __init__(self, pid: int, worth_ns: int) -> None:
        self._pid = pid
        self._worth_ns = worth_ns
        self._state = _open(f"/proc/{pid}/stat")
        self._turns = _open(f"/proc/{pid}/schedstat")
        self._ran_ns = monotonic_ns()
        self._seen: tuple[int, int] = _GONE
        self._stood = self._was_stopped = self.stands = False

    def runs(self, at_ns: int) -> None:
        """It is known to have run then; what was before that does not matter."""
        self._ran_ns = at_ns
        self._stood = self._was_stopped = self.stands = False

    def look(self, now_ns: int) -> Gap | None:
        """The time for which it stood still, once it runs again."""
        before, self._seen = self._seen, self._look()
        state, _ = self._seen
        is_stopped = state in _STOPPED
        self._was_stopped |= is_stopped or _was_stopped(self._pid)
        self.stands = is_stopped or (state == _IN_THE_KERNEL and self._seen == before)
        self._stood |= self.stands or self._was_stopped
        if self.stands or state == _IN_THE_KERNEL:
            return None
        stood = self._stood and now_ns - self._ran_ns > self._worth_ns
        gap = Gap(self._ran_ns, now_ns, 0, self._pid, is_stop=self._was_stopped) if stood else None
        self.runs(now_ns)
        return gap

    def close(self) -> None:
        for file in (self._state, self._turns):
            if file is not None:
                os.close(file)

    def _look(self) -> tuple[int, int]:
        """Its state, and how often it was given a processor so far."""
        if self._state is None:
            return _GONE
        try:
            stat = os.pread(self._state, 512, 0)
            turns = 0 if self._turns is None else int(os.pread(self._turns, 128, 0).split()[2])
        except (OSError, IndexError, ValueError):
            return _GONE
        # The name, in parentheses, may hold anything; the state is the first letter after the last one.
        return stat[stat.rindex(b")") + 2], turns


def _was_stopped(pid: int) -> bool:
    """Whether it was stopped, or continued, since this was last asked. Only its parent can know; for others, False."""
    told = False
    with suppress(ChildProcessError):
        while os.waitid(os.P_PID, pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG) is not None:
            told = True
    return told


def _open(path: str) -> int | None:
    with suppress(OSError):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return None

"""CPU starvation: for how long each thread of a process was ready to run and got no processor, as the kernel counts it.

The kernel adds a wait when it is over. So what a look adds may have begun before the look before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final

from fencepost.history import Gap

_MUCH_NS: Final = 20_000_000
"""So much waiting from one beat to the next means that the process is being kept waiting."""
_AT_MOST_NS: Final = 1_000_000_000
"""A long time of waiting is recorded in pieces of this length: a process that is killed takes the last one along."""
_ENOUGH_BYTES: Final = 256
"""More than what is looked for takes, also after years."""


class ThreadWaits:
    """The waits of all threads of a process, this one or the one of `pid`. Where the kernel does not count them, or the
    process has ended, nothing waits."""

    def __init__(self, pid: int | None = None) -> None:
        self._tasks = f"/proc/{'self' if pid is None else pid}/task"
        self._so_far_ns: dict[str, int] = {}
        self._of_living: dict[str, int] = {}
        self.look()

    @property
    def so_far_ns(self) -> Mapping[str, int]:
        """How long each thread had waited at the last look, ended ones included; by a name that the next thread may
        have, too."""
        return self._so_far_ns

    def look(self) -> list[int]:
        """How long each thread waited since the last look, in nanoseconds."""
        try:
            with os.scandir(self._tasks) as tasks:
                living = {task.name: kernel_number(f"{task.path}/schedstat", 1) for task in tasks}
        except OSError:
            living = {}
        since_ns = [max(0, waited_ns - self._of_living.get(thread, 0)) for thread, waited_ns in living.items()]
        for thread, ns in zip(living, since_ns, strict=True):
            self._so_far_ns[thread] = self._so_far_ns.get(thread, 0) + ns
        self._of_living = living
        return since_ns


class KeptWaiting:
    """When a process was kept waiting: from beat to beat it waited for much of the time. `write`: records such a time
    when it is over."""

    def __init__(self, write: Callable[[Gap], None]) -> None:
        self._write = write
        self._from_ns: int | None = None

    def beat(self, last_ns: int, now_ns: int, waited_ns: int) -> None:
        """It waited so long since the last beat."""
        if waited_ns < _MUCH_NS:
            self.end(last_ns)
            return
        if self._from_ns is None:
            self._from_ns = last_ns
        if now_ns - self._from_ns >= _AT_MOST_NS:
            self.end(now_ns)

    def end(self, until_ns: int) -> None:
        """It was kept waiting until then, if it was."""
        if self._from_ns is not None:
            self._write(Gap(self._from_ns, until_ns, until_ns - self._from_ns))
        self._from_ns = None


def kernel_number(path: str, place: int) -> int:
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

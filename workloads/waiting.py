"""CPU starvation: for how long each thread of a process was ready to run and got no processor, as the kernel counts it.

The kernel adds a wait when it is over. So what a look adds may have begun before the look before it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

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

"""CPU starvation of single threads: how long each was ready to run and got no processor, as the kernel counts it.

The kernel adds a wait when it is over. So what a look adds may have begun before the look before it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress


class Waiting:
    """Threads by name, each with its file `schedstat`. Where the kernel has no such file, nothing ever waits."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._so_far_ns: dict[str, int] = {}

    @property
    def so_far_ns(self) -> Mapping[str, int]:
        """How long each thread had waited since it began, at the last look."""
        return self._so_far_ns

    def add(self, name: str, path: str) -> None:
        """Look at this thread, too, from now on."""
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._files[name], self._so_far_ns[name] = file, _waited_ns(file)

    def look(self) -> list[int]:
        """How long each of them waited since the last look, in nanoseconds."""
        before_ns = self._so_far_ns
        # A thread that has ended waits no more.
        self._so_far_ns = {name: max(before_ns[name], _waited_ns(file)) for name, file in self._files.items()}
        return [self._so_far_ns[name] - before for name, before in before_ns.items()]

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()


def _waited_ns(file: int) -> int:
    try:
        return int(os.pread(file, 128, 0).split()[1])
    except (OSError, IndexError, ValueError):
        return 0

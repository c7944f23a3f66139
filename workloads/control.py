"""The few numbers that a client process and the harness share during a run.

A small file, mapped by both sides, one a client. Every field is eight aligned bytes with one writer, so that no side
ever waits for the other: a paused, killed or cut-off client, or a dead harness, blocks no process. The history never
depends on it; it carries the agreed moments to the client, and signs of life to the progress line and to faults that
aim at a client in a certain state.
"""

from __future__ import annotations

import mmap
import os
from enum import IntEnum
from pathlib import Path
from zlib import crc32

NEVER_NS = 2**62
"""A stop time that lies beyond every run."""

_START, _STOP, _STATE, _SINCE, _OPS, _SECTIONS, _BEAT, _KEY = range(8)
_SIZE = 64


class State(IntEnum):
    """What a client says it is doing."""

    STARTING = 0
    READY = 1
    ACQUIRING = 2
    INSIDE = 3
    RELEASING = 4
    DONE = 5
    RESTING = 6
    """Between two sections."""
    EXTENDING = 7
    """Inside, while it extends its lease."""
    REENTERING = 8
    """Inside, while it acquires once more."""
    LEAVING = 9
    """Inside, while it undoes that."""


class Control:
    """One client's control block. `start_ns` and `stop_ns` belong to the harness, all else to the client."""

    __slots__ = ("_map", "_words")

    def __init__(self, path: Path) -> None:
        """Map an existing block. Raises OSError if there is none."""
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)
        self._words = memoryview(self._map).cast("q")

    @classmethod
    def create(cls, path: Path) -> Control:
        """A fresh block: no start agreed (0), a stop that never comes. Raises OSError, also without room for it."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            # Not ftruncate: on a full file system that makes a hole, and a process that writes into it dies of SIGBUS.
            os.posix_fallocate(fd, 0, _SIZE)
        finally:
            os.close(fd)
        control = cls(path)
        control.stop_ns = NEVER_NS
        return control

    @property
    def start_ns(self) -> int:
        """The agreed start on CLOCK_MONOTONIC; 0 while it is not agreed."""
        return self._words[_START]

    @start_ns.setter
    def start_ns(self, value: int) -> None:
        self._words[_START] = value

    @property
    def stop_ns(self) -> int:
        """No section begins after this moment."""
        return self._words[_STOP]

    @stop_ns.setter
    def stop_ns(self, value: int) -> None:
        self._words[_STOP] = value

    @property
    def state(self) -> State:
        return State(self._words[_STATE])

    @property
    def since_ns(self) -> int:
        """When the client entered its state."""
        return self._words[_SINCE]

    def enter(self, state: State, at_ns: int) -> None:
        self._words[_SINCE] = at_ns
        self._words[_STATE] = state

    @property
    def key(self) -> int:
        """The checksum of the key that the client asked for last; 0 before the first one."""
        return self._words[_KEY]

    def ask_for(self, key: str) -> None:
        self._words[_KEY] = crc32(key.encode())

    @property
    def ops(self) -> int:
        return self._words[_OPS]

    @property
    def sections(self) -> int:
        """Sections entered so far, over all lives of this client."""
        return self._words[_SECTIONS]

    def count(self, ops: int, sections: int) -> None:
        self._words[_OPS] = ops
        self._words[_SECTIONS] = sections

    @property
    def beat_ns(self) -> int:
        """The last beat of the client's heartbeat; 0 before the first one."""
        return self._words[_BEAT]

    def beat(self, at_ns: int) -> None:
        self._words[_BEAT] = at_ns

    def close(self) -> None:
        self._words.release()
        self._map.close()

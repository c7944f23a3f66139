"""Locks with a value that is cheaper than a random one."""

from __future__ import annotations

import os
import time

from workloads.locks.set_nx_px import SetNxPx
from workloads.mutants import TwoThreads


class FixedValue(SetNxPx):
    """The release compares a value that all clients share. A refused attempt leaves the key alone, so that a release is
    all that can go wrong."""

    def unique_value(self) -> str:
        return "locked"

    def undo(self, key: str, value: str) -> None:
        pass


def time_and_name() -> str:
    """The wall clock in microseconds, and the process as the client's name."""
    return f"{time.time_ns() // 1_000} {os.getpid()}"


class TimeAndName(SetNxPx):
    """What the Redis documentation offers instead of random bytes, as "not as safe, but probably sufficient"."""

    def unique_value(self) -> str:
        return time_and_name()


class TimeAndNameOfTwoTasks(TwoThreads):
    """The same in a process with a second thread, which competes for the same lock under the same name."""

    def unique_value(self) -> str:
        return time_and_name()

"""A control, broken on purpose: a read-write lock in which the first reader to leave lets a writer in."""

from __future__ import annotations

from workloads.connection import pack
from workloads.locks.rw_lock import Readers, ReadWriteLock, readers_of


class CarelessReaders(Readers):
    """A release deletes the readers' key, with all readers that are still inside."""

    def release_request(self, key: str, value: str) -> bytes:
        return pack("DEL", readers_of(key))


class FirstReaderOut(ReadWriteLock):
    READERS = CarelessReaders


LOCK = FirstReaderOut

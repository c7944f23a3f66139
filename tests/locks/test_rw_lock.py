"""The read-write lock on real servers: whom it lets in together, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from cluster.polling import becomes_true
from tests.locks.conftest import Server, granted
from workloads.base import LockSettings, NodeAddress
from workloads.locks.control_rw_lock_first_reader_out import FirstReaderOut
from workloads.locks.rw_lock import ReadWriteLock

TTL_MS = 10_000
SHORT_MS = 1_000
"""A lease that a test lets run out, and that outlasts an acquire on a busy machine."""
BOTH = pytest.mark.parametrize("kind", [ReadWriteLock, FirstReaderOut])

Open = Callable[..., ReadWriteLock]


@pytest.fixture
def opened(nodes: Sequence[NodeAddress]) -> Iterator[Open]:
    """Opens read-write locks on the five servers, each for a client of its own, and closes them at the end."""
    locks: list[ReadWriteLock] = []

    def open_lock(kind: type[ReadWriteLock] = ReadWriteLock) -> ReadWriteLock:
        locks.append(kind(nodes, LockSettings(node_timeout_ms=2_000, retry_delay_ms=1)))
        return locks[-1]

    yield open_lock
    for lock in locks:
        lock.close()


@BOTH
def test_readers_get_in_together_and_keep_a_writer_out(opened: Open, kind: type[ReadWriteLock]) -> None:
    for reader in (opened(kind), opened(kind)):
        granted(reader.acquire_shared("k", TTL_MS))
    assert opened(kind).acquire("k", TTL_MS) is None


@BOTH
def test_a_writer_keeps_everybody_else_out_until_it_releases(opened: Open, kind: type[ReadWriteLock]) -> None:
    writer, other = opened(kind), opened(kind)
    lease = granted(writer.acquire("k", TTL_MS))
    assert other.acquire_shared("k", TTL_MS) is None
    assert other.acquire("k", TTL_MS) is None
    assert writer.release(lease)
    granted(other.acquire_shared("k", TTL_MS))


def test_a_writer_gets_in_when_the_last_reader_has_left(opened: Open, servers: list[Server]) -> None:
    one, two, writer = opened(), opened(), opened()
    first, second = granted(one.acquire_shared("k", TTL_MS)), granted(two.acquire_shared("k", TTL_MS))
    assert one.release(first)
    assert writer.acquire("k", TTL_MS) is None
    assert two.release(second)
    assert writer.release(granted(writer.acquire("k", TTL_MS)))
    assert [server.client().keys("*") for server in servers] == [[]] * 5


def test_with_the_control_a_writer_gets_in_when_the_first_reader_has_left(opened: Open) -> None:
    one, two, writer = opened(FirstReaderOut), opened(FirstReaderOut), opened(FirstReaderOut)
    first, second = granted(one.acquire_shared("k", TTL_MS)), granted(two.acquire_shared("k", TTL_MS))
    assert one.release(first)
    granted(writer.acquire("k", TTL_MS))
    assert not two.release(second)


def test_a_reader_that_does_not_come_back_expires_beside_one_that_extends_its_lease(opened: Open) -> None:
    gone, stays, writer = opened(), opened(), opened()
    granted(gone.acquire_shared("k", SHORT_MS))
    lease = granted(stays.acquire_shared("k", SHORT_MS))
    lease = granted(stays.extend(lease, TTL_MS))
    assert lease.validity_ms is not None
    assert lease.validity_ms > SHORT_MS
    assert writer.acquire("k", TTL_MS) is None
    assert stays.release(lease)
    assert becomes_true(lambda: writer.acquire("k", TTL_MS) is not None, within_s=30)


def test_a_reader_whose_lease_is_over_can_neither_extend_nor_release_it(opened: Open, servers: list[Server]) -> None:
    reader, writer = opened(), opened()
    lease = granted(reader.acquire_shared("k", TTL_MS))
    for server in servers:
        server.client().delete("k#readers")
    granted(writer.acquire("k", TTL_MS))
    assert reader.extend(lease, TTL_MS) is None
    assert not reader.release(lease)
    assert opened().acquire_shared("k", TTL_MS) is None, "the writer is inside"

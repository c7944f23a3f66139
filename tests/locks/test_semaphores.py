"""The semaphores on real servers: how many they let in, and what they leave behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest

from cluster.polling import becomes_true
from tests.locks.conftest import Server, granted
from workloads.base import Lease, LockSettings, NodeAddress
from workloads.connection import Reply
from workloads.locks.control_semaphore_by_majority import SemaphoreByMajority
from workloads.locks.redlock import Redlock
from workloads.locks.semaphore import Semaphore
from workloads.locks.semaphore_counted import CountedSemaphore

TTL_MS = 10_000
NODE_TIMEOUT_MS = 2_000
"""No server is paused here, so a busy machine alone must not make one silent."""
SHORT_MS = 1_000
"""A lease that a test lets run out, and that outlasts an acquire on a busy machine."""
CORRECT = pytest.mark.parametrize("kind", [Semaphore, CountedSemaphore])

Open = Callable[..., Redlock]


@pytest.fixture
def opened(nodes: Sequence[NodeAddress]) -> Iterator[Open]:
    """Opens semaphores on the five servers, each for a client of its own, and closes them at the end."""
    locks: list[Redlock] = []

    def open_lock(kind: type[Redlock], permits: int, only: Sequence[int] = range(5), mode: str = "parallel") -> Redlock:
        rng = Random(len(locks))
        settings = LockSettings(
            permits=permits, node_timeout_ms=NODE_TIMEOUT_MS, retry_delay_ms=1, acquire_mode=mode, rng=rng
        )
        locks.append(kind(nodes, settings))
        cut_off(locks[-1], only)
        return locks[-1]

    yield open_lock
    for lock in locks:
        lock.close()


def cut_off(lock: Redlock, only: Sequence[int]) -> None:
    """Let the lock ask only these nodes; for the others it hears a refusal."""
    pool, ask = lock._pool, lock._pool.ask

    def some(request: bytes, only_index: int | None = None, patient: bool = True) -> list[Reply]:
        asked = range(len(pool)) if only_index is None else [only_index]
        return [ask(request, index, patient)[0] if index in only else None for index in asked]

    if len(only) < len(pool):
        lock._pool.ask = some  # type: ignore[method-assign,assignment]


@CORRECT
@pytest.mark.parametrize("permits", [1, 2, 3, 5])
@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_as_many_get_in_as_there_are_permits_and_no_more(
    opened: Open, servers: list[Server], kind: type[Redlock], permits: int, mode: str
) -> None:
    clients = [opened(kind, permits, mode=mode) for _ in range(permits + 1)]
    leases = [granted(client.acquire("k", TTL_MS)) for client in clients[:-1]]
    assert clients[-1].acquire("k", TTL_MS) is None
    assert {lease.key for lease in leases} == {"k"}
    assert clients[-1].acquire("another key", TTL_MS) is not None
    assert clients[0].release(leases[0]) is True
    assert clients[-1].acquire("k", TTL_MS) is not None
    assert clients[0].acquire("k", TTL_MS) is None


@CORRECT
def test_a_released_permit_leaves_nothing_on_the_nodes(
    opened: Open, servers: list[Server], kind: type[Redlock]
) -> None:
    clients = [opened(kind, 2) for _ in range(3)]
    leases = [granted(client.acquire("k", TTL_MS)) for client in clients[:2]]
    assert clients[2].acquire("k", TTL_MS) is None
    for client, lease in zip(clients, leases, strict=False):
        assert client.release(lease) is True
        assert client.release(lease) is False, "it was given back already"
    assert [server.client().keys() for server in servers] == [[]] * 5


@CORRECT
def test_an_extension_keeps_the_permit_and_a_refused_one_means_it_is_gone(
    opened: Open, servers: list[Server], kind: type[Redlock]
) -> None:
    one, other = opened(kind, 1), opened(kind, 1)
    lease = granted(one.acquire("k", SHORT_MS))
    over_s = time.monotonic() + SHORT_MS / 1e3
    longer = granted(one.extend(lease, TTL_MS))
    assert (longer.key, longer.value, longer.handle) == (lease.key, lease.value, lease.handle)
    assert becomes_true(lambda: time.monotonic() > over_s)
    assert other.acquire("k", TTL_MS) is None
    for server in servers:
        server.client().flushall()
    assert one.extend(longer, TTL_MS) is None


@CORRECT
def test_a_permit_that_is_not_given_back_comes_free_when_its_lease_ends(
    opened: Open, servers: list[Server], kind: type[Redlock]
) -> None:
    gone, other = opened(kind, 1), opened(kind, 1)
    lease = granted(gone.acquire("k", SHORT_MS))
    deadline = time.monotonic() + 30
    while (after := other.acquire("k", TTL_MS)) is None:
        assert time.monotonic() < deadline
    assert after.requested_ns is not None
    assert lease.deadline_ns is not None
    assert time.monotonic_ns() >= lease.deadline_ns
    assert gone.release(lease) is False
    assert gone.extend(lease, TTL_MS) is None


def test_slots_need_a_majority_and_the_counting_nodes_need_more(opened: Open, servers: list[Server]) -> None:
    assert opened(Semaphore, 2, only=[0, 1, 2]).acquire("k", TTL_MS) is not None
    assert opened(CountedSemaphore, 2, only=[0, 1, 2]).acquire("k", TTL_MS) is None
    assert opened(CountedSemaphore, 2, only=[0, 1, 2, 3]).acquire("k", TTL_MS) is not None


@pytest.mark.parametrize(
    ("permits", "quorum"), [(1, 3), (2, 4), (3, 4), (4, 5), (5, 5), (100, 5)], ids=lambda value: str(value)
)
def test_more_holders_than_permits_would_need_more_votes_than_the_nodes_have(
    opened: Open, permits: int, quorum: int
) -> None:
    assert opened(CountedSemaphore, permits).quorum() == quorum
    assert (permits + 1) * quorum > 5 * permits >= (permits + 1) * (quorum - 1)


MAJORITIES = ([0, 1, 2], [0, 3, 4], [1, 2, 3])
"""Three majorities of five nodes; no node is in all of them."""


def test_with_a_plain_majority_three_clients_share_two_permits(opened: Open, servers: list[Server]) -> None:
    clients = [opened(SemaphoreByMajority, 2, only=only) for only in MAJORITIES]
    leases = [granted(client.acquire("k", TTL_MS)) for client in clients]
    now_ns = time.monotonic_ns()
    assert all(lease.deadline_ns is not None and now_ns < lease.deadline_ns for lease in leases)


@CORRECT
def test_the_correct_ones_refuse_the_third_client_there(
    opened: Open, servers: list[Server], kind: type[Redlock]
) -> None:
    clients = [opened(kind, 2, only=only) for only in MAJORITIES]
    assert sum(client.acquire("k", TTL_MS) is not None for client in clients) <= 2


def test_a_slot_has_the_name_of_its_key_and_the_value_of_its_holder(opened: Open, servers: list[Server]) -> None:
    lock = opened(Semaphore, 3)
    lease = granted(lock.acquire("k", TTL_MS))
    assert lease.handle in {"k#1", "k#2", "k#3"}
    assert {server.client().get(str(lease.handle)) for server in servers} == {lease.value}


def test_every_slot_is_tried_in_every_round(opened: Open, servers: list[Server]) -> None:
    tried: list[str] = []

    class Noting(Semaphore):
        def try_once(self, key: str, ttl_ms: int) -> Lease | None:
            tried.append(key)
            return super().try_once(key, ttl_ms)

    holder, other = opened(Semaphore, 3), opened(Noting, 3)
    for slot in ("k#1", "k#2", "k#3"):
        granted(holder.try_once(slot, TTL_MS))
    assert other.acquire("k", TTL_MS) is None
    assert len(tried) == 3 * other.ROUNDS
    rounds = [tried[at : at + 3] for at in range(0, len(tried), 3)]
    assert all(sorted(slots) == ["k#1", "k#2", "k#3"] for slots in rounds)
    assert len({tuple(slots) for slots in rounds}) > 1, "in random order"


def test_the_longest_acquire_grows_with_the_slots(opened: Open) -> None:
    one, three = opened(Semaphore, 1), opened(Semaphore, 3)
    assert one.acquire_limit_ms() == 3 * 2 * NODE_TIMEOUT_MS + 2 * 1
    assert three.acquire_limit_ms() == 3 * 3 * 2 * NODE_TIMEOUT_MS + 2 * 1
    assert three.describe()["permits"] == 3


def test_an_expired_member_is_neither_counted_nor_extended(opened: Open, servers: list[Server]) -> None:
    lock = opened(CountedSemaphore, 1)
    for server in servers:
        server.client().zadd("k#members", {"old": 1, "older": 0})
    assert lock.acquire("k", TTL_MS) is not None
    stale = Lease("k", "old", 1_000, deadline_ns=time.monotonic_ns() + 10**10, requested_ns=0)
    assert lock.extend(stale, TTL_MS) is None

"""The recipes of the debate on real servers: how each differs from `set-nx-px`, or from Redlock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.locks.conftest import Server, granted
from workloads.base import LockSettings, NodeAddress
from workloads.cheap_values import FixedValue, TimeAndName
from workloads.guarded_lock import GuardedLock
from workloads.locks.control_wall_clock import LeaseByWallClock
from workloads.locks.primary_replica import PrimaryReplica
from workloads.locks.primary_replica_wait import PrimaryReplicaWait
from workloads.locks.redlock import Redlock
from workloads.locks.redlock_fixed_delay import RedlockFixedDelay
from workloads.locks.redlock_token import RedlockToken
from workloads.locks.redlock_wide_margin import RedlockWideMargin
from workloads.locks.set_nx_px import SetNxPx
from workloads.locks.set_nx_px_del import SetNxPxDel
from workloads.locks.set_nx_px_token import SetNxPxToken
from workloads.locks.setnx import SetNx
from workloads.locks.setnx_expire import SetNxExpire
from workloads.queue_lock import QueueLock, TurnLock

TTL_MS = 60_000
Open = Callable[[type[Redlock]], Redlock]


@pytest.fixture
def opened(nodes: list[NodeAddress]) -> Iterator[Open]:
    locks: list[Redlock] = []

    def open_lock(kind: type[Redlock]) -> Redlock:
        locks.append(kind(nodes, LockSettings(node_timeout_ms=2_000, retry_delay_ms=1)))
        return locks[-1]

    yield open_lock
    for lock in locks:
        lock.close()


@pytest.mark.parametrize(
    ("kind", "expires"), [(SetNx, False), (SetNxExpire, True), (SetNxPx, True), (SetNxPxDel, True)]
)
def test_a_recipe_for_one_node_excludes_and_sets_an_expiry_or_none(
    opened: Open, servers: list[Server], kind: type[Redlock], expires: bool
) -> None:
    one, other = opened(kind), opened(kind)
    lease = granted(one.acquire("k", TTL_MS))
    assert [server.client().exists("k") for server in servers] == [1, 0, 0, 0, 0]
    assert (servers[0].client().pttl("k") > 0) is expires
    assert other.acquire("k", TTL_MS) is None
    assert one.release(lease) is True
    assert other.acquire("k", TTL_MS) is not None


def test_a_lock_without_an_expiry_says_how_long_its_key_lives(opened: Open) -> None:
    lease = granted(opened(SetNx).acquire("k", TTL_MS))
    assert lease.granted_ms is not None
    assert lease.granted_ms > 1_000 * TTL_MS


@pytest.mark.parametrize(
    ("kind", "misbehaves"), [(SetNxPx, False), (SetNxPxDel, True), (FixedValue, True), (TimeAndName, False)]
)
def test_a_release_that_comes_too_late_deletes_the_next_holder_s_key_only_if_it_does_not_compare(
    opened: Open, servers: list[Server], kind: type[Redlock], misbehaves: bool
) -> None:
    one, other = opened(kind), opened(kind)
    lease = granted(one.acquire("k", TTL_MS))
    servers[0].client().delete("k")  # it has expired
    granted(other.acquire("k", TTL_MS))
    assert one.release(lease) is misbehaves
    assert servers[0].client().exists("k") == (0 if misbehaves else 1)


@pytest.mark.parametrize("kind", [SetNxPxDel, FixedValue])
def test_a_refused_attempt_leaves_the_key_alone_even_if_a_release_does_not(
    opened: Open, servers: list[Server], kind: type[Redlock]
) -> None:
    one, other = opened(kind), opened(kind)
    lease = granted(one.acquire("k", TTL_MS))
    assert other.acquire("k", TTL_MS) is None
    assert servers[0].client().get("k") == lease.value


@pytest.mark.parametrize(("kind", "used"), [(RedlockToken, 5), (SetNxPxToken, 1)])
def test_tokens_grow_with_every_grant_and_each_key_has_its_own(
    opened: Open, servers: list[Server], kind: type[Redlock], used: int
) -> None:
    lock = opened(kind)
    tokens = []
    for _ in range(3):
        lease = granted(lock.acquire("k", TTL_MS))
        tokens.append(lease.token)
        lock.release(lease)
    assert tokens == [1, 2, 3]
    assert granted(lock.acquire("another", TTL_MS)).token == 1
    assert sum(server.client().exists("k:token") for server in servers) == used


def test_the_largest_count_of_the_nodes_that_granted_it_is_the_token(opened: Open, servers: list[Server]) -> None:
    for server, count in zip(servers, (1, 7, 3, 2, 5), strict=True):
        server.client().set("k:token", count)
    assert granted(opened(RedlockToken).acquire("k", TTL_MS)).token == 8


def test_a_node_that_forgot_its_count_makes_a_token_go_back_if_it_is_the_only_one_that_knew(
    opened: Open, servers: list[Server]
) -> None:
    for server, count in zip(servers, (3, 3, 3, 0, 0), strict=True):
        server.client().set("k:token", count)
    for server in servers[:2]:
        server.pause()
    servers[2].client().delete("k:token")
    few = RedlockToken([server.address for server in servers], LockSettings(node_timeout_ms=2_000, retry_delay_ms=1))
    try:
        assert granted(few.acquire("k", TTL_MS)).token == 1
    finally:
        few.close()


def test_a_refused_attempt_grants_no_token(opened: Open) -> None:
    one, other = opened(RedlockToken), opened(RedlockToken)
    assert granted(one.acquire("k", TTL_MS)).token == 1
    assert other.acquire("k", TTL_MS) is None


def test_a_fixed_delay_is_always_the_same_and_a_random_one_is_not(opened: Open) -> None:
    fixed, drawn = opened(RedlockFixedDelay), opened(Redlock)
    assert {fixed.delay_ms() for _ in range(10)} == {0.5}, "the mean of the random one"
    assert len({drawn.delay_ms() for _ in range(10)}) == 10


def test_a_wide_margin_ends_the_lease_before_keys_on_clocks_that_run_fast_by_ten_percent(opened: Open) -> None:
    lease = granted(opened(RedlockWideMargin).acquire("k", TTL_MS))
    assert lease.validity_ms is not None
    assert lease.validity_ms < TTL_MS / 1.1
    usual = granted(opened(Redlock).acquire("another", TTL_MS)).validity_ms
    assert usual is not None
    assert usual > TTL_MS / 1.1


def test_a_clock_that_steps_back_hides_the_time_that_an_acquire_took(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall_ns = iter([2 * TTL_MS * 1_000_000, TTL_MS * 1_000_000])
    monkeypatch.setattr(time, "time_ns", lambda: next(wall_ns))
    lease = granted(opened(LeaseByWallClock).acquire("k", TTL_MS))
    assert lease.validity_ms is not None
    assert lease.validity_ms > 1.9 * TTL_MS


def test_a_clock_that_steps_ahead_makes_an_acquire_seem_too_late(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    wall_ns = iter(number * 2 * TTL_MS * 1_000_000 for number in range(100))
    monkeypatch.setattr(time, "time_ns", lambda: next(wall_ns))
    assert opened(LeaseByWallClock).acquire("k", TTL_MS) is None


def test_only_a_primary_grants_the_lock(opened: Open, servers: list[Server]) -> None:
    primary = servers[0].address
    try:
        for server in servers[1:]:
            server.client().replicaof(primary.host, primary.port)
        one, other = opened(PrimaryReplica), opened(PrimaryReplica)
        lease = granted(one.acquire("k", TTL_MS))
        assert other.acquire("k", TTL_MS) is None
        assert one.release(lease) is True
        assert other.acquire("k", TTL_MS) is not None
    finally:
        for server in servers[1:]:
            server.client().replicaof("NO", "ONE")


def test_a_lock_that_waits_for_replicas_is_refused_without_any(opened: Open, servers: list[Server]) -> None:
    assert opened(PrimaryReplica).acquire("k", TTL_MS) is not None
    assert opened(PrimaryReplicaWait).acquire("other", TTL_MS) is None
    assert all(server.client().exists("other") == 0 for server in servers)


def test_a_queue_is_served_in_the_order_of_asking(opened: Open, servers: list[Server]) -> None:
    one, two = opened(QueueLock), opened(QueueLock)
    first = granted(one.acquire("k", TTL_MS))
    client = servers[0].client()
    client.rpush("k:queue", "somebody who asked before")
    assert one.release(first) is True
    assert two.acquire("k", TTL_MS) is None
    assert client.lrange("k:queue", 0, -1) == ["somebody who asked before"], "who gives up leaves the queue"
    client.lpop("k:queue")
    assert two.acquire("k", TTL_MS) is not None


def test_who_is_first_and_does_not_come_loses_its_place(opened: Open, servers: list[Server]) -> None:
    lock, client = opened(TurnLock), servers[0].client()
    client.rpush("k:queue", "a client that has gone")
    assert lock.acquire("k", TTL_MS) is None
    assert client.lrange("k:queue", 0, -1) == ["a client that has gone"]
    assert any(lock.acquire("k", 100) for _ in range(10_000))
    assert client.lrange("k:queue", 0, -1) == []


def test_a_call_gives_its_mutex_back_and_does_nothing_without_it(opened: Open, servers: list[Server]) -> None:
    lock, client = opened(GuardedLock), servers[0].client()
    assert lock.release(granted(lock.acquire("k", TTL_MS))) is True
    assert client.exists("k:mutex") == 0
    client.set("k:mutex", "taken")
    assert lock.acquire("k", TTL_MS) is None
    assert client.exists("k") == 0

"""Libraries that renew their leases by themselves, against real servers: clients ask whether they are still inside."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.polling import becomes_true
from tests.locks.conftest import Server
from workloads.base import KnowsIfHeld, Lock, LockSettings, NodeAddress
from workloads.registry import open_lock

TTL_MS = 4_000
"""A library that renews after 0.8 TTL has 800 ms left for it, even on a busy machine."""

LIBRARIES = [
    pytest.param(name, key, copies, id=name, marks=pytest.mark.needs(f"lock:{name}"))
    for name, key, copies in [
        ("redis-semaphore", "mutex:k", 5),
        ("redis-semaphore-mutex", "mutex:k", 1),
        ("redlock-node-5", "k", 5),
        ("sesamecare-redlock", "k", 5),
        ("redlock-universal", "k", 5),
        ("redlock-universal-simple", "k", 1),
        ("python-redis-lock", "lock:k", 1),
    ]
]
"""Each with the key that it sets, and on how many of five nodes."""


@pytest.fixture
def lock(name: str, nodes: list[NodeAddress], tmp_path: Path) -> Iterator[Lock]:
    lock = open_lock(name, None, nodes, LockSettings(log_path=tmp_path / "log", renewal_ms=50))
    yield lock
    lock.close()


@pytest.mark.parametrize(("name", "key", "copies"), LIBRARIES)
def test_a_renewed_lease_is_held_for_longer_than_a_ttl_and_no_longer_when_the_nodes_have_lost_it(
    lock: Lock, key: str, copies: int, servers: list[Server]
) -> None:
    assert isinstance(lock, KnowsIfHeld)
    lease = lock.acquire("k", TTL_MS)
    assert lease is not None
    assert lease.deadline_ns is None, "a user who is inside is told none"
    used = servers[:copies]
    assert becomes_true(lambda: values(used, key) == {lease.value})
    outlived_s = time.monotonic() + 1.5 * TTL_MS / 1e3
    while time.monotonic() < outlived_s:
        assert lock.is_held(lease)
        assert values(used, key) == {lease.value}
    for server in servers:
        server.client().flushall()
    assert becomes_true(lambda: not lock.is_held(lease), every_s=0.02)
    assert lock.release(lease) is False


@pytest.mark.parametrize(("name", "key", "copies"), LIBRARIES)
def test_a_renewed_lease_ends_with_its_release(lock: Lock, key: str, copies: int, servers: list[Server]) -> None:
    assert isinstance(lock, KnowsIfHeld)
    for _ in range(2):
        lease = lock.acquire("k", TTL_MS)
        assert lease is not None
        assert lock.is_held(lease)
        assert lock.release(lease) is True
        assert becomes_true(lambda: values(servers, key) == {None})


@pytest.mark.needs("lock:redis-semaphore-mutex")
@pytest.mark.parametrize("name", ["redis-semaphore-mutex"])
def test_a_library_whose_failed_renewal_would_end_the_process_holds_nothing_any_longer(
    lock: Lock, servers: list[Server], tmp_path: Path
) -> None:
    assert isinstance(lock, KnowsIfHeld)
    lease = lock.acquire("k", TTL_MS)
    assert lease is not None
    servers[0].client().delete("mutex:k")
    servers[0].client().lpush("mutex:k", "which the script that renews cannot get")
    assert becomes_true(lambda: not lock.is_held(lease), every_s=0.02)
    assert "would have died" in (tmp_path / "log").read_text()
    servers[0].client().delete("mutex:k")
    assert lock.release(lease) is False
    lease = lock.acquire("k", TTL_MS)
    assert lease is not None
    assert lock.is_held(lease)


@pytest.mark.needs("lock:aioredlock")
@pytest.mark.parametrize("name", ["aioredlock"])
def test_a_library_that_sets_a_lost_key_again_holds_it_until_somebody_else_does(
    lock: Lock, servers: list[Server]
) -> None:
    assert isinstance(lock, KnowsIfHeld)
    lease = lock.acquire("k", TTL_MS)
    assert lease is not None
    for server in servers:
        server.client().flushall()
    assert becomes_true(lambda: values(servers, "k") == {lease.value})
    assert lock.is_held(lease)
    for server in servers:
        server.client().set("k", "somebody else's")
    assert becomes_true(lambda: not lock.is_held(lease), every_s=0.02)
    assert lock.release(lease) is False
    assert values(servers, "k") == {"somebody else's"}


def values(servers: list[Server], key: str) -> set[str | None]:
    return {server.client().get(key) for server in servers}

"""npm redis-semaphore against real servers: a library that renews its leases by itself."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster.waiting import becomes_true
from tests.locks.conftest import Server
from workloads.base import KnowsIfHeld, LockSettings, NodeAddress
from workloads.registry import open_lock

pytestmark = pytest.mark.needs("lock:redis-semaphore")


def test_a_renewed_lease_is_held_for_several_ttls_and_no_longer_when_the_nodes_have_lost_it(
    servers: list[Server], nodes: list[NodeAddress], tmp_path: Path
) -> None:
    ttl_ms = 500
    lock = open_lock("redis-semaphore", None, nodes, LockSettings(log_path=tmp_path / "log", renewal_ms=50))
    assert isinstance(lock, KnowsIfHeld)
    try:
        lease = lock.acquire("k", ttl_ms)
        assert lease is not None
        outlived_s = time.monotonic() + 3 * ttl_ms / 1e3
        while time.monotonic() < outlived_s:
            assert lock.is_held(lease)
            assert [server.client().get("mutex:k") for server in servers] == [lease.value] * 5
        for server in servers:
            server.client().flushall()
        assert becomes_true(lambda: not lock.is_held(lease), within_s=10, every_s=0.02)
        assert lock.release(lease) is False
    finally:
        lock.close()


def test_a_lease_began_with_the_attempt_that_succeeded(
    servers: list[Server], nodes: list[NodeAddress], tmp_path: Path
) -> None:
    lock = open_lock("redis-semaphore", None, nodes, LockSettings(log_path=tmp_path / "log"))
    for server in servers:
        server.client().set("mutex:k", "somebody else's")
    first, refused, between_ns = sets_on(servers[0]), 20, 9_000_000  # a timer of 10 ms may be early by less than one

    def give_way() -> None:
        assert becomes_true(lambda: sets_on(servers[0]) >= first + refused, within_s=10, every_s=0.01)
        for server in servers:
            server.client().delete("mutex:k")

    before_ns = time.monotonic_ns()
    try:
        with ThreadPoolExecutor() as pool:
            given = pool.submit(give_way)
            lease = lock.acquire("k", 10_000)
            given.result()
    finally:
        lock.close()
    assert lease is not None
    assert lease.validity_ms is None
    assert lease.computed_after_ns is not None
    assert lease.computed_after_ns > before_ns + (refused - 1) * between_ns, "not with the first attempt"


def sets_on(server: Server) -> int:
    """How many times it was asked to SET."""
    return int(server.client().info("commandstats")["cmdstat_set"]["calls"])

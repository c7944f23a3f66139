"""npm redis-semaphore against real servers: a library that tries again, and says nothing but yes."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster.polling import becomes_true
from tests.locks.conftest import Server
from workloads.base import LockSettings, NodeAddress
from workloads.registry import open_lock

pytestmark = pytest.mark.needs("lock:redis-semaphore")


def test_a_lease_began_with_the_attempt_that_succeeded(
    servers: list[Server], nodes: list[NodeAddress], tmp_path: Path
) -> None:
    lock = open_lock("redis-semaphore", None, nodes, LockSettings(log_path=tmp_path / "log"))
    for server in servers:
        server.client().set("mutex:k", "somebody else's")
    first, refused, between_ns = servers[0].sets(), 20, 9_000_000  # a timer of 10 ms may be early by less than one

    def give_way() -> None:
        assert becomes_true(lambda: servers[0].sets() >= first + refused, within_s=10, every_s=0.01)
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

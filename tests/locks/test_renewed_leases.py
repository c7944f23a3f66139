"""Foreign locks of one node that renew their leases by themselves, against a real server."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cluster.polling import becomes_true
from tests.locks.conftest import Server
from tests.locks.test_foreign_locks import values_on
from workloads.base import KnowsIfHeld, LockSettings, NodeAddress
from workloads.registry import open_lock

TTL_MS = 1_500
"""A library that renews after a third of it, or half, has 750 ms left for it at least, even on a busy machine."""
RENEWING = [
    pytest.param(name, marks=pytest.mark.needs(f"lock:{name}"))
    for name in ("rueidislock", "redisson-lock", "redisson-fair-lock", "redisson-fenced-lock")
]


@pytest.mark.parametrize("name", RENEWING)
def test_a_lease_is_held_for_several_ttls_and_no_longer_when_the_node_has_lost_it(
    name: str, servers: list[Server], nodes: list[NodeAddress], tmp_path: Path
) -> None:
    settings = LockSettings(ttl_ms=TTL_MS, renewal_ms=50, log_path=tmp_path / "log")
    lock = open_lock(name, None, nodes[:1], settings)
    assert isinstance(lock, KnowsIfHeld)
    try:
        lease = lock.acquire("k", TTL_MS)
        assert lease is not None
        written = values_on(servers[0])
        outlived_s = time.monotonic() + 3 * TTL_MS / 1e3
        while time.monotonic() < outlived_s:
            assert lock.is_held(lease)
            assert written & values_on(servers[0])
        servers[0].client().flushall()
        assert becomes_true(lambda: not lock.is_held(lease), within_s=10, every_s=0.02)
    finally:
        lock.close()

"""Every foreign lock that is installed keeps to its manifest: it locks, and its leases carry what `shows` lists."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from cluster.polling import becomes_true
from fencepost.text import text_of
from tests.locks.conftest import Server
from workloads.base import Lock, LockSettings, NodeAddress
from workloads.manifest import Manifest
from workloads.registry import foreign_locks, open_lock

EVERY = [
    pytest.param(lock, id=lock.name, marks=pytest.mark.needs(f"lock:{lock.name}"))
    for lock in foreign_locks()
    if lock.folder.is_relative_to(Path(__file__).parents[2]) and lock.server is None
]
TTL_MS = 60_000
"""Longer than any lock goes on trying."""


@pytest.fixture
def pair(manifest: Manifest, nodes: list[NodeAddress], tmp_path: Path) -> Iterator[tuple[Lock, Lock]]:
    """Two clients' instances of one lock."""
    opened: list[Lock] = []
    try:
        for name in ("one", "other"):
            settings = LockSettings(ttl_ms=TTL_MS, log_path=tmp_path / f"{name}.log")
            opened.append(open_lock(manifest.name, None, nodes, settings))
        yield opened[0], opened[1]
    finally:
        for lock in opened:
            lock.close()


@pytest.mark.parametrize("manifest", EVERY)
def test_a_lock_excludes_until_it_is_released(pair: tuple[Lock, Lock], servers: list[Server]) -> None:
    one, other = pair
    lease = one.acquire("k", TTL_MS)
    assert lease is not None
    if other.describe().get("attempts") == "for ever":
        with ThreadPoolExecutor() as pool:
            before = servers[0].sets()
            waiting = pool.submit(other.acquire, "k", TTL_MS)
            assert becomes_true(lambda: servers[0].sets() > before + 2, within_s=60, every_s=0.01)
            assert not waiting.done()
            assert one.release(lease) is True
            lease, one = waiting.result(), other
        assert lease is not None
    else:
        assert other.acquire("k", TTL_MS) is None
    assert one.release(lease) is True
    # Redisson deletes a key of its own afterwards
    assert becomes_true(lambda: all(map(is_free, servers)), within_s=30, every_s=0.01)
    assert other.acquire("k", TTL_MS) is not None


@pytest.mark.parametrize("manifest", EVERY)
def test_a_lease_carries_what_the_manifest_says(
    manifest: Manifest, pair: tuple[Lock, Lock], servers: list[Server]
) -> None:
    one, _ = pair
    before_ns = time.monotonic_ns()
    lease = one.acquire("k", TTL_MS)
    after_ns = time.monotonic_ns()
    assert lease is not None
    shown = set()
    if lease.deadline_ns is not None:
        assert before_ns < lease.deadline_ns <= after_ns + TTL_MS * 1_000_000
        shown.add("deadline")
    if lease.computed_after_ns is not None and lease.computed_before_ns is not None:
        assert before_ns <= lease.computed_after_ns <= lease.computed_before_ns <= after_ns
        shown.add("bounds")
    if lease.token is not None:
        shown.add("token")
    assert shown == set(manifest.shows)


@pytest.mark.parametrize("manifest", EVERY)
def test_a_lock_describes_the_library_that_the_manifest_names(manifest: Manifest, pair: tuple[Lock, Lock]) -> None:
    told = pair[0].describe()
    assert str(told["library"]).startswith(manifest.library)
    assert not [name for name, value in told.items() if str(value).startswith(f"{name} ")], "the name is there already"


def is_free(server: Server) -> bool:
    """Whether no key that expires is left. A counter of tokens stays."""
    with server.client() as client:
        return all(client.ttl(key) == -1 and str(client.get(key)).isdigit() for key in client.scan_iter())


def values_on(server: Server) -> set[str]:
    """What a node shows of its keys' owners: their values, or the fields of their hashes."""
    found: set[str] = set()
    with redis.Redis(server.address.host, server.address.port) as client:
        for key in client.scan_iter():
            found |= set(map(text_of, client.hkeys(key) if client.type(key) == b"hash" else [client.get(key)]))
    return found

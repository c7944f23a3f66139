"""Libraries that use one server, against a real one: what each sets there, and what it deletes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster.polling import becomes_true
from tests.locks.conftest import Server
from workloads.base import Lease, Lock, LockSettings, NodeAddress
from workloads.registry import open_lock

Open = Callable[[str], Lock]
KEY = {
    "go-zero": "k",
    "ioredis-lock": "k",
    "laravel-cache-lock": "k",
    "shedlock": "job-lock:fencepost:k",
    "shedlock-safe-update": "job-lock:fencepost:k",
    "sherlock": "k",
    "simple-redis-mutex": "@simple-redis-mutex:lock-k",
    "spring-integration": "locks:k",
    "spring-integration-pub-sub": "locks:k",
    "symfony-lock": "k",
}


def played(*names: str) -> list[object]:
    return [pytest.param(name, id=name, marks=pytest.mark.needs(f"lock:{name}")) for name in names]


@pytest.fixture
def opened(nodes: list[NodeAddress], tmp_path: Path) -> Iterator[Open]:
    """Opens locks by name, and closes them in the end."""
    locks: list[Lock] = []

    def open_one(name: str) -> Lock:
        settings = LockSettings(log_path=tmp_path / f"{name}-{len(locks)}.log")
        locks.append(open_lock(name, None, nodes, settings))
        return locks[-1]

    yield open_one
    for lock in locks:
        lock.close()


def granted(lease: Lease | None) -> Lease:
    assert lease is not None
    return lease


@pytest.mark.parametrize("name", played("go-zero", "laravel-cache-lock", "sherlock"))
def test_a_ttl_is_rounded_up_to_whole_seconds_and_a_lease_is_as_long_as_its_key_lives(
    name: str, opened: Open, servers: list[Server]
) -> None:
    lease = granted(opened(name).acquire("k", 9_300))
    left_ms = servers[0].client().pttl(KEY[name])
    assert lease.granted_ms == (10_500 if name == "go-zero" else 10_000)
    assert lease.granted_ms - 200 < left_ms <= lease.granted_ms


@pytest.mark.parametrize("name", played("spring-integration", "spring-integration-pub-sub"))
def test_a_lease_began_with_the_attempt_that_succeeded(name: str, opened: Open, servers: list[Server]) -> None:
    lock, client = opened(name), servers[0].client()
    client.set(KEY[name], "another client's")
    scripts = scripts_on(servers[0])
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(lock.acquire, "k", 10_000)
        assert becomes_true(lambda: scripts_on(servers[0]) > scripts, within_s=10, every_s=0.01)
        deleted_ns = time.monotonic_ns()
        client.delete(KEY[name])
        lease = granted(asking.result())
    assert lease.computed_after_ns is not None
    assert lease.computed_after_ns > deleted_ns - 200_000_000, "not with an attempt that was refused before"


@pytest.mark.parametrize("name", played("shedlock", "shedlock-safe-update", "simple-redis-mutex", "symfony-lock"))
def test_a_release_says_nothing_and_deletes_another_client_s_key_only_by_shedlock_s_default(
    name: str, opened: Open, servers: list[Server]
) -> None:
    """A defect of ShedLock 7.10.1 that its adapter must not hide."""
    lock, client = opened(name), servers[0].client()
    lease = granted(lock.acquire("k", 10_000))
    client.set(KEY[name], "another client's", px=10_000)
    assert lock.release(lease) is True
    assert client.exists(KEY[name]) == (name != "shedlock")


@pytest.mark.parametrize(
    "name",
    played(
        *("go-zero", "ioredis-lock", "laravel-cache-lock"),
        *("sherlock", "spring-integration", "spring-integration-pub-sub"),
    ),
)
def test_a_release_says_that_the_key_was_another_client_s_and_leaves_it(
    name: str, opened: Open, servers: list[Server]
) -> None:
    lock, client = opened(name), servers[0].client()
    lease = granted(lock.acquire("k", 10_000))
    client.set(KEY[name], "another client's", px=10_000)
    assert lock.release(lease) is False
    assert client.get(KEY[name]) == "another client's"


@pytest.mark.parametrize(
    "name",
    played("ioredis-lock", "shedlock", "shedlock-safe-update", "sherlock", "spring-integration", "symfony-lock"),
)
def test_an_extension_lasts_for_the_ttl_from_now(name: str, opened: Open, servers: list[Server]) -> None:
    lock, client = opened(name), servers[0].client()
    lease = granted(lock.acquire("k", 10_000))
    client.pexpire(KEY[name], 5_000)
    extended = granted(lock.extend(lease, 10_000))
    assert extended.value == lease.value
    assert 9_000 < client.pttl(KEY[name]) <= 10_000
    client.flushall()
    assert lock.extend(extended, 10_000) is None


@pytest.mark.needs("lock:simple-redis-mutex")
def test_each_grant_of_simple_redis_mutex_has_a_greater_token(opened: Open) -> None:
    lock = opened("simple-redis-mutex")
    tokens = []
    for key in ("k", "other", "k"):
        lease = granted(lock.acquire(key, 10_000))
        tokens.append(lease.token or 0)
        assert lock.release(lease) is True
    assert tokens == sorted(set(tokens))


@pytest.mark.needs("lock:symfony-lock")
def test_a_lease_of_symfony_ends_when_its_key_expires(opened: Open, servers: list[Server]) -> None:
    began_ns = time.monotonic_ns()
    lease = granted(opened("symfony-lock").acquire("k", 10_000))
    assert lease.deadline_ns is not None
    assert 9_900_000_000 < lease.deadline_ns - began_ns <= 10_000_000_000 + (time.monotonic_ns() - began_ns)
    assert abs(servers[0].client().pttl("k") - (lease.deadline_ns - time.monotonic_ns()) / 1e6) < 100


@pytest.mark.needs("lock:symfony-lock")
def test_symfony_asks_a_majority_of_its_stores_and_undoes_what_was_refused(opened: Open, servers: list[Server]) -> None:
    lock = opened("symfony-lock-combined")
    for server in servers[:2]:
        server.client().set("k", "another client's")
    lease = granted(lock.acquire("k", 10_000))
    assert [server.client().type("k") for server in servers] == ["string"] * 2 + ["zset"] * 3
    assert lock.release(lease) is True
    servers[2].client().set("k", "another client's")
    assert lock.acquire("k", 10_000) is None
    assert [server.client().exists("k") for server in servers] == [1] * 3 + [0] * 2


def scripts_on(server: Server) -> int:
    """How many scripts it was asked to run."""
    stats = server.client().info("commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("eval", "evalsha"))

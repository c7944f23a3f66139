"""Go's redsync and Rust's rslock against real servers."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from fencepost.text import text_of
from tests.harness import runs
from tests.harness.second_tries import spared
from tests.locks.conftest import Server, granted
from workloads.base import Lock, LockSettings, NodeAddress
from workloads.foreign import ForeignLock
from workloads.installation import launch_of
from workloads.registry import manifest_of, open_lock

REDSYNC = pytest.param("redsync", marks=pytest.mark.needs("lock:redsync"))
RSLOCK = pytest.param("rslock", marks=pytest.mark.needs("lock:rslock"))
TTL_MS = 10_000

Open = Callable[[str], ForeignLock]


@pytest.fixture
def opened(nodes: list[NodeAddress], tmp_path: Path) -> Iterator[Open]:
    """Opens locks by name, and closes them in the end."""
    locks: list[Lock] = []

    def open_one(name: str) -> ForeignLock:
        lock = open_lock(name, None, nodes, LockSettings(log_path=tmp_path / f"{name}-{len(locks)}.log"))
        assert isinstance(lock, ForeignLock)
        locks.append(lock)
        return lock

    yield open_one
    for lock in locks:
        lock.close()


def value_on(server: Server) -> str | None:
    with redis.Redis(server.address.host, server.address.port) as client:
        value = client.get("k")
    assert value is None or isinstance(value, bytes)
    return None if value is None else text_of(value)


@pytest.mark.parametrize("name", [REDSYNC, RSLOCK])
def test_every_node_has_the_value_of_the_lease_until_it_is_released(
    name: str, opened: Open, servers: list[Server]
) -> None:
    lock = opened(name)
    lease = granted(lock.acquire("k", TTL_MS))
    assert {value_on(server) for server in servers} == {lease.value}
    assert lock.release(lease) is True
    assert {value_on(server) for server in servers} == {None}
    assert granted(lock.acquire("k", TTL_MS)).value != lease.value


@pytest.mark.parametrize("name", [REDSYNC, RSLOCK])
def test_an_extension_lasts_for_the_ttl_from_now(name: str, opened: Open, servers: list[Server]) -> None:
    lock = opened(name)
    lease = granted(lock.acquire("k", TTL_MS))
    for server in servers:
        server.client().pexpire("k", 5_000)
    extended = granted(lock.extend(lease, TTL_MS))
    assert extended.value == lease.value
    assert all(9_000 < server.client().pttl("k") <= TTL_MS for server in servers)
    for server in servers:
        server.client().flushall()
    assert lock.extend(extended, TTL_MS) is None


@pytest.mark.parametrize("name", [REDSYNC, RSLOCK])
def test_a_minority_that_is_down_is_no_refusal(name: str, opened: Open, servers: list[Server]) -> None:
    lock = opened(name)
    for server in servers[:2]:
        server.stop()
    lease = granted(lock.acquire("k", TTL_MS))
    assert [value_on(server) for server in servers[2:]] == [lease.value] * 3


@pytest.mark.parametrize("name", [REDSYNC, RSLOCK])
def test_the_program_ends_with_its_stdin_though_a_call_hangs(
    name: str, nodes: list[NodeAddress], servers: list[Server]
) -> None:
    manifest = manifest_of(name, None)
    assert manifest is not None
    addresses = [{"host": node.host, "port": node.port, "url": node.url} for node in nodes]
    to_open = {"do": "open", "nodes": addresses, "settings": {}}
    to_acquire = {"do": "acquire", "key": "k", "ttl_ms": TTL_MS}
    process = subprocess.Popen(launch_of(manifest).command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        process.stdin.write(json.dumps(to_open) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["outcome"] == "ok"
        for server in servers:
            server.pause()
        answers, _ = process.communicate(json.dumps(to_acquire) + "\n", timeout=10)
    assert (answers, process.returncode) == ("", 0)


@pytest.mark.needs("lock:redsync")
def test_redsync_tells_its_deadline_and_nothing_is_estimated(opened: Open) -> None:
    lock = opened("redsync")
    before_ns = time.monotonic_ns()
    lease = granted(lock.acquire("k", TTL_MS))
    after_ns = time.monotonic_ns()
    least_ns = TTL_MS * 990_000  # redsync takes off 1 % for drift
    assert lease.deadline_ns is not None
    assert before_ns + least_ns <= lease.deadline_ns <= after_ns + least_ns
    assert lease.validity_ms is None


@pytest.mark.needs("lock:rslock")
def test_rslock_tells_whole_milliseconds_within_bounds(opened: Open) -> None:
    lock = opened("rslock")
    before_ns = time.monotonic_ns()
    lease = granted(lock.acquire("k", TTL_MS))
    after_ns = time.monotonic_ns()
    assert lease.validity_ms is not None
    assert 9_000 < lease.validity_ms <= TTL_MS * 0.99 - 2
    assert lease.validity_ms == int(lease.validity_ms)
    assert lease.computed_after_ns is not None
    assert lease.computed_before_ns is not None
    assert before_ns <= lease.computed_after_ns < lease.computed_before_ns <= after_ns


@pytest.mark.needs("lock:redsync")
def test_redsync_says_that_a_lock_was_no_longer_held(opened: Open, servers: list[Server]) -> None:
    lock = opened("redsync")
    lease = granted(lock.acquire("k", TTL_MS))
    for server in servers[:3]:
        server.client().flushall()
    assert lock.release(lease) is False


@pytest.mark.needs("lock:redsync")
@pytest.mark.parametrize("name", ["redsync-context-timeouts", "redsync-fail-fast"])
def test_a_node_that_hangs_delays_neither_variant(name: str, opened: Open, servers: list[Server]) -> None:
    lock = opened(name)
    servers[4].pause()
    began_s = time.monotonic()
    granted(lock.acquire("k", TTL_MS))
    assert time.monotonic() - began_s < 4  # go-redis waits for 5 s
    assert sum(server.client().exists("k") for server in servers[:4]) >= 3


@pytest.mark.parametrize("name", [REDSYNC, RSLOCK])
def test_hundreds_of_sections_without_faults_give_no_finding(name: str, tmp_path: Path) -> None:
    given = ["--lock", name, "--nemesis", "none", "--clients", "3", "--keys", "3", "--hold", "0", "--duration", "6s"]
    # A machine that stands still lets clients outlive their leases.
    code, said, run = spared(tmp_path, runs.short_run(*given), lambda run: not run.verdict.findings)
    assert run.verdict.findings == ()
    assert code == 0, said
    assert len(run.sections) >= 200

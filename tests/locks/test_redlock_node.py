"""npm redlock 4.2.0 against real servers, with its defaults and with time limits."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.locks.conftest import Server
from workloads.base import LockSettings, NodeAddress
from workloads.foreign import UnknownOutcomeError
from workloads.registry import open_lock

pytestmark = [pytest.mark.needs("lock:redlock-node"), pytest.mark.needs("lock:redlock-node-timeouts")]

Nodes = list[NodeAddress]


def test_a_lease_is_on_every_node_and_ends_by_the_library_s_own_deadline(
    servers: list[Server], nodes: Nodes, tmp_path: Path
) -> None:
    lock = open_lock("redlock-node", None, nodes, LockSettings(log_path=tmp_path / "log"))
    try:
        for ttl_ms in (10_000, 1_000):
            before_ns = time.monotonic_ns()
            lease = lock.acquire("k", ttl_ms)
            after_ns = time.monotonic_ns()
            assert lease is not None
            assert [server.client().get("k") for server in servers] == [lease.value] * 5
            assert lease.validity_ms is None
            assert lease.deadline_ns is not None
            started_ns = lease.deadline_ns - (ttl_ms - ttl_ms // 100 - 2) * 1_000_000
            assert before_ns - 1_100_000 <= started_ns <= after_ns, "Date.now() is in whole milliseconds"
            assert lock.release(lease) is True
            assert [server.client().exists("k") for server in servers] == [0] * 5
    finally:
        lock.close()


def test_a_lock_that_is_held_is_refused_after_all_attempts(nodes: Nodes, tmp_path: Path) -> None:
    one, other = (open_lock("redlock-node", None, nodes, LockSettings(log_path=tmp_path / who)) for who in "ab")
    try:
        assert one.acquire("k", 30_000) is not None
        began = time.monotonic()
        assert other.acquire("k", 30_000) is None
        assert time.monotonic() - began > 1, "ten delays of 200 ± 100 ms"
    finally:
        one.close()
        other.close()


def test_an_extension_lasts_and_one_of_a_lost_lock_is_refused(
    servers: list[Server], nodes: Nodes, tmp_path: Path
) -> None:
    lock = open_lock("redlock-node", None, nodes, LockSettings(log_path=tmp_path / "log"))
    try:
        lease = lock.acquire("k", 5_000)
        assert lease is not None
        extended = lock.extend(lease, 20_000)
        assert extended is not None
        assert extended.value == lease.value
        assert extended.deadline_ns is not None
        assert extended.deadline_ns > time.monotonic_ns() + 15_000_000_000
        assert [server.client().pttl("k") > 15_000 for server in servers] == [True] * 5
        for server in servers:
            server.client().flushall()
        assert lock.extend(extended, 20_000) is None
        assert lock.release(lease) is False
    finally:
        lock.close()


def test_a_release_without_a_majority_of_replies_is_unknown(
    servers: list[Server], nodes: Nodes, tmp_path: Path
) -> None:
    lock = open_lock("redlock-node-timeouts", None, nodes, LockSettings(log_path=tmp_path / "log"))
    try:
        lease = lock.acquire("k", 10_000)
        assert lease is not None
        for server in servers[:3]:
            server.pause()
        with pytest.raises(UnknownOutcomeError, match="LockError: Unable to fully release"):
            lock.release(lease)
    finally:
        for server in servers[:3]:
            server.resume()
        lock.close()


def test_by_default_one_hung_node_holds_up_an_acquire_and_a_time_limit_does_not(
    servers: list[Server], nodes: Nodes, tmp_path: Path
) -> None:
    """ioredis has no time limit for a command, and redlock waits for every node, whatever the majority replied."""
    default, limited = (
        open_lock(name, None, nodes, LockSettings(log_path=tmp_path / name))
        for name in ("redlock-node", "redlock-node-timeouts")
    )
    assert "acquire_limit_ms" not in default.describe()
    assert limited.describe()["acquire_limit_ms"] == 11 * 4 * 50 + 10 * 300
    resume = threading.Timer(1.0, servers[0].resume)
    servers[0].pause()
    try:
        assert limited.acquire("k1", 10_000) is not None, "while nobody resumes the server"
        began = time.monotonic()
        resume.start()
        assert default.acquire("k2", 10_000) is not None
        assert time.monotonic() - began > 0.9
    finally:
        resume.join()
        default.close()
        limited.close()

"""The recipes of the debate on real servers: how each differs from `set-nx-px`, or from Redlock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.locks.conftest import Server
from workloads.base import Lease, LockSettings, NodeAddress
from workloads.locks.redlock import Redlock
from workloads.locks.redlock_token import RedlockToken
from workloads.locks.set_nx_px import SetNxPx
from workloads.locks.set_nx_px_del import SetNxPxDel
from workloads.locks.set_nx_px_token import SetNxPxToken
from workloads.locks.setnx import SetNx
from workloads.locks.setnx_expire import SetNxExpire

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


def granted(lease: Lease | None) -> Lease:
    assert lease is not None
    return lease


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


@pytest.mark.parametrize(("kind", "misbehaves"), [(SetNxPx, False), (SetNxPxDel, True)])
def test_a_release_that_comes_too_late_deletes_the_next_holder_s_key_only_if_it_does_not_compare(
    opened: Open, servers: list[Server], kind: type[Redlock], misbehaves: bool
) -> None:
    one, other = opened(kind), opened(kind)
    lease = granted(one.acquire("k", TTL_MS))
    servers[0].client().delete("k")  # it has expired
    granted(other.acquire("k", TTL_MS))
    assert one.release(lease) is misbehaves
    assert servers[0].client().exists("k") == (0 if misbehaves else 1)


def test_a_refused_attempt_of_the_plain_del_leaves_the_key_alone(opened: Open, servers: list[Server]) -> None:
    one, other = opened(SetNxPxDel), opened(SetNxPxDel)
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
    few = RedlockToken([server.address for server in servers], LockSettings(node_timeout_ms=500, retry_delay_ms=1))
    try:
        assert granted(few.acquire("k", TTL_MS)).token == 1
    finally:
        few.close()


def test_a_refused_attempt_grants_no_token(opened: Open) -> None:
    one, other = opened(RedlockToken), opened(RedlockToken)
    assert granted(one.acquire("k", TTL_MS)).token == 1
    assert other.acquire("k", TTL_MS) is None

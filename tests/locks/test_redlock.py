from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest

from tests.locks.conftest import Server, granted
from workloads.base import Lease, LockSettings, NodeAddress
from workloads.locks.control_no_unique_value import NoUniqueValue
from workloads.locks.control_no_validity_check import NoValidityCheck
from workloads.locks.control_quorum_of_two import QuorumOfTwo
from workloads.locks.control_release_without_comparing import ReleaseWithoutComparing
from workloads.locks.redlock import Redlock
from workloads.locks.set_nx_px import SetNxPx

TTL_MS = 10_000
TIMEOUT_MS = 500.0
"""For tests that wait for a paused server; what they say of times leaves a busy machine some hundred ms."""
LONG_MS = 2_000.0
"""For all others: a busy machine alone must not make a server silent."""

Open = Callable[..., Redlock]


@pytest.fixture
def opened(nodes: Sequence[NodeAddress]) -> Iterator[Open]:
    """Opens locks on the five servers, and closes them at the end."""
    locks: list[Redlock] = []

    def open_lock(
        kind: type[Redlock] = Redlock, mode: str = "parallel", timeout_ms: float = LONG_MS, wait_ms: float = 0
    ) -> Redlock:
        settings = LockSettings(
            node_timeout_ms=timeout_ms, retry_delay_ms=1, acquire_mode=mode, wait_ms=wait_ms, rng=Random(1)
        )
        locks.append(kind(nodes, settings))
        return locks[-1]

    yield open_lock
    for lock in locks:
        lock.close()


def values(servers: Sequence[Server], key: str = "k") -> list[str | None]:
    return [server.client().get(key) for server in servers]  # type: ignore[misc]


def elapsed_ms(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return (time.monotonic() - began) * 1e3


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_one_client_holds_it_the_other_is_refused_until_it_is_released(
    opened: Open, servers: list[Server], mode: str
) -> None:
    one, other = opened(mode=mode), opened(mode=mode)
    lease = granted(one.acquire("k", TTL_MS))
    assert values(servers) == [lease.value] * 5
    assert other.acquire("k", TTL_MS) is None
    assert values(servers) == [lease.value] * 5, "a refused attempt must not disturb the holder"
    assert other.acquire("another key", TTL_MS) is not None
    assert one.release(lease) is True
    assert values(servers) == [None] * 5
    assert other.acquire("k", TTL_MS) is not None


def test_every_round_has_a_new_value_of_twenty_bytes(opened: Open) -> None:
    lock = opened()
    leases = [granted(lock.acquire(f"k{i}", TTL_MS)) for i in range(20)]
    assert len({lease.value for lease in leases}) == 20
    assert {len(bytes.fromhex(lease.value)) for lease in leases} == {20}


def test_the_deadline_counts_from_before_the_first_request_minus_drift(opened: Open) -> None:
    lock = opened()
    before_ns = time.monotonic_ns()
    lease = granted(lock.acquire("k", TTL_MS))
    after_ns = time.monotonic_ns()
    assert lease.requested_ns is not None
    assert lease.deadline_ns is not None
    assert before_ns <= lease.requested_ns <= after_ns
    assert lease.deadline_ns - lease.requested_ns == (TTL_MS - 102) * 1_000_000
    assert (lease.deadline_ns - after_ns) / 1e6 <= lease.validity_ms <= (lease.deadline_ns - before_ns) / 1e6


def test_two_dead_nodes_of_five_do_not_matter_and_three_do(opened: Open, servers: list[Server]) -> None:
    lock = opened()
    for server in servers[:2]:
        server.stop()
    assert lock.release(granted(lock.acquire("k", TTL_MS))) is True
    servers[2].stop()
    assert lock.acquire("k", TTL_MS) is None
    assert values(servers[3:]) == [None, None], "a minority of grants must be released"


def test_a_node_that_comes_back_is_used_again(opened: Open, servers: list[Server]) -> None:
    servers[0].stop()
    lock = opened()
    servers[0].start()
    lease = granted(lock.acquire("k", TTL_MS))
    assert values(servers) == [lease.value] * 5
    servers[0].stop()
    servers[0].start()
    assert lock.release(lease) is True
    lease = granted(lock.acquire("k", TTL_MS))
    assert values(servers) == [lease.value] * 5


def test_a_hung_node_costs_exactly_one_node_timeout(opened: Open, servers: list[Server]) -> None:
    lock = opened(timeout_ms=TIMEOUT_MS)
    servers[0].pause()
    leases: list[Lease | None] = []
    assert TIMEOUT_MS <= elapsed_ms(lambda: leases.append(lock.acquire("k", TTL_MS))) < TIMEOUT_MS * 2
    lease = granted(leases[0])
    assert elapsed_ms(lambda: lock.release(lease)) < TIMEOUT_MS * 2


def test_with_a_time_to_wait_it_goes_on_trying_until_then(opened: Open) -> None:
    holder, waiting = opened(), opened(wait_ms=TTL_MS)
    granted(holder.acquire("k", 1_000))
    assert granted(waiting.acquire("k", TTL_MS)), "the holder's keys expired meanwhile"
    began = time.monotonic()
    other = opened(wait_ms=300)
    assert other.acquire("k", TTL_MS) is None
    waited_ms = (time.monotonic() - began) * 1e3
    assert waited_ms >= 300
    assert opened(wait_ms=TTL_MS, timeout_ms=TIMEOUT_MS).acquire_limit_ms() == TTL_MS + 2 * TIMEOUT_MS + 1
    assert opened(timeout_ms=TIMEOUT_MS).acquire_limit_ms() == 3 * 2 * TIMEOUT_MS + 2


def test_two_hung_nodes_cost_one_timeout_in_parallel_and_two_in_sequence(opened: Open, servers: list[Server]) -> None:
    parallel, sequential = (opened(mode=mode, timeout_ms=TIMEOUT_MS) for mode in ("parallel", "sequential"))
    for server in servers[:2]:
        server.pause()
    assert elapsed_ms(lambda: parallel.acquire("k1", TTL_MS)) < TIMEOUT_MS * 2
    assert TIMEOUT_MS * 2 <= elapsed_ms(lambda: sequential.acquire("k2", TTL_MS)) < TIMEOUT_MS * 3


def test_a_refused_round_waits_for_a_hung_node_only_once(opened: Open, servers: list[Server]) -> None:
    lock = opened(timeout_ms=TIMEOUT_MS)
    for server in servers[:3]:
        server.pause()
    assert elapsed_ms(lambda: lock.acquire("k", TTL_MS)) < TIMEOUT_MS * lock.ROUNDS * 1.5


def test_a_hung_node_undoes_the_refused_request_when_it_wakes(opened: Open, servers: list[Server]) -> None:
    lock = opened(timeout_ms=TIMEOUT_MS)
    for server in servers[:3]:
        server.pause()
    assert lock.acquire("k", TTL_MS) is None
    for server in servers[:3]:
        server.resume()
    lock._pool.timeout_ms = LONG_MS
    assert lock.acquire("other", TTL_MS) is not None, "its late replies must not count"
    assert values(servers) == [None] * 5


def test_late_grants_of_a_refused_attempt_do_not_count_for_the_next_one(opened: Open, servers: list[Server]) -> None:
    late, holder = opened(timeout_ms=TIMEOUT_MS), opened()
    for server in servers[:3]:
        server.pause()
    assert late.acquire("k", TTL_MS) is None
    for server in servers[:3]:
        server.resume()
    late._pool.timeout_ms = LONG_MS
    lease = granted(holder.acquire("k", TTL_MS))
    assert late.acquire("k", TTL_MS) is None
    assert values(servers) == [lease.value] * 5


def test_an_acquire_that_took_longer_than_the_ttl_is_refused_and_released(opened: Open, servers: list[Server]) -> None:
    lock = opened(timeout_ms=TIMEOUT_MS)
    servers[4].pause()
    assert lock.acquire("k", int(TIMEOUT_MS)) is None, "the wait for the hung node uses up the whole TTL"
    assert values(servers[:4]) == [None] * 4


def test_release_is_false_after_the_lease_was_lost(opened: Open, servers: list[Server]) -> None:
    lock = opened()
    lease = granted(lock.acquire("k", TTL_MS))
    for server in servers[:3]:
        server.client().set("k", "somebody else")
    assert lock.release(lease) is False
    assert values(servers) == ["somebody else"] * 3 + [None] * 2


def test_release_raises_when_the_outcome_is_unknown(opened: Open, servers: list[Server]) -> None:
    lock = opened()
    lease = granted(lock.acquire("k", TTL_MS))
    for server in servers[:3]:
        server.pause()
    with pytest.raises(TimeoutError, match="2 of 5 nodes released the lock, 3 did not reply"):
        lock.release(lease)


def test_extending_extends_the_key_on_a_majority(opened: Open, servers: list[Server]) -> None:
    lock = opened()
    lease = granted(lock.acquire("k", TTL_MS))
    servers[0].client().delete("k")
    longer = granted(lock.extend(lease, TTL_MS * 2))
    assert longer.value == lease.value
    assert longer.validity_ms > TTL_MS
    assert [server.client().pttl("k") > TTL_MS for server in servers] == [False, True, True, True, True]
    assert values(servers[:1]) == [None], "extending must not set the key again"


def test_extending_without_a_majority_is_refused(opened: Open, servers: list[Server]) -> None:
    lock = opened()
    lease = granted(lock.acquire("k", TTL_MS))
    for server in servers[:3]:
        server.client().set("k", "somebody else")
    assert lock.extend(lease, TTL_MS) is None


def test_an_expired_lease_is_not_extended_even_if_the_keys_still_exist(opened: Open, servers: list[Server]) -> None:
    lock = opened()
    lease = granted(lock.acquire("k", TTL_MS))
    past = Lease(lease.key, lease.value, 0, deadline_ns=time.monotonic_ns(), requested_ns=lease.requested_ns)
    assert lock.extend(past, TTL_MS * 2) is None
    assert all(server.client().pttl("k") <= TTL_MS for server in servers)


def test_an_extension_that_outlasts_the_old_validity_is_refused(opened: Open, servers: list[Server]) -> None:
    lock = opened()
    lease = granted(lock.acquire("k", TTL_MS))
    soon_ns = time.monotonic_ns() + int(TIMEOUT_MS / 2 * 1e6)
    nearly_over = Lease(lease.key, lease.value, TIMEOUT_MS / 2, deadline_ns=soon_ns)
    lock._pool.timeout_ms = TIMEOUT_MS
    servers[0].pause()
    assert lock.extend(nearly_over, TTL_MS) is None


def test_set_nx_px_uses_only_the_first_node(opened: Open, servers: list[Server]) -> None:
    one, other = opened(SetNxPx), opened(SetNxPx)
    lease = granted(one.acquire("k", TTL_MS))
    assert values(servers) == [lease.value, None, None, None, None]
    assert other.acquire("k", TTL_MS) is None
    assert one.release(lease) is True
    assert other.acquire("k", TTL_MS) is not None


# The controls, each in an interleaving that the reference survives and the control does not.


@pytest.mark.parametrize(("kind", "misbehaves"), [(Redlock, False), (QuorumOfTwo, True)])
def test_with_a_quorum_of_two_two_clients_acquire_the_lock(
    opened: Open, servers: list[Server], kind: type[Redlock], misbehaves: bool
) -> None:
    one, other = opened(kind), opened(kind)
    assert one.acquire("k", TTL_MS) is not None
    for server in servers[:2]:
        server.client().delete("k")
    assert (other.acquire("k", TTL_MS) is not None) is misbehaves


@pytest.mark.parametrize(
    ("kind", "misbehaves"), [(Redlock, False), (ReleaseWithoutComparing, True), (NoUniqueValue, True)]
)
def test_a_refused_attempt_frees_the_holder_s_lock(
    opened: Open, servers: list[Server], kind: type[Redlock], misbehaves: bool
) -> None:
    one, other = opened(kind), opened(kind)
    lease = granted(one.acquire("k", TTL_MS))
    assert (other.acquire("k", TTL_MS) is not None) is misbehaves
    assert (values(servers) == [lease.value] * 5) is (kind is not ReleaseWithoutComparing)


@pytest.mark.parametrize(("kind", "misbehaves"), [(Redlock, False), (NoValidityCheck, True)])
def test_without_the_validity_check_it_grants_an_expired_lease(
    opened: Open, servers: list[Server], kind: type[Redlock], misbehaves: bool
) -> None:
    slow, other = (opened(one, timeout_ms=TIMEOUT_MS) for one in (kind, Redlock))
    servers[4].pause()
    ttl_ms = int(TIMEOUT_MS / 2)
    lease = slow.acquire("k", ttl_ms)
    assert (lease is not None) is misbehaves
    if lease is not None:
        assert other.acquire("k", TTL_MS) is not None
        assert lease.deadline_ns is not None
        assert lease.validity_ms == ttl_ms, "it reports the whole TTL, however long the nodes took"

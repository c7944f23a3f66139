"""The reference lock through Toxiproxy, compared with five hand-pipelined SETs and releases in the same run.

    python -m benchmarks.reference_lock [seconds]

By hand: raw sockets, requests packed beforehand, five `send`s, then five `recv`s, and the same for the releases;
nothing is parsed, timed or decided. The two alternate in batches, so that both see the same noise. Prints both rates
and their ratio, and exits with 1 if the ratio is below the target.
"""

from __future__ import annotations

import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cluster.lifetime import RunState
from cluster.process import ProcessCluster
from cluster.programs import find_server, find_toxiproxy
from cluster.spec import ClusterSpec
from workloads.base import LockSettings, NodeAddress
from workloads.connection import pack
from workloads.locks.redlock import Redlock

NODES = 5
BATCH = 50
TARGET = 0.8
TTL_MS = 10_000


def by_hand(nodes: Sequence[NodeAddress], lock: Redlock) -> Callable[[], None]:
    """One turn: SET and release on all nodes."""
    sockets = [socket.create_connection(node) for node in nodes]
    for connection in sockets:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    value = lock.unique_value()
    requests = [
        (pack("SET", "by hand", value, "NX", "PX", TTL_MS), b"+OK\r\n"),
        (lock.release_request("by hand", value), b":1\r\n"),
    ]

    def turn() -> None:
        for request, expected in requests:
            for connection in sockets:
                connection.send(request)
            for connection in sockets:
                assert connection.recv(64) == expected

    return turn


def by_the_lock(lock: Redlock) -> Callable[[], None]:
    def turn() -> None:
        lease = lock.acquire("reference", TTL_MS)
        assert lease is not None
        assert lock.release(lease)

    return turn


def rate_per_s(turn: Callable[[], None]) -> float:
    began = time.perf_counter()
    for _ in range(BATCH):
        turn()
    return BATCH / (time.perf_counter() - began)


@contextmanager
def proxied_nodes() -> Iterator[list[NodeAddress]]:
    """Five servers, each behind a link through the real Toxiproxy, as a client of a run sees them."""
    names = tuple(f"n{i}" for i in range(1, NODES + 1))
    with tempfile.TemporaryDirectory() as logs, RunState.create() as state:
        redis = find_server("redis")
        cluster = ProcessCluster(ClusterSpec(redis, redis, find_toxiproxy(), names, ("c1",)), state, Path(logs))
        cluster.start()
        try:
            links = [cluster.links["c1", name].address for name in names]
            yield [NodeAddress(*address, redis.server.url(*address)) for address in links]
        finally:
            cluster.stop()


def main(argv: Sequence[str]) -> int:
    seconds = float(argv[1]) if len(argv) > 1 else 10.0
    with proxied_nodes() as nodes:
        lock = Redlock(nodes, LockSettings(node_timeout_ms=1_000))
        hand_turn, lock_turn = by_hand(nodes, lock), by_the_lock(lock)
        rate_per_s(hand_turn)
        rate_per_s(lock_turn)
        pairs: list[tuple[float, float]] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pairs.append((rate_per_s(hand_turn), rate_per_s(lock_turn)))
        lock.close()
    hand, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(ours / hand for hand, ours in pairs)
    print(f"by hand   {hand:8.0f} acquire + release a second (median of {len(pairs)} batches of {BATCH})")
    print(f"reference {ours:8.0f}")
    print(f"ratio     {ratio:8.2f} (median of the pairs; target: at least {TARGET})")
    return 0 if ratio >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))

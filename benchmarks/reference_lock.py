"""The reference lock through Toxiproxy, against five hand-pipelined SETs and releases in the same run.

    python -m benchmarks.reference_lock [seconds]

By hand: raw sockets, requests packed beforehand, five `send`s, then five `recv`s, and the same for the releases;
nothing is parsed, timed or decided. The two take turns, a batch each, so that both meet the same noise. Prints both
rates and their ratio, and ends with 1 if the ratio is below the target.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from workloads.base import LockSettings, NodeAddress
from workloads.locks.redlock import Redlock
from workloads.wire import pack

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
    """Five bare redis-servers, each behind a proxy of one real Toxiproxy."""
    ports = _free_ports(2 * NODES + 1)
    api, servers, proxies = ports[0], ports[1 : NODES + 1], ports[NODES + 1 :]
    with ExitStack() as stack:
        for port in servers:
            _run(
                stack, ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
            )
        tools = Path(__file__).parent.parent / ".tools" / "bin"
        toxiproxy = shutil.which("toxiproxy-server", path=f"{tools}{os.pathsep}{os.environ['PATH']}")
        if toxiproxy is None:
            sys.exit("toxiproxy-server was not found: run 'make setup'")
        _run(stack, [toxiproxy, "-host", "127.0.0.1", "-port", str(api)])
        for port in (api, *servers):
            _await_listener(port)
        links = [
            {"name": f"n{i}", "listen": f"127.0.0.1:{proxy}", "upstream": f"127.0.0.1:{server}", "enabled": True}
            for i, (proxy, server) in enumerate(zip(proxies, servers, strict=True), 1)
        ]
        connection = http.client.HTTPConnection("127.0.0.1", api, timeout=10)
        connection.request("POST", "/populate", json.dumps(links))
        assert connection.getresponse().status == http.client.CREATED
        connection.close()
        yield [NodeAddress("127.0.0.1", port) for port in proxies]


def _run(stack: ExitStack, words: Sequence[str]) -> None:
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
    stack.callback(process.wait)
    stack.callback(process.kill)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _await_listener(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, f"nothing listens on port {port}"
            time.sleep(0.01)
        else:
            return


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

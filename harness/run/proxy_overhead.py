"""What the proxy costs: the same command to the same node, directly and through a link, in turns."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from time import perf_counter_ns

from cluster.base import Address
from fencepost.errors import BrokenEnvironmentError

_PING = b"PING\r\n"
_PONG = b"+PONG\r\n"


def measure_overhead_us(direct: Address, through: Address, rounds: int = 1_000) -> dict[str, float]:
    """Round-trip times in µs: `direct_p50`, `direct_p99`, `through_p50`, `through_p99`, and the differences `p50`,
    `p99`.
    """
    with (
        socket.create_connection(direct, timeout=2) as plain,
        socket.create_connection(through, timeout=2) as proxied,
    ):
        for connection in (plain, proxied):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _ping_us(connection)
        taken = [(_ping_us(plain), _ping_us(proxied)) for _ in range(rounds)]
    (direct_p50, direct_p99), (through_p50, through_p99) = (
        tuple(round(_percentile(sorted(times), percent), 1) for percent in (50, 99))
        for times in zip(*taken, strict=True)
    )
    return {
        "direct_p50": direct_p50,
        "direct_p99": direct_p99,
        "through_p50": through_p50,
        "through_p99": through_p99,
        "p50": round(through_p50 - direct_p50, 1),
        "p99": round(through_p99 - direct_p99, 1),
    }


def _percentile(times: Sequence[float], percent: float) -> float:
    """Of sorted times, with a straight line between two neighbours (as numpy does it, whose import takes longer than
    the measurement)."""
    place = percent / 100 * (len(times) - 1)
    below = int(place)
    above = min(below + 1, len(times) - 1)
    return times[below] + (times[above] - times[below]) * (place - below)


def _ping_us(connection: socket.socket) -> float:
    began = perf_counter_ns()
    connection.sendall(_PING)
    reply = b""
    while len(reply) < len(_PONG):
        chunk = connection.recv(64)
        if not chunk:
            raise BrokenEnvironmentError("a link closed the connection while its overhead was measured")
        reply += chunk
    return (perf_counter_ns() - began) / 1000

"""What the proxy costs: the same command to the same node, directly and through a link, in turns."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from time import perf_counter_ns

from cluster.address import Address
from cluster.base import DIALLED_FROM, Node
from fencepost.errors import BrokenEnvironmentError


def measure_overhead_us(node: Node, through: Address, rounds: int = 1_000) -> dict[str, float]:
    """The result of `overhead_us`. `through`: the address of a link to the node. Raises BrokenEnvironmentError if a
    link closes."""
    ping, login = node.server.ping, node.address.login
    with (
        socket.create_connection(node.address, timeout=2) as plain,
        socket.create_connection(through, timeout=2, source_address=(DIALLED_FROM, 0)) as proxied,
    ):
        for connection in (plain, proxied):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if login is not None:
                node.server.log_in(connection, login)
            _ping_us(ping, connection)
        return overhead_us([(_ping_us(ping, plain), _ping_us(ping, proxied)) for _ in range(rounds)])


def overhead_us(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Round-trip times in µs, directly and through the link in turns, as `direct_p50`, `direct_p99`, `through_p50` and
    `through_p99`; and `added_p50`, `added_p99`: of what the link added in each turn, which may be less than nothing on
    a busy machine."""
    direct, through = (list(times) for times in zip(*pairs, strict=True))
    added = [late - early for early, late in pairs]
    return {
        f"{name}_p{percent}": round(_percentile(sorted(times), percent), 1)
        for name, times in (("direct", direct), ("through", through), ("added", added))
        for percent in (50, 99)
    }


def _percentile(times: Sequence[float], percent: float) -> float:
    """Of sorted times, with a straight line between two neighbours (as numpy does it, whose import takes longer than
    the measurement)."""
    place = percent / 100 * (len(times) - 1)
    below = int(place)
    above = min(below + 1, len(times) - 1)
    return times[below] + (times[above] - times[below]) * (place - below)


def _ping_us(ping: Callable[[socket.socket], None], connection: socket.socket) -> float:
    began = perf_counter_ns()
    try:
        ping(connection)
    except OSError as error:
        raise BrokenEnvironmentError(f"the overhead of a link cannot be measured: {error}") from error
    return (perf_counter_ns() - began) / 1000

"""Loopback ports that stay ours while nobody listens on them.

A killed server and a refusing link leave their port without a listener, and must get it back later. The kernel gives
ports of its ephemeral range to outgoing connections, of which a run under faults makes thousands; one of them, even
in TIME_WAIT, would keep the listener from coming back (and a client that dials an idle port of that range can end up
connected to itself). So ports are taken from outside that range.
"""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

from fencepost.errors import BrokenEnvironmentError

LOOPBACK = "127.0.0.1"
_LOWEST = 10_000


def ephemeral_range() -> tuple[int, int]:
    """First and last port that the kernel gives to outgoing connections."""
    low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    return int(low), int(high)


def free_ports(count: int, host: str = LOOPBACK) -> list[int]:
    """That many different ports on which nobody listened a moment ago, outside of the ephemeral range.

    Raises BrokenEnvironmentError if there are not that many.
    """
    low, high = ephemeral_range()
    candidates = [port for port in range(_LOWEST, 65_536) if not low <= port <= high]
    # Runs that start at the same moment must not all try the same ports.
    first = random.SystemRandom().randrange(len(candidates)) if candidates else 0
    candidates = candidates[first:] + candidates[:first]
    ports: list[int] = []
    for port in candidates:
        if len(ports) == count:
            break
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial, contextlib.suppress(OSError):
            trial.bind((host, port))
            ports.append(port)
    if len(ports) < count:
        raise BrokenEnvironmentError(
            f"{count} free ports are needed on {host}, {len(ports)} were found outside of the ephemeral range "
            f"{low}-{high}; narrow net.ipv4.ip_local_port_range, or ask for fewer clients and nodes"
        )
    return ports

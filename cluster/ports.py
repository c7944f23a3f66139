"""Loopback ports that stay ours while no process listens on them.

A killed server and a refusing link leave their port without a listener, and must get it back later. The kernel gives
ports of its ephemeral range to outgoing connections, of which a run under faults makes thousands; one of them, even
in TIME_WAIT, would keep the listener from coming back (and a client that dials an idle port of that range can end up
connected to itself). So ports are taken from outside that range.
"""

from __future__ import annotations

import errno
import random
import resource
import socket
from pathlib import Path

from cluster.address import Address
from cluster.base import LOOPBACK
from fencepost.errors import BrokenEnvironmentError

_LOWEST = 10_000
_OTHER_FILES = 512


def ephemeral_range() -> tuple[int, int]:
    """First and last port that the kernel gives to outgoing connections."""
    low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    return int(low), int(high)


class PortTakenError(BrokenEnvironmentError):
    """A port that one of our servers needs is taken by another program."""


def is_listening(address: Address) -> bool:
    """Whether some program listens there, seen by trying to take its place; a socket that only holds the port, as those
    of `Ports` do, does not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(address)
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


class Ports:
    """Ports of one cluster. They are its own from `take` to `close`, whether a process listens on them or not.

    Each is held by a bound socket that never listens. Dialling it is refused, as it must be while a server is down or a
    link refuses; no other program that looks for a free port can bind it; and our own servers can, because they and it
    allow the reuse of addresses, which it does only after it was bound. Without this a port that stood idle for a
    while could be taken by another run, and clients would get the votes of servers that are not theirs. In the network
    namespace of a sandbox there is no other run. Ports are held there all the same, because containers and machines
    without namespaces need it, it costs a millisecond, and one mechanism is simpler than two.
    """

    def __init__(self, host: str = LOOPBACK) -> None:
        self.host = host
        self._held: list[socket.socket] = []

    def take(self, count: int) -> list[int]:
        """That many different ports, outside of the ephemeral range. Raises BrokenEnvironmentError if there are not, or
        if nothing can be sent to the host."""
        _check_route(self.host)
        low, high = ephemeral_range()
        candidates = [port for port in range(_LOWEST, 65_536) if not low <= port <= high]
        # Runs that start at the same moment must not all try the same ports.
        first = random.SystemRandom().randrange(len(candidates)) if candidates else 0
        _allow_open_files(len(self._held) + count)
        ports: list[int] = []
        for port in candidates[first:] + candidates[:first]:
            if len(ports) == count:
                break
            if self._hold(port):
                ports.append(port)
        if len(ports) < count:
            raise BrokenEnvironmentError(
                f"{count} free ports are needed on {self.host}, {len(ports)} were found outside of the ephemeral "
                f"range {low}-{high}; narrow net.ipv4.ip_local_port_range, or ask for fewer clients and nodes"
            )
        return ports

    def close(self) -> None:
        for holder in self._held:
            holder.close()
        self._held.clear()

    def _hold(self, port: int) -> bool:
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            holder.bind((self.host, port))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        except OSError:
            holder.close()
            return False
        self._held.append(holder)
        return True


def _check_route(host: str) -> None:
    """An interface that is down has addresses that can be bound, and dialling them fails."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        try:
            unsent.connect((host, _LOWEST))
        except OSError as error:
            advice = ": the loopback interface is down; `ip link set lo up` raises it" if host == LOOPBACK else ""
            raise BrokenEnvironmentError(f"{host} cannot be reached ({error.strerror}){advice}") from error


def _allow_open_files(count: int) -> None:
    """Raise this process's own limit of open files, as far as it may, to `count` and as many again as runs need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )

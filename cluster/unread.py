"""Over which links something has reached its client that it has not read yet: the kernel keeps it in its socket."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cluster.address import Address, LinkKey
from cluster.base import DIALLED_FROM

_TABLE: Final = Path("/proc/self/net/tcp")


class UnreadReplies:
    """Asks the kernel about the sockets of this network namespace, which clients share. `addresses`: where each link
    listens. What the harness dials over a link itself does not count."""

    def __init__(self, addresses: Mapping[LinkKey, Address]) -> None:
        self._links = {_in_kernel_form(address): key for key, address in addresses.items()}

    def look(self) -> set[LinkKey]:
        return self.found_in(_TABLE.read_text())

    def found_in(self, table: str) -> set[LinkKey]:
        """The links in a text as of /proc/net/tcp: a line a socket."""
        found = set()
        for line in table.splitlines()[1:]:
            _, local, remote, _, queues, *_ = line.split()
            if not queues.endswith(":00000000") and remote in self._links and not local.startswith(_OURS):
                found.add(self._links[remote])
        return found


def _in_kernel_form(address: Address) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(address.host))
    return f"{number:08X}:{address.port:04X}"


_OURS: Final = _in_kernel_form(Address(DIALLED_FROM, 0)).partition(":")[0]

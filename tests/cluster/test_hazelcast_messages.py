"""What a member of Hazelcast answers to a client that connects."""

from __future__ import annotations

import socket
import struct

import pytest

from cluster import hazelcast_messages as hazelcast


@pytest.mark.parametrize(
    ("kind", "rest", "wrong"),
    [
        (0x000101, b"\0", ""),
        (0x000101, b"\1", "took no client"),
        (0x000000, b"", "answered 0x100 with 0x0"),  # an exception, which has no status
    ],
)
def test_only_a_status_of_zero_lets_a_client_in(kind: int, rest: bytes, wrong: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        content = struct.pack("<iqb", kind, 1, 0) + rest
        theirs.sendall(struct.pack("<iH", 6 + len(content), 0xC000 | 0x2000) + content)
        if not wrong:
            hazelcast.log_in(ours, "c1", 1_000)
            return
        with pytest.raises(ConnectionError, match=wrong):
            hazelcast.log_in(ours, "c1", 1_000)

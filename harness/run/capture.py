"""What goes over a run's links, as a file for Wireshark (`links.pcapng`).

Every client dials the proxy at an address of its own for each server, on the loopback interface, whichever backend the
servers run on. So a process that copies the TCP segments of these ports sees what clients sent and when, before the
faults, and what reached them, behind the faults. It is a separate process that yields the processor to clients and
servers; the kernel keeps for it what it has not read yet, and counts what it had to drop.

The file is pcapng (draft-ietf-opsawg-pcapng). Each link is an interface of it, `c1 to n1`, so Wireshark's filter
`frame.interface_name == "c1 to n1"` shows one link. Its times are the wall clock's; the comment on the file says which
time of the record one of them is.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from select import POLLIN, poll
from typing import BinaryIO, Final

import msgspec

from cluster.base import Link, LinkKey
from fencepost.errors import LackingMachineError
from fencepost.fresh import is_complete
from harness.run.companion import Companion

_NICE: Final = 10
_KEPT_BYTES: Final = 64 << 20
"""What the kernel keeps for a process that did not get a processor: seconds of a busy run."""
_LARGEST: Final = 1 << 16
"""No segment is larger, not even on the loopback interface."""
_IP: Final = 0x0800
_TCP: Final = 6
_SO_RCVBUFFORCE, _SO_ATTACH_FILTER, _SO_TIMESTAMPNS = 33, 26, 35
_SOL_PACKET, _PACKET_STATISTICS = 263, 6

_SECTION, _INTERFACE, _STATISTICS, _PACKET = 0x0A0D0D0A, 1, 5, 6
"""Blocks of the file."""
_COMMENT, _NAME, _DROPPED, _APPLICATION, _RESOLUTION = 1, 2, 5, 4, 9
"""Options of blocks."""
_RAW_IP: Final = 101
"""The type of link whose packets begin with their IP header."""


def check_capture() -> None:
    """Raise LackingMachineError if nothing can be captured here."""
    try:
        _listen(1, 1).close()
    except OSError as error:
        raise LackingMachineError(
            f"--pcap listens on the loopback interface, which needs root, and this is user {os.geteuid()} "
            f"({error.strerror}); run as root, or leave out --pcap"
        ) from error


def capture(links: Mapping[LinkKey, Link], file: Path, words: Path, environment: Mapping[str, str]) -> Companion:
    """Keeps what goes over these links, from when it is entered. `words`: the file for its own errors."""
    told = [(f"{client} to {server}", link.address.port) for (client, server), link in links.items()]
    return Companion("harness.run.capture", [str(file)], told, words, environment)


def keep(links: Sequence[tuple[str, int]], file: BinaryIO, until: int, ready: int) -> int:
    """Copy what goes over the links (their names and ports) until the descriptor `until` can be read or is closed;
    write to `ready` when that has begun. How many packets are missing."""
    of_port = {port: number for number, (_, port) in enumerate(links)}
    with closing(_listen(min(of_port), max(of_port))) as listening:
        file.write(b"".join(_head([name for name, _ in links])))
        file.flush()
        os.write(ready, b"capturing\n")
        waiting = poll()
        waiting.register(listening, POLLIN)
        waiting.register(until, POLLIN)
        is_on = True
        while is_on:
            is_on = until not in dict(waiting.poll())
            for packet, at_ns in _received(listening):
                if (link := _link(packet, of_port)) is not None:
                    file.write(_packet(link, packet, at_ns))
            file.flush()
        dropped = struct.unpack("II", listening.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
        file.write(_statistics(dropped))
    return int(dropped)


def _listen(low: int, high: int) -> socket.socket:
    """A socket that receives the TCP segments of the loopback interface from or to a port between these. As it is bound
    to IP alone, it sees each once, on arrival."""
    listening = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _KEPT_BYTES)
        listening.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        program = _between(low, high)
        kept = ctypes.create_string_buffer(program, len(program))
        listening.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
        )
        listening.bind(("lo", _IP))
    except BaseException:
        listening.close()
        raise
    return listening


def _between(low: int, high: int) -> bytes:
    """A program for the kernel's packet filter: TCP, and one of the two ports is between these. Each instruction is its
    code, how many to skip if its comparison holds and if not, and its number."""
    program = [
        (0x30, 0, 0, 9),  # the protocol
        (0x15, 0, 8, _TCP),
        (0xB1, 0, 0, 0),  # the length of the IP header
        (0x48, 0, 0, 0),  # the port that it comes from
        (0x35, 0, 1, low),
        (0x25, 0, 3, high),
        (0x48, 0, 0, 2),  # the port that it goes to
        (0x35, 0, 2, low),
        (0x25, 1, 0, high),
        (0x06, 0, 0, 0xFFFFFFFF),  # keep it all
        (0x06, 0, 0, 0),
    ]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


def _received(listening: socket.socket) -> Iterator[tuple[bytes, int]]:
    """All packets that are there, and when the kernel saw them."""
    while True:
        try:
            packet, told, _, _ = listening.recvmsg(_LARGEST, socket.CMSG_SPACE(16))
        except BlockingIOError:
            return
        seconds, ns = struct.unpack("qq", told[0][2]) if told else divmod(time.time_ns(), 10**9)
        yield packet, seconds * 10**9 + ns


def _link(packet: bytes, of_port: Mapping[int, int]) -> int | None:
    """The link that the packet goes over; None for another connection between the same ports."""
    source, target = struct.unpack_from("!HH", packet, (packet[0] & 0x0F) * 4)
    return of_port.get(target, of_port.get(source))


def _head(names: Sequence[str]) -> Iterator[bytes]:
    comment = f"{time.monotonic_ns()} ns in the record of the run is {time.time_ns()} ns since 1970"
    options = _options((_COMMENT, comment.encode()), (_APPLICATION, b"fencepost"))
    yield _block(_SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + options)
    for name in names:
        options = _options((_NAME, name.encode()), (_RESOLUTION, b"\x09"))
        yield _block(_INTERFACE, struct.pack("<HHI", _RAW_IP, 0, 0) + options)


def _packet(link: int, packet: bytes, at_ns: int) -> bytes:
    head = struct.pack("<IIIII", link, at_ns >> 32, at_ns & 0xFFFFFFFF, len(packet), len(packet))
    return _block(_PACKET, head + _padded(packet))


def _statistics(dropped: int) -> bytes:
    at_ns = time.time_ns()
    said = _options((_COMMENT, b"dropped: on all links"), (_DROPPED, struct.pack("<Q", dropped)))
    return _block(_STATISTICS, struct.pack("<III", 0, at_ns >> 32, at_ns & 0xFFFFFFFF) + said)


def _options(*options: tuple[int, bytes]) -> bytes:
    every = (struct.pack("<HH", code, len(value)) + _padded(value) for code, value in options)
    return b"".join(every) + bytes(4)


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + length + body + length


def _padded(value: bytes) -> bytes:
    return value + bytes(-len(value) % 4)


def main(argv: Sequence[str]) -> int:
    os.nice(_NICE)
    is_complete()
    links = msgspec.json.decode(sys.stdin.buffer.readline(), type=list[tuple[str, int]])
    try:
        with Path(argv[1]).open("wb") as file:
            missing = keep(links, file, sys.stdin.fileno(), sys.stdout.fileno())
    except OSError as error:
        sys.stderr.write(f"{argv[1]} was not written: {error.strerror}\n")
        return 255
    if missing:
        sys.stderr.write(f"{missing} packets are missing in {argv[1]}: the machine was too busy to keep them\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

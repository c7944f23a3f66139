"""What went over the links as a capture for Wireshark and tshark, made from the record of requests.

The proxy lies between a client and a server, so each connection is two TCP conversations: `c1-n3 client side` (c1 and
the proxy) and `c1-n3 node side` (the proxy and n3). A request that a fault delayed is later on the node side; one that
it lost is missing there, and a comment says so. The sides are interfaces of the file. Addresses are made up, and the
file names them: `c1`, `n3.proxy`, `c1.proxy`, `n3`.

Requests and replies are written as RESP 2 from what the record keeps of them (`harness.store.wire`): passwords are
`***`, and of a long reply only the beginning is there, which a comment says. Bytes that are not of the server's
protocol are missing; the first packet of their connection says how many they were. Times are those of the record
(CLOCK_MONOTONIC). The format: draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from cluster.address import LinkKey
from cluster.requests import LONGEST_REPLY
from fencepost.errors import UsageError
from fencepost.text import plural
from harness.export.formats import Choice
from harness.history.recorded import Recorded
from harness.store.wire import Wire

SERVER_PORT: Final = 6379
"""By which Wireshark recognizes RESP, whichever port a server had."""
LOST: Final = "never sent on to the server"
UNSEEN: Final = "never sent on to the client"
REFUSED: Final = "the server took no connection"
CUT_OFF: Final = f"cut off after {LONGEST_REPLY:,} characters"

_ABOUT: Final = (
    "Made from requests.parquet and connections.parquet of the run: requests and replies, written as RESP 2. Times are "
    "those of the record (CLOCK_MONOTONIC), which a reader shows as a date in 1970. On the client side, a packet has "
    "the time at which the proxy had received it from the client, or was about to send it there; likewise on the node "
    "side. Faults lie between the sides. Addresses are made up, passwords are ***, and TCP checksums are left out."
)
_ENDED: Final = " The record ends at {} ns, because it had become too large."
_SECTION, _INTERFACE, _NAMES, _PACKET = 0x0A0D0D0A, 1, 4, 6
"""Blocks of the file."""
_COMMENT, _NAME, _APPLICATION, _RESOLUTION = 1, 2, 4, 9
"""Options of blocks."""
_RAW_IP: Final = 101
"""The type of link whose packets begin with their IP header."""
_IPV4: Final = 1
_FIN, _SYN, _RST, _PSH, _ACK = 1, 2, 4, 8, 16
_FIRST_PORT: Final = 1024
_SEGMENT: Final = 1 << 15
"""The most bytes of a stream in one packet."""
_AT_ONCE: Final = 1 << 14
_OPENED, _ASKED, _PASSED_ON, _ANSWERED, _PASSED_BACK, _CLIENT_CLOSED, _NODE_CLOSED = range(7)
"""What happens on a connection. At the same time, it happens in this order."""
_MOMENTS: Final = {
    _ASKED: "from_client_ns",
    _PASSED_ON: "to_node_ns",
    _ANSWERED: "from_node_ns",
    _PASSED_BACK: "to_client_ns",
}
_TURNS: Final = {_OPENED: "opened_ns", _CLIENT_CLOSED: "client_closed_ns", _NODE_CLOSED: "node_closed_ns"}


def write(run: Recorded, choice: Choice) -> Iterator[bytes]:
    if choice.wire is None or not choice.wire.connections.num_rows:
        raise UsageError("--to pcapng writes what went over the links, which is not on record for this run")
    wire = choice.wire
    connections = wire.connections.to_pylist()
    links = sorted({(row["client"], row["node"]) for row in connections})
    yield from _head(links, "" if wire.ended_ns is None else _ENDED.format(wire.ended_ns))
    sides = _sides(links, connections)
    scripts, is_whole = wire.scripts, not wire.is_cut_short
    for at_ns, what, row in _in_order(wire):
        client_side, node_side = sides[row["connection"]]
        if what in _TURNS:
            yield from _turn(at_ns, what, row, client_side, node_side)
        elif what in (_ASKED, _PASSED_ON):
            note = LOST if is_whole and what == _ASKED and row["to_node_ns"] is None else ""
            side = client_side if what == _ASKED else node_side
            yield from side.data(at_ns, _request(row, scripts), note, to_server=True)
        else:
            said, note = _reply(row["reply"])
            unseen = UNSEEN if is_whole and what == _ANSWERED and row["to_client_ns"] is None else ""
            side = node_side if what == _ANSWERED else client_side
            yield from side.data(at_ns, said, "; ".join(filter(None, [unseen, note])), to_server=False)


def _in_order(wire: Wire) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """When, what, and the row of the request or the connection that it is about."""
    found = []
    for table, moments in ((wire.connections, _TURNS), (wire.requests, _MOMENTS)):
        for kind, name in moments.items():
            times = table[name].combine_chunks()
            rows = np.flatnonzero(times.is_valid().to_numpy(zero_copy_only=False))
            found.append((times.drop_null().to_numpy(), np.full(len(rows), kind), rows))
    at_ns, what, rows = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((rows, what, at_ns))
    for begin in range(0, len(order), _AT_ONCE):
        part = order[begin : begin + _AT_ONCE]
        is_turn = np.isin(what[part], list(_TURNS))
        turns, requests = (
            iter(table.take(pa.array(rows[part[chosen]])).to_pylist())
            for table, chosen in ((wire.connections, is_turn), (wire.requests, ~is_turn))
        )
        for when, which in zip(at_ns[part].tolist(), what[part].tolist(), strict=True):
            yield when, which, next(turns if which in _TURNS else requests)


# -- RESP ------------------------------------------------------------------------------------------------------------


def _request(row: Mapping[str, Any], scripts: Mapping[str, str]) -> bytes:
    command, arguments = row["command"], row["arguments"]
    if command in ("EVAL", "EVAL_RO") and arguments:
        arguments = [scripts.get(arguments[0], arguments[0]), *arguments[1:]]
    if command == "SCRIPT" and arguments[0].upper() == "LOAD":
        arguments = [arguments[0], *(scripts.get(name, name) for name in arguments[1:])]
    return _resp([command, *arguments], simple=())


@lru_cache(1 << 12)
def _reply(text: str | None) -> tuple[bytes, str]:
    """The reply, and what is to be noted of it."""
    try:
        return _resp(msgspec.json.decode(text or "null")), ""
    except msgspec.DecodeError:
        return _resp(text), CUT_OFF


def _resp(value: Any, simple: Iterable[str] = ("OK", "PONG", "QUEUED")) -> bytes:
    match value:
        case None:
            return b"$-1\r\n"
        case bool() | int():
            return b":%d\r\n" % value
        case str() if value in simple:
            return b"+%s\r\n" % value.encode()
        case list():
            return b"*%d\r\n" % len(value) + b"".join(_resp(each, simple) for each in value)
        case {"error": str(error)} if len(value) == 1:
            return b"-%s\r\n" % " ".join(error.split()).encode()
        case dict():
            return _resp([part for pair in value.items() for part in pair], simple)
    said = str(value).encode()
    return b"$%d\r\n%s\r\n" % (len(said), said)


# -- TCP -------------------------------------------------------------------------------------------------------------


class _TcpConversation:
    """A TCP conversation between two addresses, and how far each of its streams is."""

    def __init__(self, interface: int, dialler: bytes, dialled: bytes, port: int) -> None:
        self._interface = interface
        self._ends = {True: (dialler, port, dialled, SERVER_PORT), False: (dialled, SERVER_PORT, dialler, port)}
        self._sent = {True: 0, False: 0}

    def packet(self, at_ns: int, flags: int, *, to_server: bool, said: bytes = b"", note: str = "") -> bytes:
        source, from_port, target, to_port = self._ends[to_server]
        sent, seen = self._sent[to_server], self._sent[not to_server] if flags & _ACK else 0
        self._sent[to_server] = (sent + len(said) + bool(flags & (_SYN | _FIN))) & 0xFFFFFFFF
        tcp = struct.pack("!HHIIBBHHH", from_port, to_port, sent, seen, 5 << 4, flags, 0xFFFF, 0, 0)
        whole = _ip(source, target, len(tcp) + len(said)) + tcp + said
        head = struct.pack("<IIIII", self._interface, at_ns >> 32, at_ns & 0xFFFFFFFF, len(whole), len(whole))
        return _block(_PACKET, head + _padded(whole) + (_options((_COMMENT, note.encode())) if note else b""))

    def open(self, at_ns: int, note: str) -> Iterator[bytes]:
        yield self.packet(at_ns, _SYN, to_server=True, note=note)
        yield self.packet(at_ns, _SYN | _ACK, to_server=False)
        yield self.packet(at_ns, _ACK, to_server=True)

    def data(self, at_ns: int, said: bytes, note: str, *, to_server: bool) -> Iterator[bytes]:
        for at in range(0, len(said), _SEGMENT):
            part = said[at : at + _SEGMENT]
            yield self.packet(at_ns, _PSH | _ACK, to_server=to_server, said=part, note="" if at else note)


def _sides(
    links: list[LinkKey], connections: Iterable[Mapping[str, Any]]
) -> dict[int, tuple[_TcpConversation, _TcpConversation]]:
    """The two sides of each connection, by its number."""
    interfaces = {link: 2 * number for number, link in enumerate(links)}
    at = {name: address for address, name in _hosts(links)}
    found = {}
    for row in connections:
        client, node, interface = row["client"], row["node"], interfaces[row["client"], row["node"]]
        port = _FIRST_PORT + row["connection"] % ((1 << 16) - _FIRST_PORT)
        found[row["connection"]] = (
            _TcpConversation(interface, at[client], at[f"{node}.proxy"], port),
            _TcpConversation(interface + 1, at[f"{client}.proxy"], at[node], port),
        )
    return found


def _turn(
    at_ns: int, what: int, row: Mapping[str, Any], client_side: _TcpConversation, node_side: _TcpConversation
) -> Iterator[bytes]:
    """A connection is opened, or closed by one of its ends."""
    if what == _CLIENT_CLOSED:
        yield client_side.packet(at_ns, _FIN | _ACK, to_server=True)
    elif what == _NODE_CLOSED:
        yield node_side.packet(at_ns, _FIN | _ACK, to_server=False)
    else:
        foreign = row["not_understood_bytes"]
        note = f"{plural(foreign, 'byte')} of this connection are not of the server's protocol" if foreign else ""
        yield from client_side.open(at_ns, note)
        if row["is_reached"]:
            yield from node_side.open(at_ns, note)
        else:
            yield node_side.packet(at_ns, _SYN, to_server=True, note=REFUSED)
            yield node_side.packet(at_ns, _RST | _ACK, to_server=False)


@lru_cache(1 << 12)
def _ip(source: bytes, target: bytes, length: int) -> bytes:
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0x4000, 64, 6, 0) + source + target
    total = sum(struct.unpack("!10H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return head[:10] + struct.pack("!H", total ^ 0xFFFF) + head[12:]


# -- pcapng ----------------------------------------------------------------------------------------------------------


def _hosts(links: Iterable[LinkKey]) -> Iterator[tuple[bytes, str]]:
    """Made-up addresses with their names: clients are in 127.1, servers in 127.2, and the proxy's ends towards them in
    127.3 and 127.4."""
    clients, nodes = (list(dict.fromkeys(names)) for names in zip(*links, strict=True))
    for network, names in (
        (1, clients),
        (2, nodes),
        (3, [f"{name}.proxy" for name in clients]),
        (4, [f"{name}.proxy" for name in nodes]),
    ):
        for number, name in enumerate(names, 1):
            yield bytes([127, network, number >> 8, number & 0xFF]), name


def _head(links: list[LinkKey], ended: str) -> Iterator[bytes]:
    about = _options((_COMMENT, f"{_ABOUT}{ended}".encode()), (_APPLICATION, b"fencepost"))
    yield _block(_SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + about)
    for client, node in links:
        for side in ("client side", "node side"):
            options = _options((_NAME, f"{client}-{node} {side}".encode()), (_RESOLUTION, b"\x09"))
            yield _block(_INTERFACE, struct.pack("<HHI", _RAW_IP, 0, 0) + options)
    named = (address + name.encode() + b"\0" for address, name in _hosts(links))
    records = (struct.pack("<HH", _IPV4, len(record)) + _padded(record) for record in named)
    yield _block(_NAMES, b"".join(records) + bytes(4))


def _options(*options: tuple[int, bytes]) -> bytes:
    every = (struct.pack("<HH", code, len(value)) + _padded(value) for code, value in options)
    return b"".join(every) + bytes(4)


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + length + body + length


def _padded(value: bytes) -> bytes:
    return value + bytes(-len(value) % 4)

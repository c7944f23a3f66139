"""What went over the links, read back from a capture as any reader of pcapng would."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import hiredis
import pytest

from fencepost.errors import UsageError
from harness.export.formats import Choice
from harness.export.pcapng import CUT_OFF, LOST, REFUSED, UNSEEN, write
from harness.store.wire import Wire
from tests.export.wires import connection, request, wire
from tests.judge.histories import History

FIN, SYN, RST = 1, 2, 4


class Packet(NamedTuple):
    """`seq`: where what it says begins in the stream of its source."""

    interface: str
    at_ns: int
    source: str
    target: str
    flags: int
    seq: int
    said: bytes
    comment: str


def blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length % 4 == 0
        assert struct.unpack_from("<I", data, at + length - 4) == (length,), "it can be read from its end, too"
        yield kind, data[at + 8 : at + length - 4]
        at += length


def options(body: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at < len(body) and (head := struct.unpack_from("<HH", body, at)) != (0, 0):
        code, length = head
        found[code] = body[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4
    return found


def packets(recorded: Wire) -> list[Packet]:
    read = blocks(b"".join(write(History().recorded(), Choice(wire=recorded))))
    kind, body = next(read)
    assert (kind, body[:8]) == (0x0A0D0D0A, struct.pack("<IHH", 0x1A2B3C4D, 1, 0))
    assert "CLOCK_MONOTONIC" in options(body[16:])[1].decode()
    interfaces, names, found = [], {}, []
    for kind, body in read:
        if kind == 1:
            assert struct.unpack_from("<H", body) == (101,)
            assert options(body[8:])[9] == b"\x09", "nanoseconds"
            interfaces.append(options(body[8:])[2].decode())
        elif kind == 4:
            records = options(body)  # they have the same form, but for their code
            assert list(records) == [1]
            at = 0
            while (head := struct.unpack_from("<HH", body, at)) != (0, 0):
                record = body[at + 4 : at + 4 + head[1]]
                names[record[:4]] = record[4:-1].decode()
                at += 4 + head[1] + -head[1] % 4
        else:
            assert kind == 6
            number, high, low, kept, length = struct.unpack_from("<IIIII", body)
            assert kept == length
            packet = body[20 : 20 + kept]
            assert struct.unpack_from("!H", packet, 2) == (length,)
            assert sum(struct.unpack("!10H", packet[:20])) % 0xFFFF == 0, "the checksum of the IP header"
            source, target = names[packet[12:16]], names[packet[16:20]]
            ports = struct.unpack_from("!HH", packet, 20)
            assert 6379 in ports
            comment = options(body[20 + kept + -kept % 4 :]).get(1, b"").decode()
            (seq,) = struct.unpack_from("!I", packet, 24)
            found.append(
                Packet(interfaces[number], high << 32 | low, source, target, packet[33], seq, packet[40:], comment)
            )
    assert [each.at_ns for each in found] == sorted(each.at_ns for each in found)
    return found


def spoken(recorded: Wire) -> list[Packet]:
    return [packet for packet in packets(recorded) if packet.said]


PING = request("PING", at=(10, 20, 30, 40), reply='"PONG"')


def test_a_request_and_its_reply_are_seen_on_both_sides_of_the_proxy() -> None:
    found = spoken(wire([PING], [connection()]))
    assert [(each.interface, each.at_ns, each.source, each.target, each.said) for each in found] == [
        ("c1-n1 client side", 10, "c1", "n1.proxy", b"*1\r\n$4\r\nPING\r\n"),
        ("c1-n1 node side", 20, "c1.proxy", "n1", b"*1\r\n$4\r\nPING\r\n"),
        ("c1-n1 node side", 30, "n1", "c1.proxy", b"+PONG\r\n"),
        ("c1-n1 client side", 40, "n1.proxy", "c1", b"+PONG\r\n"),
    ]
    assert [each.comment for each in found] == [""] * 4


@pytest.mark.parametrize(
    ("came", "comments"),
    [(1, [LOST]), (2, ["", ""]), (3, ["", "", UNSEEN])],
    ids=["lost on the way to the node", "not answered", "reply lost on the way back"],
)
def test_a_comment_says_what_was_lost(came: int, comments: list[str]) -> None:
    reply = '"PONG"' if came > 2 else None
    lost = request("PING", at=PING_TIMES[:came], reply=reply)
    assert [each.comment for each in spoken(wire([lost], [connection()]))] == comments


PING_TIMES = (10, 20, 30, 40)


def test_each_stream_is_without_a_gap() -> None:
    asked = [request("ECHO", "x" * size, at=(at, at + 1, at + 2, at + 3), reply="7") for at, size in ((9, 7), (30, 9))]
    found = packets(wire(asked, [connection(client_closed_ns=50)]))
    ends: dict[tuple[str, str], int] = {}
    for each in found:
        assert each.seq == ends.get((each.interface, each.source), 0)
        ends[each.interface, each.source] = each.seq + len(each.said) + bool(each.flags & (SYN | FIN))
    assert sum(bool(each.flags & SYN) for each in found) == 4
    assert [(each.source, each.at_ns) for each in found if each.flags & FIN] == [("c1", 50)]


def test_a_server_that_took_no_connection_refuses_it() -> None:
    found = packets(wire([], [connection(is_reached=False)]))
    *_, asked, refused = found
    assert (asked.interface, asked.flags & SYN, asked.comment) == ("c1-n1 node side", SYN, REFUSED)
    assert (refused.source, refused.flags & RST) == ("n1", RST)


@pytest.mark.parametrize(
    ("reply", "written"),
    [
        ("null", b"$-1\r\n"),
        ("7", b":7\r\n"),
        ("true", b":1\r\n"),
        ('"OK"', b"+OK\r\n"),
        ('"a\\u00e9"', b"$3\r\na\xc3\xa9\r\n"),
        ('[1,["x",null]]', b"*2\r\n:1\r\n*2\r\n$1\r\nx\r\n$-1\r\n"),
        ('{"error":"ERR no"}', b"-ERR no\r\n"),
        ('{"a":1}', b"*2\r\n$1\r\na\r\n:1\r\n"),
    ],
)
def test_replies_are_written_as_resp(reply: str, written: bytes) -> None:
    (*_, back) = spoken(wire([request("GET", "k1", at=(1, 2, 3, 4), reply=reply)], [connection(opened=0)]))
    assert back.said == written
    reader = hiredis.Reader()
    reader.feed(back.said)
    assert reader.gets() is not False, "it is whole"


def test_of_a_long_reply_the_beginning_is_there_and_a_comment_says_so() -> None:
    found = spoken(wire([request("GET", "k", at=(1, 2, 3, 4), reply='"' + "x" * 1023)], [connection()]))
    assert [each.comment for each in found] == ["", "", CUT_OFF, CUT_OFF]
    assert b"x" * 1023 in found[-1].said


def test_a_script_is_there_with_its_text() -> None:
    asked = [request("EVAL", "5ha1", "0", at=(1, 2)), request("EVALSHA", "5ha1", "0", at=(3, 4))]
    asked.append(request("SCRIPT", "LOAD", "5ha1", at=(5, 6)))
    found = spoken(wire(asked, [connection()], scripts={"5ha1": "return 1"}))
    assert [b"return 1" in each.said for each in found] == [True, True, False, False, True, True]


def test_more_than_a_packet_holds_is_several() -> None:
    found = spoken(wire([request("SET", "k1", "v" * 100_000, at=(1,))], [connection()]))
    assert len(found) == 4
    reader = hiredis.Reader()
    for each in found:
        reader.feed(each.said)
    assert reader.gets() == [b"SET", b"k1", b"v" * 100_000]


def test_bytes_of_another_protocol_are_told() -> None:
    first, *_ = packets(wire([], [connection(not_understood_bytes=4096)]))
    assert first.comment == "4,096 bytes of this connection are not of the server's protocol"


def test_of_one_key_only_the_requests_with_its_name_are_there() -> None:
    asked = [request("GET", key, at=(at, at)) for at, key in ((1, "lock:{k1}"), (2, "k2"), (3, "k1"))]
    whole = wire([*asked, request("PING", at=(4, 4)), request("DEL", "k1", "k1", at=(5, 5))], [connection()])
    kept = whole.of_key("k1")
    assert kept.requests["from_client_ns"].to_pylist() == [1, 3, 5]
    assert kept.scripts == whole.scripts


def test_without_a_record_there_is_nothing_to_write() -> None:
    for recorded in (None, wire([], [])):
        with pytest.raises(UsageError, match="not on record"):
            list(write(History().recorded(), Choice(wire=recorded)))

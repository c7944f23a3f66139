"""What a connection to ZooKeeper carried, read from the chunks in which its bytes came."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cluster.requests import Chunks
from cluster.zookeeper_requests import decode


class Request(NamedTuple):
    connection: int
    command: str
    keys: list[str]
    arguments: list[str]
    sent_end: int
    reply_end: int
    reply: Any


def framed(body: bytes) -> bytes:
    return struct.pack("!i", len(body)) + body


def text(value: str) -> bytes:
    return framed(value.encode())


def rights() -> bytes:
    return struct.pack("!ii", 1, 31) + text("world") + text("anyone")


def opening(session: int = 0) -> bytes:
    return framed(struct.pack("!iqiq", 0, 0, 700, session) + framed(b"\1" * 16) + b"\0")


def opened(timeout_ms: int = 1000, session: int = 0x2A) -> bytes:
    return framed(struct.pack("!iiq", 0, timeout_ms, session) + framed(b"\1" * 16) + b"\0")


def asked(number: int, code: int, body: bytes = b"") -> bytes:
    return framed(struct.pack("!ii", number, code) + body)


def answered(number: int, body: bytes = b"", error: int = 0) -> bytes:
    return framed(struct.pack("!iqi", number, 7, error) + body)


def created(number: int, path: str, mode: int = 3) -> bytes:
    return asked(number, 1, text(path) + text("me") + rights() + struct.pack("!i", mode))


def event(path: str, kind: int = 2) -> bytes:
    return answered(-1, struct.pack("!ii", kind, 3) + text(path))


def chunks(*connections: Sequence[bytes]) -> Chunks:
    encoded = pa.array([chunk for own in connections for chunk in own], pa.large_binary()).dictionary_encode()
    numbers = np.array([number for number, own in enumerate(connections) for _ in own], np.int64)
    return Chunks(len(connections), numbers, encoded.indices.to_numpy().astype(np.int64), encoded.dictionary)


def read(*connections: tuple[Sequence[bytes], Sequence[bytes]]) -> tuple[list[Request], list[int]]:
    """What went over these connections, and how much of each was not understood."""
    said = decode(chunks(*(sent for sent, _ in connections)), chunks(*(heard for _, heard in connections)))
    kinds, replies = said.said.to_pylist(), [*said.replies.to_pylist(), "null"]
    columns = (said.connection, said.what, said.sent_end, said.reply_end, said.reply)
    found = [
        Request(connection, *kinds[what].values(), sent, heard, json.loads(replies[reply]))
        for connection, what, sent, heard, reply in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return found, said.not_understood.tolist()


def requests(sent: Sequence[bytes], heard: Sequence[bytes] = ()) -> list[Request]:
    """After the first one, which opens a session."""
    found, left = read(([opening(), *sent], [opened(), *heard]))
    assert left == [0]
    assert (found[0].command, found[0].arguments, found[0].reply) == ("CONNECT", ["0x0", "700"], ["0x2a", 1000])
    return found[1:]


def test_a_node_is_made_and_the_server_says_what_it_is_called() -> None:
    sent = created(1, "/locks/k1/a-")
    (made,) = requests([sent], [answered(1, text("/locks/k1/a-0000000004"))])
    assert (made.command, made.keys) == ("CREATE", ["/locks/k1/a-"])
    assert made.arguments == ["/locks/k1/a-", "me", "EPHEMERAL", "SEQUENTIAL"]
    assert made.reply == "/locks/k1/a-0000000004"
    assert (made.sent_end, made.reply_end) == (len(opening() + sent), len(opened()) + 16 + 4 + 4 + 22)


def test_a_watch_is_left_and_the_server_tells_of_the_node_unasked() -> None:
    watch, plain = asked(1, 4, text("/a") + b"\1"), asked(2, 3, text("/a") + b"\0")
    heard = [answered(1, text("v") + bytes(68)), answered(2, bytes(68)), event("/a")]
    left, looked, told = requests([watch, plain], heard)
    assert (left.command, left.arguments, left.reply) == ("GETDATA", ["/a", "WATCH"], "v")
    assert (looked.command, looked.arguments, looked.reply) == ("EXISTS", ["/a"], "OK")
    assert (told.command, told.keys, told.arguments, told.sent_end) == ("", [], [], -1)
    assert (told.reply, told.reply_end) == ({"event": "deleted", "path": "/a"}, len(opened() + b"".join(heard)))


def test_a_reply_belongs_to_the_request_with_its_number() -> None:
    first, ping, last = asked(5, 2, text("/a") + struct.pack("!i", -1)), asked(-2, 11), asked(6, 8, text("/") + b"\0")
    heard = [answered(-2), answered(6, struct.pack("!i", 2) + text("a") + text("b")), answered(5, error=-101)]
    deleted, pinged, listed = requests([first, ping, last], heard)
    assert (deleted.command, deleted.arguments, deleted.reply) == ("DELETE", ["/a", "-1"], {"error": "NoNode"})
    assert (pinged.command, pinged.reply) == ("PING", "OK")
    assert (listed.command, listed.reply) == ("GETCHILDREN", ["a", "b"])


def test_a_node_that_is_not_there_is_no_error_of_the_question() -> None:
    (looked,) = requests([asked(1, 3, text("/a") + b"\1")], [answered(1, error=-101)])
    assert looked.reply is None
    assert looked.reply_end > 0


def test_a_request_without_a_reply() -> None:
    (looked,) = requests([asked(1, 3, text("/a") + b"\1")])
    assert looked.reply_end == -1


def test_a_transaction_has_the_paths_and_the_words_of_its_parts() -> None:
    def part(code: int, body: bytes) -> bytes:
        return struct.pack("!ibi", code, 0, -1) + body

    check = part(13, text("/a") + struct.pack("!i", 3))
    change = part(5, text("/b") + text("v") + struct.pack("!i", -1))
    (multi,) = requests([asked(1, 14, check + change + struct.pack("!ibi", -1, 1, -1))], [answered(1)])
    assert (multi.command, multi.keys) == ("MULTI", ["/a", "/b"])
    assert multi.arguments == ["CHECK", "/a", "3", "SETDATA", "/b", "v", "-1"]


def test_a_password_is_not_kept() -> None:
    (login,) = requests([asked(-4, 100, struct.pack("!i", 0) + text("digest") + text("me:secret"))], [answered(-4)])
    assert login.arguments == ["digest", "***"]


def test_a_session_that_is_over_is_told() -> None:
    ((connect,), _) = read(([opening(0x2A)], [opened(0)]))
    assert (connect.arguments, connect.reply) == (["0x2a", "700"], {"error": "SessionExpired"})


def test_what_is_no_message_is_counted_from_there_on() -> None:
    sent, garbage = asked(1, 11), b"GET / HTTP/1.1\r\n"
    found, left = read(([opening(), sent, garbage], [opened()]), ([garbage], []), ([opening()], [opened(), garbage]))
    assert [request.command for request in found] == ["CONNECT", "PING", "CONNECT"]
    assert left == [len(garbage)] * 3


def test_the_word_of_an_administrator_is_no_request_and_no_mistake() -> None:
    status = b"Zookeeper version: 3.9.5\nMode: leader\n"
    assert read(([b"srvr"], [status]), ([b"ruok\n"], [b"imok"])) == ([], [0, 0])
    assert read(([b"help"], [status])) == ([], [len(b"help" + status)])


def test_an_unknown_request_is_not_understood() -> None:
    unknown = asked(1, 77)
    found, left = read(([opening(), unknown, asked(2, 11)], [opened()]))
    assert [request.command for request in found] == ["CONNECT"]
    assert left == [len(unknown + asked(2, 11))]


def test_a_text_that_is_longer_than_its_message_is_not_understood() -> None:
    short = framed(struct.pack("!iii", 1, 3, 99) + b"/a")
    assert read(([opening(), short], [opened()]))[1] == [len(short)]


def test_a_message_that_never_became_complete_is_no_request_and_no_mistake() -> None:
    found, left = read(([opening(), asked(1, 11)[:-3]], [opened(), answered(-2)[:-1]]))
    assert ([request.command for request in found], left) == (["CONNECT"], [0])


@given(st.lists(st.integers(1, 60), max_size=30))
def test_it_does_not_matter_into_which_chunks_the_bytes_were_cut(sizes: list[int]) -> None:
    def cut(whole: bytes) -> list[bytes]:
        edges = np.cumsum([0, *sizes]).tolist()
        parts = [whole[begin:end] for begin, end in zip(edges, [*edges[1:], None], strict=True)]
        return [part for part in parts if part]

    sent = opening() + created(1, "/a-") + asked(2, 4, text("/a-1") + b"\1")
    heard = opened() + answered(1, text("/a-1")) + answered(2, text("")) + event("/a-1")
    assert read((cut(sent), cut(heard))) == read(([sent], [heard]))

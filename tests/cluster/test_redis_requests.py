"""What a Redis connection carried, read from the chunks in which its bytes came."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from time import process_time
from typing import NamedTuple

import hiredis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.redis_requests import decode
from cluster.requests import LONGEST_REPLY, Chunks


def packed(*words: str | int | bytes) -> bytes:
    return bytes(hiredis.pack_command(words))  # type: ignore[arg-type]  # its stub says: one argument


class Request(NamedTuple):
    connection: int
    command: str
    keys: list[str]
    arguments: list[str]
    database: int
    user: str
    transaction: int
    sent_end: int
    reply_end: int
    reply: str | None


class Read(NamedTuple):
    requests: list[Request]
    not_understood: list[int]
    scripts: Mapping[str, str]


Chunked = Sequence[bytes]


def chunks(*connections: Chunked) -> Chunks:
    every = [chunk for own in connections for chunk in own]
    encoded = pa.array(every, pa.large_binary()).dictionary_encode()
    numbers = [number for number, own in enumerate(connections) for _ in own]
    codes = encoded.indices.to_numpy().astype(np.int64)
    return Chunks(len(connections), np.array(numbers, np.int64), codes, encoded.dictionary)


def read(*connections: tuple[Chunked, Chunked]) -> Read:
    """What went over these connections, each as the chunks that were sent and those that were answered."""
    said = decode(chunks(*(sent for sent, _ in connections)), chunks(*(answered for _, answered in connections)))
    kinds, replies, users = said.said.to_pylist(), [*said.replies.to_pylist(), None], said.users.to_pylist()
    found = [
        Request(connection, *kinds[what].values(), database, users[user], *numbers, replies[reply])
        for connection, what, database, user, *numbers, reply in zip(
            *(
                column.tolist()
                for column in (
                    said.connection,
                    said.what,
                    said.database,
                    said.user,
                    said.transaction,
                    said.sent_end,
                    said.reply_end,
                    said.reply,
                )
            ),
            strict=True,
        )
    ]
    return Read(found, said.not_understood.tolist(), said.scripts)


def requests(sent: Chunked, answered: Chunked = ()) -> list[Request]:
    return read((sent, answered)).requests


def test_a_request_has_its_keys_its_words_and_its_reply() -> None:
    (request,) = requests([packed("SET", "k", "v", "NX", "PX", 1000)], [b"+OK\r\n"])
    assert (request.command, list(request.keys)) == ("SET", ["k"])
    assert list(request.arguments) == ["k", "v", "NX", "PX", "1000"]
    assert (request.reply, request.reply_end) == ('"OK"', 5)


def test_each_request_of_a_pipeline_ends_where_its_own_bytes_end() -> None:
    first, second, third = packed("SET", "a", "1"), packed("GET", "a"), packed("DEL", "a", "b")
    whole = first + second + third
    ends = [request.sent_end for request in requests([whole])]
    assert ends == [len(first), len(first + second), len(whole)]
    assert list(requests([whole])[2].keys) == ["a", "b"]


def test_each_reply_of_a_pipeline_ends_where_its_own_bytes_end() -> None:
    replies = [b"+OK\r\n", b"$1\r\n1\r\n", b"*2\r\n:1\r\n$-1\r\n"]
    asked = requests([packed("SET", "a", "1") + packed("GET", "a") + packed("EVAL", "x", 0)], [b"".join(replies)])
    assert [request.reply_end for request in asked] == [5, 12, 25]
    assert [request.reply for request in asked] == ['"OK"', '"1"', "[1,null]"]


@given(st.lists(st.integers(1, 60), max_size=30))
def test_it_does_not_matter_into_which_chunks_the_bytes_were_cut(sizes: list[int]) -> None:
    sent = packed("SET", "k", "v") + packed("EVALSHA", "abc", 2, "k", "l", "arg") + packed("GET", "k")
    answered = b"+OK\r\n" + b"*2\r\n:1\r\n*1\r\n$2\r\nab\r\n" + b"$1\r\nv\r\n"

    def cut(whole: bytes) -> list[bytes]:
        pieces, at = [], 0
        for size in sizes:
            pieces.append(whole[at : at + size])
            at += size
        return [piece for piece in [*pieces, whole[at:]] if piece]

    assert requests(cut(sent), cut(answered)) == requests([sent], [answered])


def test_a_request_of_many_chunks_is_put_together_once() -> None:
    """Joined with what there is at every chunk, it would take minutes."""
    whole = packed("SET", "k", b"x" * (32 << 20)) + packed("PING") + packed("ECHO", "a")
    chunks = [whole[at : at + (1 << 12)] for at in range(0, len(whole), 1 << 12)]
    before = process_time()
    found = requests(chunks)
    assert process_time() - before < 10
    assert [(request.command, request.sent_end) for request in found][1:] == [
        ("PING", len(whole) - len(packed("ECHO", "a"))),
        ("ECHO", len(whole)),
    ]
    assert len(found[0].arguments[1]) == 32 << 20


def test_the_keys_of_a_script_are_those_that_it_is_given() -> None:
    (request,) = requests([packed("EVALSHA", "abc", 2, "k", "l", "token")])
    assert list(request.keys) == ["k", "l"]


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("BLPOP", "a", "b", "0"), ["a", "b"]),
        (("MSET", "a", "1", "b", "2"), ["a", "b"]),
        (("LMOVE", "a", "b", "LEFT", "RIGHT"), ["a", "b"]),
        (("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", "t", ">", ">"), ["s", "t"]),
        (("PUBLISH", "channel", "x"), []),
        (("ZADD", "z", "1", "m"), ["z"]),
        (("EVAL", "return 1", "many"), []),
    ],
)
def test_which_words_are_keys(words: tuple[str, ...], keys: list[str]) -> None:
    assert list(requests([packed(*words)])[0].keys) == keys


def test_the_text_of_a_script_is_kept_once_and_named_by_its_sum() -> None:
    text = "return redis.call('GET', KEYS[1])"
    name = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    found = read(([packed("SCRIPT", "LOAD", text), packed("EVAL", text, 1, "k")], []))
    assert found.scripts == {name: text}
    assert [request.arguments[:2] for request in found.requests] == [["LOAD", name], [name, "1"]]


def test_no_password_is_kept() -> None:
    sent = [packed("AUTH", "secret"), packed("HELLO", 3, "AUTH", "me", "secret"), packed("AUTH", "you", "secret")]
    asked = requests([*sent, packed("PING")])
    assert "secret" not in repr(asked)
    assert [request.user for request in asked] == ["default", "me", "you", "you"]


def test_the_selected_database_is_that_of_what_follows() -> None:
    asked = requests([packed("GET", "k"), packed("SELECT", 3), packed("GET", "k")])
    assert [request.database for request in asked] == [0, 3, 3]


def test_what_is_between_multi_and_exec_is_of_one_transaction() -> None:
    sent = [packed("PING"), packed("MULTI"), packed("DEL", "k"), packed("EXEC"), packed("PING")]
    asked = requests(sent, [b"+PONG\r\n+OK\r\n+QUEUED\r\n*1\r\n:1\r\n+PONG\r\n"])
    assert [request.transaction for request in asked] == [-1, 1, 1, 1, -1]
    assert [request.reply for request in asked] == ['"PONG"', '"OK"', '"QUEUED"', "[1]", '"PONG"']


@pytest.mark.parametrize("kind", [b"*", b">"], ids=["RESP2", "RESP3"])
def test_messages_to_a_subscriber_answer_no_request(kind: bytes) -> None:
    sent = [packed("SUBSCRIBE", "a", "b"), packed("UNSUBSCRIBE", "a")]
    answered = [
        kind + b"3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
        kind + b"3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n",
        kind + b"3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n",
        kind + b"3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n",
    ]
    subscribed, unsubscribed, message = requests(sent, answered)
    assert json.loads(subscribed.reply or "") == ["subscribe", "b", 2]
    assert json.loads(unsubscribed.reply or "") == ["unsubscribe", "a", 1]
    assert (message.command, json.loads(message.reply or "")) == ("", ["message", "a", "hi"])


SENT_LINES = [packed("AUTH", "p"), b"PING\r\n", b"SET k v\r\nGET k\r\n"]


def test_lines_are_requests_too_also_after_others() -> None:
    asked = requests(SENT_LINES, [b"+OK\r\n+PONG\r\n+OK\r\n$1\r\nv\r\n"])
    assert [request.command for request in asked] == ["AUTH", "PING", "SET", "GET"]
    assert [request.sent_end for request in asked][1:] == [asked[0].sent_end + extra for extra in (6, 15, 22)]


def test_requests_that_want_no_reply_get_none() -> None:
    sent = [packed("CLIENT", "REPLY", "SKIP"), packed("SET", "k", "v"), packed("GET", "k")]
    assert [request.reply for request in requests(sent, [b"$1\r\nv\r\n"])] == [None, None, '"v"']


def test_a_request_without_its_reply_has_none() -> None:
    answered, silent = requests([packed("GET", "k"), packed("GET", "k")], [b"$-1\r\n"])
    assert (answered.reply, silent.reply, silent.reply_end) == ("null", None, -1)


def test_an_error_is_told_from_a_text() -> None:
    (request,) = requests([packed("GET", "k")], [b"-NOAUTH Authentication required.\r\n"])
    assert json.loads(request.reply or "") == {"error": "NOAUTH Authentication required."}


def test_bytes_that_are_no_text_are_escaped() -> None:
    (request,) = requests([packed("SET", "k", b"\xff\x00a")], [b"$2\r\n\xfe\xfd\r\n"])
    assert request.arguments[1] == "\\xff\x00a"
    assert json.loads(request.reply or "") == "\\xfe\\xfd"


def test_a_long_reply_is_cut_off() -> None:
    (request,) = requests([packed("GET", "k")], [b"$5000\r\n" + b"x" * 5000 + b"\r\n"])
    assert len(request.reply or "") == LONGEST_REPLY


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x02\x00\x01", b"*1\r\n:5\r\n", b"*1\r\n!bad\r\n", b"*-9x\r\n"])
def test_what_is_not_redis_is_counted_and_what_came_before_is_kept(garbage: bytes) -> None:
    found = read(([packed("PING"), garbage], [b"+PONG\r\n"]))
    assert [request.command for request in found.requests] == ["PING"]
    assert found.not_understood == [len(garbage)]


WORDS = st.sampled_from(
    [
        packed("SET", "k", "v"),
        packed("GET", "k"),
        packed("EVAL", "return 1", 1, "k", "v"),
        packed("SELECT", 3),
        packed("AUTH", "me", "secret"),
        packed("HELLO", 3, "AUTH", "you", "secret"),
        packed("MULTI"),
        packed("EXEC"),
        packed("CLIENT", "REPLY", "SKIP"),
        packed("SUBSCRIBE", "a", "b"),
        packed("MONITOR"),
        packed("SET", "k", "a\r\n$1\r\nb"),
        packed("SET", "k", b"\xff"),
        packed("AUTH"),
        b"*1\r\n!bad\r\n",
    ]
)
ANSWERS = st.sampled_from(
    [
        b"+OK\r\n",
        b"$1\r\nv\r\n",
        b"*2\r\n:1\r\n$-1\r\n",
        b">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
        b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n",
        b"-ERR no\r\n",
        b"!bad",
    ]
)


@given(
    st.lists(st.tuples(st.lists(WORDS, max_size=8), st.lists(ANSWERS, max_size=8)), min_size=1, max_size=4),
    st.integers(1, 60),
)
def test_connections_are_decoded_as_if_each_was_alone_and_came_in_pieces(
    connections: list[tuple[list[bytes], list[bytes]]], size: int
) -> None:
    def in_pieces(chunks: list[bytes]) -> list[bytes]:
        whole = b"".join(chunks)
        return [whole[at : at + size] for at in range(0, len(whole), size)]

    alone = [read((in_pieces(sent), in_pieces(answered))) for sent, answered in connections]
    found = read(*connections)
    assert found.not_understood == [number for each in alone for number in each.not_understood]
    for place, each in enumerate(alone):
        own = [request._replace(connection=0) for request in found.requests if request.connection == place]
        assert own == each.requests


def test_a_request_of_other_things_than_words_is_not_redis() -> None:
    found = read(([packed("PING"), b"*2\r\n$4\r\nPING\r\n:5\r\n", packed("PING")], []))
    assert [request.command for request in found.requests] == ["PING"]
    assert found.not_understood == [len(b"*2\r\n$4\r\nPING\r\n:5\r\n") + len(packed("PING"))]


def test_a_database_of_an_impossible_number_is_not_selected() -> None:
    asked = requests([packed("SELECT", 3), packed("SELECT", 10**20), packed("GET", "k")])
    assert [request.database for request in asked] == [3, 3, 3]


def test_a_map_whose_key_is_a_list_is_not_understood() -> None:
    assert read(([packed("PING")], [b"%1\r\n*1\r\n:1\r\n:2\r\n"])).not_understood == [16]


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.binary(max_size=40), max_size=6))
def test_no_bytes_crash_it(sent: list[bytes], answered: list[bytes]) -> None:
    (not_understood,) = read((sent, answered)).not_understood
    assert 0 <= not_understood <= sum(map(len, sent + answered))

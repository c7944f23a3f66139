"""What one node tells of its keys, and between which moments it can have happened."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from time import monotonic_ns
from typing import Any

from cluster.address import Address
from cluster.key_events import CONNECTS_WITHIN_NS, REDIAL_NS, KeyEventStream
from fencepost.history import KeyEvent
from tests.cluster.key_streams import follow, sockets_of
from tests.locks.conftest import Server


class Stamping:
    """A socket that remembers when its newest bytes had been received."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.received_ns = 0

    def recv(self, size: int) -> bytes:
        data = self._real.recv(size)
        self.received_ns = monotonic_ns()
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_what_happens_to_a_key_is_told_in_order_with_its_value(stream: KeyEventStream, server: Server) -> None:
    client = server.client()
    client.set("k1", "v1", nx=True, px=60_000)
    first = follow(stream, lambda told: len(told) == 1)
    client.delete("k1")
    second = follow(stream, lambda told: len(told) == 1)
    assert [(e.event, e.key, e.value) for e in (*first, *second)] == [("set", "k1", "v1"), ("deleted", "k1", None)]
    assert first[0].ttl_ms is not None
    assert 0 < first[0].ttl_ms <= 60_000


def test_an_event_lies_between_its_two_bounds(stream: KeyEventStream, server: Server) -> None:
    before_ns = monotonic_ns()
    server.client().set("k1", "v1")
    after_ns = monotonic_ns()
    (event,) = follow(stream, lambda told: len(told) == 1)
    assert event.since_ns is not None
    assert event.since_ns <= after_ns
    assert event.at_ns >= before_ns


def test_the_later_bound_is_not_earlier_than_the_news(stream: KeyEventStream, server: Server) -> None:
    """A watcher may lose the processor between looking and receiving; what it receives can be of that time."""
    assert stream._connection is not None
    stamping = Stamping(stream._connection._socket)
    stream._connection._socket = stamping  # type: ignore[assignment]
    server.client().set("k1", "v1")
    while not stamping.received_ns:
        assert sockets_of(stream).poll(5_000)
        stream.advance()
    received_ns = stamping.received_ns
    (event,) = follow(stream, lambda told: len(told) == 1)
    assert event.at_ns >= received_ns > 0


# Keys that are hashes, as Redisson keeps them: a field for the owner, and in it how often the owner acquired.

ACQUIRE = "redis.call('hincrby', KEYS[1], ARGV[1], 1); redis.call('pexpire', KEYS[1], ARGV[2])"
RELEASE = "redis.call('hincrby', KEYS[1], ARGV[1], -1); redis.call('pexpire', KEYS[1], ARGV[2])"


def test_a_hash_is_told_with_its_field_as_the_value(stream: KeyEventStream, server: Server) -> None:
    client = server.client()
    client.eval(ACQUIRE, 1, "k1", "c1:7", 60_000)
    first = follow(stream, lambda told: len(told) == 1)
    client.delete("k1")
    second = follow(stream, lambda told: len(told) == 1)
    assert [(e.event, e.value, e.is_hash) for e in (*first, *second)] == [
        ("set", "c1:7", True),
        ("deleted", None, False),
    ]
    assert first[0].ttl_ms is not None
    assert 0 < first[0].ttl_ms <= 60_000


def test_another_count_of_the_same_owner_only_prolongs_the_key(stream: KeyEventStream, server: Server) -> None:
    client = server.client()
    client.eval(ACQUIRE, 1, "k1", "c1:7", 10_000)
    told = follow(stream, lambda told: len(told) == 1)
    for script in (ACQUIRE, RELEASE):
        client.eval(script, 1, "k1", "c1:7", 60_000)
        told += follow(stream, lambda told: len(told) == 1)
    client.pexpire("k1", 90_000)
    told += follow(stream, lambda told: len(told) == 1)
    assert [(e.event, e.value) for e in told] == [("set", "c1:7"), *[("prolonged", "c1:7")] * 3]
    assert [e.ttl_ms is not None and e.ttl_ms > 50_000 for e in told] == [False, True, True, True]


def test_counts_that_change_before_the_key_is_read_change_no_owner(stream: KeyEventStream, server: Server) -> None:
    with server.client().pipeline(transaction=True) as all_at_once:
        for script in (ACQUIRE, ACQUIRE, RELEASE):
            all_at_once.eval(script, 1, "k1", "c1:7", 60_000)
        all_at_once.execute()
    told = follow(stream, lambda told: len(told) == 3)
    with server.client().pipeline(transaction=True) as all_at_once:
        all_at_once.eval(RELEASE, 1, "k1", "c1:7", 60_000)
        all_at_once.delete("k1")
        all_at_once.execute()
    told += follow(stream, lambda told: len(told) == 2)
    assert [(e.event, e.value) for e in told] == [
        ("set", "c1:7"),
        *[("prolonged", "c1:7")] * 2,
        ("prolonged", None),
        ("deleted", None),
    ]


def test_a_second_field_and_a_field_that_goes_are_other_values(stream: KeyEventStream, server: Server) -> None:
    client = server.client()
    client.hset("k1", "c1", 1)
    told = follow(stream, lambda told: len(told) == 1)
    client.hset("k1", "c2", 1)
    told += follow(stream, lambda told: len(told) == 1)
    client.hdel("k1", "c1")
    told += follow(stream, lambda told: len(told) == 1)
    assert [(e.event, e.value) for e in told] == [("set", "c1"), ("set", "c1, c2"), ("set", "c2")]


def test_keys_that_were_there_before_are_seen_with_their_values_of_any_type(server: Server) -> None:
    client = server.client()
    client.flushall()
    client.set("text", "v1", px=60_000)
    client.set("bytes", b"\xff\x01")
    client.hset("hash", "c1:7", 1)
    client.sadd("set", "member")
    stream = KeyEventStream("n1", Address(server.address.host, server.address.port))
    told = follow(stream, lambda told: any(event.event == "watching" for event in told))
    stream.close()
    seen = {event.key: (event.value, event.is_hash) for event in told if event.event == "seen"}
    assert seen == {"text": ("v1", False), "bytes": ("0xff01", False), "hash": ("c1:7", True), "set": (None, False)}
    assert told[-1].event == "watching", "everything that was there comes before it"


def test_a_key_that_is_prolonged_before_it_is_listed_is_seen_all_the_same(server: Server) -> None:
    client = server.client()
    client.flushall()
    client.set("text", "v1", px=60_000)
    client.hset("hash", "c1:7", 1)
    stream = KeyEventStream("n1", Address(server.address.host, server.address.port))

    def is_listed(told: list[KeyEvent]) -> bool:
        client.pexpire("text", 60_000)
        client.pexpire("hash", 60_000)
        return any(event.event == "watching" for event in told)

    told = follow(stream, is_listed)
    stream.close()
    before = told[: next(place for place, event in enumerate(told) if event.event == "watching")]
    assert {event.key for event in before if event.event == "prolonged"} == {"text", "hash"}
    assert sorted((e.key, e.value) for e in before if e.event == "seen") == [("hash", "c1:7"), ("text", "v1")]


def test_a_node_that_is_down_is_dialled_at_every_look() -> None:
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        stream = KeyEventStream("n1", Address(*port.getsockname()))
        stream.upkeep(0)
        if stream.wants:
            assert sockets_of(stream).poll(10_000)
            stream.advance()
        assert not stream.wants, "refused"
        port.listen()
        stream.upkeep(1)
        assert stream.wants
        stream.close()


def test_a_node_that_lets_a_dial_hang_is_dialled_anew() -> None:
    with socket.socket() as port, ExitStack() as others:
        port.bind(("127.0.0.1", 0))
        port.listen(0)
        address = Address(*port.getsockname())
        # The kernel takes one more than the backlog, and leaves all others without an answer.
        others.enter_context(socket.create_connection(address, timeout=10))
        stream = KeyEventStream("n1", address)
        stream.upkeep(0)
        hanging = set(stream.wants)
        assert hanging
        stream.upkeep(CONNECTS_WITHIN_NS - 1)
        assert set(stream.wants) == hanging
        stream.upkeep(CONNECTS_WITHIN_NS)
        assert not stream.wants
        stream.upkeep(CONNECTS_WITHIN_NS + 1)
        assert stream.wants
        stream.close()


def test_a_node_that_accepts_and_hangs_up_is_dialled_less_often() -> None:
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        port.listen()
        stream = KeyEventStream("n1", Address(*port.getsockname()))
        stream.upkeep(0)
        port.accept()[0].close()
        deadline = time.monotonic() + 10
        while stream.wants:
            assert time.monotonic() < deadline
            assert sockets_of(stream).poll(10_000)
            stream.advance()
        stream.upkeep(REDIAL_NS - 1)
        assert not stream.wants
        stream.upkeep(REDIAL_NS)
        assert stream.wants
        stream.close()

"""Which request changed a key, as a real server tells it."""

from __future__ import annotations

import hashlib

import pytest
import redis

from cluster.address import Address
from cluster.key_causes import Cause, Flush, KeyCauses, digest_of
from cluster.key_events import KeyEventStream
from cluster.polling import becomes_true
from fencepost.history import KeyEvent
from tests.cluster.key_streams import follow
from tests.locks.conftest import Server

TAKE_OVER = "redis.call('del', KEYS[1]) redis.call('set', KEYS[2], ARGV[1]) return 1"
AT = b"1795710917.152589 [0 127.0.0.1:%s] %s"


class Peer:
    """A client with one connection."""

    def __init__(self, server: Server, database: int = 0) -> None:
        self.connection = redis.Connection(host=server.address.host, port=server.address.port, db=database)
        self.connection.connect()
        self.port = self.connection._sock.getsockname()[1]  # type: ignore[attr-defined]

    def send(self, *words: object) -> None:
        self.connection.send_command(*words)

    def ask(self, *words: object) -> object:
        self.send(*words)
        return self.connection.read_response()


def asked(event: KeyEvent) -> tuple[str, str, int | None, int | None, str | None]:
    return event.event, event.key, event.port, event.digest, event.command


def told(stream: KeyEventStream, number: int) -> list[tuple[str, str, int | None, int | None, str | None]]:
    return [asked(event) for event in follow(stream, lambda told: len(told) == number)]


def test_each_of_two_clients_is_named(stream: KeyEventStream, server: Server) -> None:
    first, second = Peer(server), Peer(server)
    first.ask("set", "k1", 'a b\n"c"\\ \u00e9', "NX")
    second.ask("SET", "k1", "other", "NX")
    second.ask("DEL", "k1")
    assert told(stream, 2) == [
        ("set", "k1", first.port, digest_of(["SET", "k1", 'a b\n"c"\\ \u00e9', "NX"]), "SET"),
        ("deleted", "k1", second.port, digest_of(["DEL", "k1"]), "DEL"),
    ]


def test_a_request_that_changes_two_keys_is_named_for_both(stream: KeyEventStream, server: Server) -> None:
    peer = Peer(server)
    peer.ask("MSET", "k1", "a", "k2", "b")
    digest = digest_of(["MSET", "k1", "a", "k2", "b"])
    assert told(stream, 2) == [("set", key, peer.port, digest, "MSET") for key in ("k1", "k2")]


def test_what_a_script_calls_is_its_caller_s(stream: KeyEventStream, server: Server) -> None:
    peer = Peer(server)
    peer.ask("SET", "k1", "a")
    sha = hashlib.sha1(TAKE_OVER.encode()).hexdigest()
    peer.ask("EVAL", TAKE_OVER, 2, "k1", "k2", "b")
    peer.ask("EVALSHA", sha, 2, "k2", "k3", "c")
    by_text, by_name = (
        digest_of([name, sha, "2", *keys]) for name, *keys in (("EVAL", "k1", "k2", "b"), ("EVALSHA", "k2", "k3", "c"))
    )
    assert told(stream, 5)[1:] == [
        ("deleted", "k1", peer.port, by_text, "DEL"),
        ("set", "k2", peer.port, by_text, "SET"),
        ("deleted", "k2", peer.port, by_name, "DEL"),
        ("set", "k3", peer.port, by_name, "SET"),
    ]


def test_the_requests_of_a_transaction_are_told_apart(stream: KeyEventStream, server: Server) -> None:
    peer, other = Peer(server), Peer(server)
    peer.ask("MULTI")
    peer.ask("SET", "k1", "a")
    peer.ask("DEL", "k1")
    other.ask("SET", "k1", "b")
    peer.ask("EXEC")
    assert [(event, port) for event, _, port, _, _ in told(stream, 3)] == [
        ("set", other.port),
        ("set", peer.port),
        ("deleted", peer.port),
    ]


def test_requests_of_the_same_words_have_places(stream: KeyEventStream, server: Server) -> None:
    peer = Peer(server)
    peer.ask("SET", "k1", "a")
    for _ in range(3):
        peer.ask("SETNX", "k2", "a")
        peer.ask("DEL", "k2")
    events = follow(stream, lambda told: len(told) == 7)
    places = [event.place for event in events]
    assert None not in places
    assert places == [places[0] + number for number in range(7)]  # type: ignore[operator]


def test_a_client_that_waits_is_named_when_it_gets_what_it_waits_for(stream: KeyEventStream, server: Server) -> None:
    waiting, giving, polling = Peer(server), Peer(server), Peer(server)
    waiting.send("BLPOP", "queue", 0)
    assert becomes_true(lambda: server.client().info("clients")["blocked_clients"] == 1, within_s=10)
    giving.ask("RPUSH", "queue", "token")
    polling.ask("LPOP", "queue")
    waiting.connection.read_response()
    assert [(event, port, command) for event, _, port, _, command in told(stream, 3)] == [
        ("changed", giving.port, "RPUSH"),
        ("changed", waiting.port, "BLPOP"),
        ("deleted", waiting.port, "BLPOP"),
    ]


def test_a_client_that_gave_up_waiting_is_not_named(stream: KeyEventStream, server: Server) -> None:
    waiting, other = Peer(server), Peer(server)
    assert waiting.ask("BLPOP", "queue", 0.05) is None
    other.ask("RPUSH", "queue", "token")
    other.ask("LPOP", "queue")
    assert [(event, port) for event, _, port, _, _ in told(stream, 3)] == [
        ("changed", other.port),
        ("changed", other.port),
        ("deleted", other.port),
    ]


def test_a_blocking_command_that_need_not_wait_waits_for_nothing(stream: KeyEventStream, server: Server) -> None:
    first, other = Peer(server), Peer(server)
    other.ask("RPUSH", "queue", "a")
    first.ask("BLPOP", "queue", 0)
    other.ask("RPUSH", "queue", "b")
    other.ask("LPOP", "queue")
    assert [port for _, _, port, _, _ in told(stream, 6)] == [other.port, first.port, first.port, *[other.port] * 3]


def test_what_expires_was_no_request(stream: KeyEventStream, server: Server) -> None:
    peer = Peer(server)
    peer.ask("SET", "k1", "a", "PX", 1)
    assert becomes_true(lambda: peer.ask("GET", "k1") is None, within_s=10)
    assert told(stream, 2)[1] == ("expired", "k1", None, None, None)


def test_keys_of_other_databases_are_seen_and_read(stream: KeyEventStream, server: Server) -> None:
    peer = Peer(server, database=3)
    peer.ask("SET", "k1", "a", "PX", 60_000)
    (event,) = follow(stream, lambda told: len(told) == 1)
    assert (event.key, event.value, event.port) == ("k1 (database 3)", "a", peer.port)
    assert event.ttl_ms is not None
    again = KeyEventStream("n1", Address(server.address.host, server.address.port))
    seen = follow(again, lambda told: any(event.event == "watching" for event in told))
    again.close()
    assert next((event.event, event.key, event.value) for event in seen) == ("seen", "k1 (database 3)", "a")


def test_what_empties_a_database_deletes_each_of_its_keys(stream: KeyEventStream, server: Server) -> None:
    peer, other = Peer(server), Peer(server, database=3)
    peer.ask("SET", "k1", "a")
    other.ask("SET", "k2", "a")
    follow(stream, lambda told: len(told) == 2)
    peer.ask("FLUSHDB")
    assert told(stream, 1) == [("deleted", "k1", peer.port, digest_of(["FLUSHDB"]), "FLUSHDB")]
    peer.ask("EVAL", "redis.call('flushall')", 0)
    assert [(event, key, port, command) for event, key, port, _, command in told(stream, 1)] == [
        ("deleted", "k2 (database 3)", peer.port, "FLUSHALL")
    ]


def test_a_notification_that_no_request_explains_has_no_cause() -> None:
    causes = KeyCauses()
    causes.notified(b"del", b"k1")
    causes.line(AT % (b"5", b'"PING"'))
    assert list(causes.found) == [None]


def test_what_was_emptied_comes_in_its_place_among_the_causes() -> None:
    causes = KeyCauses()
    causes.notified(b"set", b"k1")
    causes.line(AT % (b"5", b'"SET" "k1" "a"'))
    causes.line(AT % (b"6", b'"flushall" "ASYNC"'))
    assert list(causes.found) == [
        Cause(5, digest_of(["SET", "k1", "a"]), "SET", 0, ("k1", "a")),
        Flush(None, Cause(6, digest_of(["FLUSHALL", "ASYNC"]), "FLUSHALL", 0, ("ASYNC",))),
    ]


@pytest.mark.parametrize(
    ("line", "port"),
    [(b'1795710917.3 [0 127.0.0.1:7] "PING"', 5), (b'1795710917.3 [0 127.0.0.1:7] "LPOP" "queue"', 7)],
)
def test_a_server_ends_a_wait_a_little_late(line: bytes, port: int) -> None:
    """The wait of 50 ms should have ended at .25: it may have got the token, unless another client took it."""
    causes = KeyCauses()
    causes.line(b'1795710917.2 [0 127.0.0.1:5] "BLPOP" "queue" "0.05"')
    causes.notified(b"rpush", b"queue")
    causes.line(b'1795710917.29 [0 127.0.0.1:6] "RPUSH" "queue" "token"')
    causes.notified(b"lpop", b"queue")
    causes.line(line)
    assert [cause.port for cause in causes.found if isinstance(cause, Cause)] == [6, port]


def test_what_is_pushed_after_a_client_was_served_is_the_pushers() -> None:
    causes = KeyCauses()
    causes.line(AT % (b"5", b'"BLPOP" "queue" "0"'))
    for port in (6, 7):
        causes.notified(b"rpush", b"queue")
        causes.line(AT % (b"%d" % port, b'"RPUSH" "queue" "token"'))
        if port == 6:
            causes.notified(b"lpop", b"queue")
            causes.notified(b"del", b"queue")
    assert [cause.port for cause in causes.found if isinstance(cause, Cause)] == [6, 5, 5, 7]

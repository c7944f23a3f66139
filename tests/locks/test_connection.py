"""The connections, against a real server and against one that misbehaves."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import hiredis
import pytest

from tests.locks.conftest import Server, free_port, redis_at
from workloads.connection import MAX_OWED, SILENT, ConnectionPool, pack

TIMEOUT_MS = 500.0
"""For requests that nobody answers, of which some say how long they take: a busy machine has as long again."""
LONG_MS = 10_000.0
"""For requests that are answered: a busy machine alone must not make a server silent."""


class FakeServer:
    """A listener; a test accepts the connections and chooses each byte of the replies."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(LONG_MS / 1e3)
        self.address = redis_at(*self.listener.getsockname())
        self.connections: list[socket.socket] = []

    def accept(self) -> socket.socket:
        connection, _ = self.listener.accept()
        connection.settimeout(LONG_MS / 1e3)
        self.connections.append(connection)
        return connection

    def open_pool(self) -> tuple[ConnectionPool, socket.socket]:
        """A ConnectionPool to only this server, with its PING answered, and this server's end of the connection."""
        ends: list[socket.socket] = []

        def answer_ping() -> None:
            ends.append(self.accept())
            assert ends[0].recv(100) == pack("PING")
            ends[0].sendall(b"+PONG\r\n")

        thread = threading.Thread(target=answer_ping)
        thread.start()
        pool = ConnectionPool([self.address], LONG_MS)
        thread.join()
        pool.timeout_ms = TIMEOUT_MS
        return pool, ends[0]

    def close(self) -> None:
        for connection in self.connections:
            connection.close()
        self.listener.close()


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    server = FakeServer()
    yield server
    server.close()


def answering(end: socket.socket, requests: bytes, answer: bytes, pause_s: float = 0) -> threading.Thread:
    """In a separate thread: waits for exactly these requests, then replies, byte by byte if there is a pause."""

    def run() -> None:
        expect(end, requests)
        for part in [answer[i : i + 1] for i in range(len(answer))] if pause_s else [answer]:
            end.sendall(part)
            time.sleep(pause_s)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def expect(end: socket.socket, requests: bytes) -> None:
    """Receive exactly these bytes."""
    received = b""
    while len(received) < len(requests):
        received += end.recv(len(requests) - len(received))
    assert received == requests


def elapsed_ms(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return (time.monotonic() - began) * 1e3


def test_real_servers_replies_are_in_the_nodes_order(servers: list[Server]) -> None:
    for number, server in enumerate(servers):
        server.client().set("who", number)
    pool = ConnectionPool([server.address for server in servers], LONG_MS)
    assert pool.ask(pack("GET", "who")) == [b"0", b"1", b"2", b"3", b"4"]
    assert pool.ask(pack("GET", "who"), only=3) == [b"3"]
    assert pool.ask(pack("GET", "nothing"), only=0) == [None]
    pool.close()


def test_a_servers_error_is_a_reply(servers: list[Server]) -> None:
    pool = ConnectionPool([servers[0].address], LONG_MS)
    [reply] = pool.ask(pack("NONSENSE"))
    assert isinstance(reply, hiredis.ReplyError)
    assert pool.ask(pack("PING")) == [b"PONG"]
    pool.close()


def test_a_late_reply_is_not_the_answer_to_the_next_request(fake: FakeServer) -> None:
    pool, end = fake.open_pool()
    assert pool.ask(pack("GET", "a")) == [SILENT]
    assert pool.ask(pack("GET", "b")) == [SILENT]
    requests = pack("GET", "a") + pack("GET", "b") + pack("GET", "c")
    thread = answering(end, requests, b"$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n")
    pool.timeout_ms = LONG_MS
    assert pool.ask(pack("GET", "c")) == [b"c"]
    thread.join()
    pool.close()


def test_a_late_reply_is_discarded_even_if_it_arrives_between_two_requests(fake: FakeServer) -> None:
    pool, end = fake.open_pool()
    assert pool.ask(pack("GET", "a")) == [SILENT]
    expect(end, pack("GET", "a"))
    end.sendall(b"$1\r\na\r\n")
    assert pool.ask(pack("GET", "b")) == [SILENT]
    expect(end, pack("GET", "b"))
    pool.close()


def test_a_connection_that_closed_behind_a_late_reply_costs_no_request(fake: FakeServer) -> None:
    pool, end = fake.open_pool()
    assert pool.ask(pack("GET", "a")) == [SILENT]
    expect(end, pack("GET", "a"))
    end.sendall(b"$1\r\na\r\n")
    end.close()
    asked = list[bytes]()

    def answer() -> None:
        again = fake.accept()
        asked.append(again.recv(100))
        again.sendall(b"$1\r\nb\r\n")

    thread = threading.Thread(target=answer)
    thread.start()
    pool.timeout_ms = LONG_MS
    assert pool.ask(pack("GET", "b")) == [b"b"]
    thread.join()
    assert asked == [pack("GET", "b")]
    pool.close()


def test_a_partial_late_reply_is_discarded_with_its_remainder(fake: FakeServer) -> None:
    pool, end = fake.open_pool()
    assert pool.ask(pack("GET", "a")) == [SILENT]
    end.sendall(b"$4\r\nla")
    assert pool.ask(pack("GET", "b")) == [SILENT]
    end.sendall(b"te\r\n")
    assert pool.ask(pack("GET", "c")) == [SILENT]
    end.sendall(b"$1\r\nb\r\n")
    requests = b"".join(pack("GET", name) for name in "abcd")
    thread = answering(end, requests, b"$1\r\nc\r\n$1\r\nd\r\n")
    pool.timeout_ms = LONG_MS
    assert pool.ask(pack("GET", "d")) == [b"d"]
    thread.join()
    pool.close()


def test_a_reply_that_arrives_byte_by_byte_is_assembled(fake: FakeServer) -> None:
    pool, end = fake.open_pool()
    pool.timeout_ms = LONG_MS
    thread = answering(end, pack("GET", "a"), b"$5\r\nhello\r\n", pause_s=0.002)
    assert pool.ask(pack("GET", "a")) == [b"hello"]
    thread.join()
    pool.close()


def test_a_reply_that_never_ends_takes_no_longer_than_the_timeout(fake: FakeServer) -> None:
    pool, end = fake.open_pool()
    stop = threading.Event()

    def flood() -> None:
        end.sendall(b"$100000000\r\n")
        try:
            while not stop.is_set():
                end.sendall(b"x" * 1000)
        except OSError:
            pass

    thread = threading.Thread(target=flood)
    thread.start()
    assert elapsed_ms(lambda: pool.ask(pack("GET", "a"))) < TIMEOUT_MS * 2
    pool.close()
    stop.set()
    thread.join()


def test_silence_costs_exactly_the_timeout(fake: FakeServer) -> None:
    pool, _ = fake.open_pool()
    assert TIMEOUT_MS <= elapsed_ms(lambda: pool.ask(pack("PING"))) < TIMEOUT_MS * 2
    pool.close()


def test_an_impatient_request_does_not_wait_again_for_a_node_that_owes_a_reply(fake: FakeServer) -> None:
    pool, end = fake.open_pool()
    assert pool.ask(pack("SET", "k", "v")) == [SILENT]
    assert elapsed_ms(lambda: pool.ask(pack("DEL", "k"), patient=False)) < TIMEOUT_MS / 2
    expect(end, pack("SET", "k", "v") + pack("DEL", "k"))
    pool.close()


def test_a_node_that_owes_too_many_replies_is_reconnected(fake: FakeServer) -> None:
    pool, end = fake.open_pool()
    for _ in range(MAX_OWED):
        pool.ask(pack("GET", "old"), patient=False)
    fake.listener.settimeout(0)
    with pytest.raises(BlockingIOError):
        fake.accept()
    fake.listener.settimeout(LONG_MS / 1e3)
    threads: list[threading.Thread] = []
    accepting = threading.Thread(
        target=lambda: threads.append(answering(fake.accept(), pack("GET", "new"), b"$1\r\n!\r\n"))
    )
    accepting.start()
    pool.timeout_ms = LONG_MS
    assert pool.ask(pack("GET", "new")) == [b"!"]
    accepting.join()
    threads[0].join()
    expect(end, pack("GET", "old") * MAX_OWED)
    assert end.recv(1) == b"", "the old connection is closed"
    pool.close()


@pytest.mark.parametrize("nonsense", [b"HTTP/1.1 400 Bad Request\r\n", b"+OK\r\n+one too many\r\n", b""])
def test_a_node_that_sends_nonsense_or_closes_is_reconnected(fake: FakeServer, nonsense: bytes) -> None:
    pool, end = fake.open_pool()
    pool.timeout_ms = LONG_MS

    def answer_and_close() -> None:
        end.recv(100)
        end.sendall(nonsense)
        end.close()

    thread = threading.Thread(target=answer_and_close)
    thread.start()
    assert pool.ask(pack("SET", "k", "v")) in ([SILENT], [b"OK"])
    thread.join()
    fresh = threading.Thread(target=lambda: answering(fake.accept(), pack("PING"), b"+NEW\r\n").join())
    fresh.start()
    assert pool.ask(pack("PING")) == [b"NEW"]
    fresh.join()
    pool.close()


def test_a_connection_that_closed_while_idle_costs_no_request(servers: list[Server]) -> None:
    pool = ConnectionPool([servers[0].address], LONG_MS)
    servers[0].client().client_kill_filter(_type="normal", skipme=True)
    assert pool.ask(pack("PING")) == [b"PONG"]
    pool.close()


def test_a_node_that_refuses_counts_as_silent_immediately_and_does_not_delay_the_others(servers: list[Server]) -> None:
    nobody = redis_at("127.0.0.1", free_port())
    pool = ConnectionPool([nobody, servers[0].address], LONG_MS)
    assert elapsed_ms(lambda: pool.ask(pack("PING"))) < LONG_MS / 2
    assert pool.ask(pack("PING")) == [SILENT, b"PONG"]
    pool.close()


def test_a_request_whose_connection_is_not_open_in_time_is_never_sent() -> None:
    # A full backlog: the kernel neither accepts nor refuses, like a host that cannot be reached.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, socket.socket() as filler:
        filler.connect(listener.getsockname())
        pool = ConnectionPool([redis_at(*listener.getsockname())], TIMEOUT_MS)
        assert TIMEOUT_MS <= elapsed_ms(lambda: pool.ask(pack("SET", "k", "v"))) < TIMEOUT_MS * 2
        listener.settimeout(10)
        listener.accept()[0].close()
        end, _ = listener.accept()  # the kernel has gone on dialling
        end.settimeout(LONG_MS / 1e3)
        thread = answering(end, pack("PING"), b"+PONG\r\n")
        pool.timeout_ms = LONG_MS
        assert pool.ask(pack("PING")) == [b"PONG"]
        thread.join()
        end.close()
        pool.close()

"""Requests of one batch keep their order, batches do not wait for each other, and nothing is waited for without end."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest

from cluster.base import never
from cluster.http_batch import Request, carry_out

Answer = Callable[[str], bytes | None]
Serve = Callable[[Answer], Path]


class _Server(socketserver.ThreadingUnixStreamServer):
    request_queue_size = 128
    daemon_threads = True


@pytest.fixture
def serve(socket_folder: Path) -> Iterator[Serve]:
    """A server that answers each path with these bytes, and hangs for None until the test ends."""
    over, servers = threading.Event(), list[_Server]()

    def start(answer: Answer) -> Path:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while line := self.rfile.readline():
                    length = 0
                    while (header := self.rfile.readline()) != b"\r\n":
                        if header.lower().startswith(b"content-length:"):
                            length = int(header.partition(b":")[2])
                    self.rfile.read(length)
                    reply = answer(line.split()[1].decode())
                    if reply is None:
                        over.wait()
                        return
                    self.wfile.write(reply)

        path = socket_folder / f"{len(servers)}.sock"
        server = _Server(str(path), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return path

    yield start
    over.set()
    for server in servers:
        server.shutdown()
        server.server_close()


def whole(text: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


def get(path: str) -> Request:
    return Request("GET", path)


def test_replies_come_in_the_order_of_their_requests_for_many_batches(serve: Serve) -> None:
    path = serve(whole)
    batches = [[get(f"/{batch}/{place}") for place in range(3)] for batch in range(200)]
    replies = carry_out(path, batches, 10, never)
    assert [[reply.content.decode() for reply in own or ()] for own in replies] == [
        [request.path for request in batch] for batch in batches
    ]


@pytest.mark.parametrize("size", [0, 1, 70_000])
def test_a_body_may_come_in_chunks(serve: Serve, size: int) -> None:
    def answer(path: str) -> bytes:
        chunks = [b"x" * size, b"end"] if size else [b"end"]
        body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"

    (replies,) = carry_out(serve(answer), [[get("/1"), get("/2")]], 10, never)
    assert replies is not None
    assert [reply.content for reply in replies] == [b"x" * size + b"end"] * 2


def test_a_batch_that_hangs_is_given_up_and_keeps_no_other_from_its_end(serve: Serve) -> None:
    path = serve(lambda path: None if path == "/hangs" else whole(path))
    for limit_s in (0.3, 0.6, 1.2, 2.4, 4.8):  # a busy machine may need longer for the others
        began = monotonic()
        replies = carry_out(path, [[get("/hangs")], *[[get("/works")]] * 100], limit_s, never)
        assert limit_s <= monotonic() - began < limit_s + 10
        assert replies[0] is None
        if all(replies[1:]):
            break
    assert all(replies[1:])


def test_work_that_is_called_off_ends_at_once(serve: Serve) -> None:
    asked = iter([False, True])
    limit_s, began = 60, monotonic()
    assert carry_out(serve(lambda path: None), [[get("/hangs")]], limit_s, lambda: next(asked)) == [None]
    assert monotonic() - began < limit_s


@pytest.mark.parametrize("reply", [b"", b"SSH-2.0-nothing\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_server_that_hangs_up_or_speaks_something_else_is_an_error(socket_folder: Path, reply: bytes) -> None:
    path = socket_folder / "server.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(OSError, match="closed the connection" if not reply else "no reply of HTTP"):
            carry_out(path, [[get("/")]], 10, never)
        thread.join()

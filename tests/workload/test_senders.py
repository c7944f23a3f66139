"""Which task sent which bytes, as the sockets of a process note it: real connections over loopback."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost.history import Sender
from workloads.calling import calling
from workloads.senders import SenderLog


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection over TCP, whose first end the process under test has."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as own:
        other, _ = server.accept()
        with other:
            yield own, other


def of_task(task: str | None, call: Callable[[], object]) -> None:
    """In a thread of its own, this task calls the lock, which does that."""

    def run() -> None:
        with nullcontext() if task is None else calling(task):
            call()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def notes(log: Path) -> list[tuple[int, str | None]]:
    lines = [msgspec.json.decode(line, type=Sender) for line in log.read_bytes().splitlines()]
    return [(line.after_bytes, line.task) for line in lines]


def test_a_note_stands_before_the_bytes_of_another_task(
    tmp_path: Path, pair: tuple[socket.socket, socket.socket]
) -> None:
    own, _ = pair
    with SenderLog(tmp_path / "log"):
        for task, send in (("c1@1", own.send), ("c1@1", own.sendall), ("c1@2", own.sendall), ("c1@1", own.send)):
            of_task(task, partial(send, b"12345"))
        of_task("c1@2", lambda: own.sendmsg([b"123", b"45"]))
    assert notes(tmp_path / "log") == [(0, "c1@1"), (10, "c1@2"), (15, "c1@1"), (20, "c1@2")]
    port = own.getsockname()[1]
    assert {msgspec.json.decode(line, type=Sender).port for line in (tmp_path / "log").read_bytes().splitlines()} == {
        port
    }


def test_what_a_thread_of_the_lock_sends_is_of_no_task(
    tmp_path: Path, pair: tuple[socket.socket, socket.socket]
) -> None:
    own, _ = pair
    with SenderLog(tmp_path / "log"):
        of_task("c1@1", lambda: own.sendall(b"12345"))
        of_task(None, lambda: own.sendall(b"12345"))
    assert notes(tmp_path / "log") == [(0, "c1@1"), (5, None)]


def test_bytes_that_may_not_all_have_left_end_what_is_known(
    tmp_path: Path, pair: tuple[socket.socket, socket.socket]
) -> None:
    own, _ = pair
    own.setblocking(False)

    def overfill() -> None:
        with pytest.raises(BlockingIOError):
            own.sendall(b"x" * 20_000_000)

    with SenderLog(tmp_path / "log"):
        of_task("c1@1", lambda: own.send(b"12345"))
        of_task("c1@1", overfill)
        own.setblocking(True)
        of_task("c1@2", lambda: own.send(b""))
    assert notes(tmp_path / "log") == [(0, "c1@1"), (5, None)]


def test_of_two_threads_that_send_at_once_nothing_is_known(
    tmp_path: Path, pair: tuple[socket.socket, socket.socket]
) -> None:
    own, other = pair
    with SenderLog(tmp_path / "log"):
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        size = 2_000_000
        first = threading.Thread(target=of_task, args=("c1@1", lambda: own.sendall(b"x" * size)))
        first.start()
        other.recv(1)  # it is sending now, and waits for room
        second = threading.Thread(target=of_task, args=("c1@2", lambda: own.sendall(b"yy")))
        second.start()
        left = size + 1
        while left > 0:
            left -= len(other.recv(1 << 20))
        first.join()
        second.join()
    assert notes(tmp_path / "log") == [(0, "c1@1"), (0, None)]


def test_a_coroutine_sends_for_the_call_that_began_it_while_that_is_under_way(
    tmp_path: Path, pair: tuple[socket.socket, socket.socket]
) -> None:
    own, _ = pair
    own.setblocking(False)
    loop, is_over = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_forever)
    outliving = list[asyncio.Task[None]]()

    async def send() -> None:
        await loop.sock_sendall(own, b"12345")

    async def outlive() -> None:
        await is_over.wait()
        await send()

    async def call() -> None:
        outliving.append(asyncio.create_task(outlive()))
        await send()

    async def end() -> None:
        is_over.set()
        await outliving[0]

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    thread.start()
    with SenderLog(tmp_path / "log"):
        of_task("c1@1", lambda: run(call()))
        of_task("c1@2", lambda: run(send()))
        run(end())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert notes(tmp_path / "log") == [(0, "c1@1"), (5, "c1@2"), (10, None)]


def test_a_thread_and_a_job_of_a_pool_send_for_the_call_that_began_them(
    tmp_path: Path, pair: tuple[socket.socket, socket.socket]
) -> None:
    own, _ = pair
    with SenderLog(tmp_path / "log"), ThreadPoolExecutor(1) as pool:

        def in_thread() -> None:
            thread = threading.Thread(target=own.sendall, args=(b"12345",))
            thread.start()
            thread.join()

        of_task("c1@1", lambda: pool.submit(own.sendall, b"12345").result())
        of_task("c1@2", lambda: pool.submit(own.sendall, b"12345").result())
        of_task("c1@1", in_thread)
        of_task(None, lambda: pool.submit(own.sendall, b"12345").result())
    assert notes(tmp_path / "log") == [(0, "c1@1"), (5, "c1@2"), (10, "c1@1"), (15, None)]


def test_sockets_are_as_before_when_it_is_left(tmp_path: Path) -> None:
    def methods() -> list[Any]:
        of_sockets = [getattr(socket.socket, name) for name in ("send", "sendall", "sendmsg")]
        return [*of_sockets, threading.Thread.start, ThreadPoolExecutor.submit]

    before = methods()
    with SenderLog(tmp_path / "log"):
        assert not set(methods()) & set(before)
    assert methods() == before

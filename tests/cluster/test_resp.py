"""What may come back from a server that is asked directly, and how long it may take."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from cluster.address import Address
from cluster.registry import server_named
from cluster.resp import Exchange, ask, encode, exchange_all

Fake = Callable[[bytes | None], Address]


@pytest.fixture
def fake() -> Iterator[Fake]:
    """A server that answers the first request on each connection with these bytes and then hangs (empty: it closes the
    connection; None: it never answers)."""
    opened: list[socket.socket] = []

    def serve(answer: bytes | None) -> Address:
        listener = socket.create_server(("127.0.0.1", 0))
        opened.append(listener)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                opened.append(connection)
                connection.recv(1000)
                if answer:
                    with contextlib.suppress(OSError):  # whoever has read enough may hang up, and the test may be over
                        for byte in answer:  # one at a time: replies come in pieces
                            connection.sendall(bytes([byte]))
                elif answer is not None:
                    connection.close()

        threading.Thread(target=accept, daemon=True).start()
        return Address(*listener.getsockname())

    yield serve
    for each in opened:
        each.close()


def test_replies_that_come_in_pieces_are_put_together_and_errors_are_values(fake: Fake) -> None:
    first, second = ask(fake(b"$5\r\nv\xffl\r\n\r\n-ERR no\r\n"), ("GET", "k"), ("NO",), timeout_ms=2_000)
    assert first == "v\ufffdl\r\n"
    assert str(second) == "ERR no"


@pytest.mark.parametrize(
    ("answer", "error"), [(b"HTTP/1.1 400\r\n", ConnectionAbortedError), (b"", ConnectionResetError)]
)
def test_a_server_that_makes_no_sense_or_hangs_up_is_an_error(fake: Fake, answer: bytes, error: type[OSError]) -> None:
    address = fake(answer)
    with pytest.raises(error):
        ask(address, ("PING",), timeout_ms=2_000)
    assert not server_named("redis").answers(address, 2_000)


def test_silence_is_a_time_out_after_the_time_and_not_before(fake: Fake) -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        ask(fake(b"+PO"), ("PING",), timeout_ms=150)
    assert 0.15 <= time.monotonic() - began < 2


def test_nobody_there_is_refused() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            ask(Address(*held.getsockname()), ("PING",), timeout_ms=1_000)


def test_one_silent_server_does_not_hold_up_the_clock_of_another(fake: Fake) -> None:
    silent, quick = (Exchange(fake(answer), encode("PING")) for answer in (None, b"+PONG\r\n"))
    exchange_all([silent, quick], timeout_ms=3_000)
    assert quick.replies == [b"PONG"]
    assert quick.elapsed_ms < 1_500
    assert not silent.is_over
    assert silent.elapsed_ms >= 2_999
    silent.close()
    quick.close()

"""Many small HTTP requests to one server at a Unix socket, carried out together.

A change of 400 links is a thousand requests. One after the other, each waits for a busy machine to schedule the server
and then its client; sent together, they all wait once. Requests that must keep their order form a batch: it is sent in
one go over one connection (HTTP calls that pipelining), and the server answers in order. Batches do not wait for each
other, except for one of a few connections.

Just enough of HTTP/1.1 for that: statuses, and bodies of a known length or in chunks.
"""

from __future__ import annotations

import json
import selectors
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from cluster.unix_socket import dialled

_AT_ONCE = 64
_READ_BYTES = 1 << 16
_LOOK_EVERY_S = 0.05
_DIAL_S = 1.0
"""How long a server may take to make room among the clients that wait to be accepted."""
_HEAD_END = b"\r\n\r\n"


class Request(NamedTuple):
    method: str
    path: str
    body: object = None
    """As a JSON value; None for a request without a body."""


class Reply(NamedTuple):
    """With the names that `requests` uses, so that its users can take it."""

    request: Request
    status_code: int
    content: bytes


def carry_out(
    path: Path, batches: Sequence[Sequence[Request]], within_s: float, called_off: Callable[[], bool]
) -> list[list[Reply] | None]:
    """The replies to each batch, or None for one that was not over when the time was up or the work was called off.

    What was sent by then may still be carried out. Raises OSError if the server cannot be dialled, hangs up, or answers
    with something else than HTTP.
    """
    deadline_s = monotonic() + within_s
    replies: list[list[Reply] | None] = [[] if not batch else None for batch in batches]
    waiting = [number for number, batch in reversed(list(enumerate(batches))) if batch]
    with selectors.DefaultSelector() as selector:
        conversations = []
        try:
            for _ in range(min(_AT_ONCE, len(waiting))):
                conversation = _Conversation(path)
                conversations.append(conversation)
                conversation.begin(number := waiting.pop(), batches[number])
                selector.register(conversation.socket, conversation.wants, conversation)
            while selector.get_map() and (left_s := deadline_s - monotonic()) > 0 and not called_off():
                for key, _ in selector.select(min(left_s, _LOOK_EVERY_S)):
                    conversation = key.data
                    conversation.advance()
                    if conversation.is_over:
                        replies[conversation.number] = conversation.replies
                        if not waiting:
                            selector.unregister(conversation.socket)
                            continue
                        conversation.begin(number := waiting.pop(), batches[number])
                    selector.modify(conversation.socket, conversation.wants, conversation)
        finally:
            for conversation in conversations:
                conversation.socket.close()
    return replies


class _Conversation:
    """One connection and the batch that it carries out now."""

    def __init__(self, path: Path) -> None:
        self.socket = dialled(path, _DIAL_S)
        self.socket.setblocking(False)
        self._unsent = b""
        self._unread = b""

    def begin(self, number: int, batch: Sequence[Request]) -> None:
        self.number = number
        self.replies: list[Reply] = []
        self._batch = batch
        self._unsent = b"".join(self._encoded(request) for request in batch)

    @property
    def is_over(self) -> bool:
        return len(self.replies) == len(self._batch)

    @property
    def wants(self) -> int:
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)

    def advance(self) -> None:
        """Send and receive as far as it goes now."""
        if self._unsent:
            with suppress(BlockingIOError):
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        try:
            received = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        if not received:
            raise ConnectionResetError("the server closed the connection")
        self._unread += received
        while not self.is_over and (parsed := _first_reply(self._unread)) is not None:
            status, body, self._unread = parsed
            self.replies.append(Reply(self._batch[len(self.replies)], status, body))

    def _encoded(self, request: Request) -> bytes:
        body = b"" if request.body is None else json.dumps(request.body).encode()
        head = f"{request.method} {request.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
        return head.encode() + _HEAD_END + body


def _first_reply(data: bytes) -> tuple[int, bytes, bytes] | None:
    """Status and body of the first reply, and what follows it; None if it is not complete yet."""
    head, end, rest = data.partition(_HEAD_END)
    if not end:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    try:
        status = int(first.removeprefix("HTTP/1.1 ").partition(" ")[0])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("transfer-encoding") == "chunked":
            whole = _chunks(rest)
            return None if whole is None else (status, *whole)
        length = 0 if status == 204 else int(headers["content-length"])
    except (ValueError, KeyError):
        raise ConnectionAbortedError(f"this is no reply of HTTP/1.1: {first[:80]!r}") from None
    return (status, rest[:length], rest[length:]) if len(rest) >= length else None


def _chunks(data: bytes) -> tuple[bytes, bytes] | None:
    """A body in chunks, and what follows it; None if it is not complete yet."""
    body = b""
    while True:
        size, end, data = data.partition(b"\r\n")
        if not end or len(data) < (length := int(size.partition(b";")[0], 16)) + 2:
            return None
        if not length:
            return body, data[2:]
        body, data = body + data[:length], data[length + 2 :]

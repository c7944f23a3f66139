"""What went over one connection to a Redis server, as requests and the replies to them.

hiredis parses both directions: a request is an array like any reply. Replies come in the order of the requests (RESP,
https://redis.io/docs/latest/develop/reference/protocol-spec/), except for what the server sends unasked: messages to a
subscriber, the invalidation of cached keys, and everything after MONITOR.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import hiredis
import msgspec

from cluster.redis_keys import keys_of
from cluster.requests import LONGEST_REPLY, Conversation, Request

_LINE_END: Final = b"\r\n"
_SECRET: Final = "***"
_SUBSCRIBING: Final = frozenset(
    ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"]
)
"""The server confirms each channel of these by a message of its own."""
_CONFIRMATIONS: Final = frozenset(name.lower() for name in _SUBSCRIBING)
_MESSAGES: Final = frozenset(["message", "pmessage", "smessage"])
_LONGEST_LINE: Final = 1 << 16
"""Of a request without RESP (PROTO_INLINE_MAX_SIZE)."""
_USUAL: Final = {word: f'"{word}"' for word in ("OK", "PONG", "QUEUED")}


class _NotRedisError(Exception):
    """These bytes are not Redis's protocol."""


def decode(sent: Sequence[bytes], answered: Sequence[bytes]) -> Conversation:
    """The conversation of one connection. `sent` and `answered`: the chunks in which bytes came from the client and
    from the server. A direction is read until something in it is not Redis's protocol."""
    talk = _Talk()
    not_understood = 0
    for take, messages, chunks in ((talk.ask, _requests, sent), (talk.answer, _messages, answered)):
        talk.understood = 0
        try:
            take(messages(chunks))
        except _NotRedisError:
            not_understood += sum(map(len, chunks)) - talk.understood
    return Conversation(talk.requests + talk.messages, not_understood, talk.scripts)


# -- messages and where they end -------------------------------------------------------------------------------------


def _messages(chunks: Iterable[bytes], *, inline: bool = False) -> Iterator[tuple[Any, int]]:
    """Each message, and where it ends in the stream. Raises _NotRedisError."""
    reader = hiredis.Reader(encoding="utf-8", errors="backslashreplace", notEnoughData=Ellipsis)
    pending: list[bytes] = []
    end = 0
    try:
        for chunk in chunks:
            end += len(chunk)
            if inline and not pending and not chunk.startswith(b"*"):
                yield from _lines(chunk, end - len(chunk))
                continue
            reader.feed(chunk)
            message = reader.gets()
            if message is not Ellipsis and not reader.has_data():
                pending = []
                yield message, end
                continue
            pending.append(chunk)
            if message is Ellipsis:
                continue
            text, at = b"".join(pending), 0
            while message is not Ellipsis:
                at = _end_of(text, at)
                yield message, end - len(text) + at
                message = reader.gets()
            pending = [text[at:]] if at < len(text) else []
    except hiredis.ProtocolError:
        raise _NotRedisError from None


def _end_of(text: bytes, at: int) -> int:
    """Where the message ends that begins there, all of which is known to be in the text."""
    line_end = text.index(_LINE_END, at)
    kind, count, at = text[at : at + 1], text[at + 1 : line_end], line_end + len(_LINE_END)
    if kind in b"$=!":
        return at if count == b"-1" else at + int(count) + len(_LINE_END)
    if kind in b"*~>%":
        for _ in range(max(0, int(count)) * (2 if kind == b"%" else 1)):
            at = _end_of(text, at)
    return at


def _requests(chunks: Iterable[bytes]) -> Iterator[tuple[Any, int]]:
    """The words of each request, and where it ends. Raises _NotRedisError."""
    return _messages(chunks, inline=True)


def _lines(chunk: bytes, begin: int) -> Iterator[tuple[list[str], int]]:
    """Requests that are lines of words, which the server takes as well."""
    if not chunk.endswith(_LINE_END) or len(chunk) > _LONGEST_LINE:
        raise _NotRedisError
    for line in chunk.split(_LINE_END)[:-1]:
        begin += len(line) + len(_LINE_END)
        if words := line.decode("utf-8", "backslashreplace").split():
            yield words, begin


# -- which reply belongs to which request ----------------------------------------------------------------------------

_COMMAND, _ARGUMENTS, _REPLY_END, _REPLY = map(Request._fields.index, ("command", "arguments", "reply_end", "reply"))


class _Talk:
    """The state of a connection, as its requests and then its replies are read."""

    def __init__(self) -> None:
        self.requests: list[list[Any]] = []
        self.messages: list[list[Any]] = []
        self.scripts: dict[str, str] = {}
        self.understood = 0
        self._named: dict[str, str] = {}
        self._waiting: deque[list[Any]] = deque()
        self._database, self._user, self._transaction = 0, "default", -1
        self._replies = "on"
        self._confirmed = 0
        self._is_subscriber = self._is_monitor = False

    def ask(self, requests: Iterable[tuple[Any, int]]) -> None:
        append, wait, learns = self.requests.append, self._waiting.append, _LEARNS
        for words, end in requests:
            try:
                command = words[0].upper()
                arguments = words[1:]
                if (learn := learns.get(command)) is not None:
                    learn(self, arguments)
                keys = keys_of(command, arguments)
            except (TypeError, AttributeError, IndexError):
                raise _NotRedisError from None
            request = [command, keys, arguments, self._database, self._user, self._transaction, end, -1, None]
            append(request)
            if self._replies == "on":
                wait(request)
            elif self._replies == "skipped":
                self._replies = "on"
            elif self._replies == "skip":
                self._replies = "skipped"
            if command in _ENDS:
                self._transaction = -1
            self.understood = end

    def answer(self, replies: Iterable[tuple[Any, int]]) -> None:
        waiting, usual = self._waiting, _USUAL
        for reply, end in replies:
            self.understood = end
            if type(reply) is list or type(reply) is hiredis.PushNotification or self._is_monitor or not waiting:
                if self._is_unasked(reply):
                    self.messages.append(["", (), (), self._database, self._user, -1, -1, end, _json(reply)])
                    continue
                if self._is_confirming(reply):
                    continue
            request = waiting.popleft()
            request[_REPLY_END] = end
            request[_REPLY] = usual[reply] if type(reply) is str and reply in usual else _json(reply)
            if request[_COMMAND] == "MONITOR":
                self._is_monitor = True

    def _is_unasked(self, reply: Any) -> bool:
        head = reply[0] if isinstance(reply, list) and reply else None
        if self._waiting and self._waiting[0][_COMMAND] in _SUBSCRIBING and head in _CONFIRMATIONS:
            return False
        is_push = isinstance(reply, hiredis.PushNotification)
        return is_push or self._is_monitor or not self._waiting or (self._is_subscriber and head in _MESSAGES)

    def _is_confirming(self, reply: Any) -> bool:
        """Whether it confirms a channel of a request that has more of them."""
        if self._waiting[0][_COMMAND] not in _SUBSCRIBING or not isinstance(reply, list):
            return False
        self._is_subscriber = True
        self._confirmed += 1
        if self._confirmed < len(self._waiting[0][_ARGUMENTS]):
            return True
        self._confirmed = 0
        return False

    # What a command changes in the state of the connection. (A login, or another database, that is refused counts as
    # well: what follows is refused, too, or the client does not go on.)

    def select(self, arguments: list[str]) -> None:
        self._database = int(arguments[0]) if arguments[0].isdecimal() else self._database

    def log_in(self, arguments: list[str]) -> None:
        self._user = arguments[0] if len(arguments) > 1 else "default"
        arguments[-1] = _SECRET

    def greet(self, arguments: list[str]) -> None:
        upper = [argument.upper() for argument in arguments]
        if "AUTH" in upper:
            at = upper.index("AUTH")
            self._user, arguments[at + 2] = arguments[at + 1], _SECRET

    def begin(self, arguments: list[str]) -> None:
        self._transaction = len(self.requests)

    def set_replies(self, arguments: list[str]) -> None:
        if arguments[0].upper() == "REPLY":
            self._replies = arguments[1].lower()

    def run_script(self, arguments: list[str]) -> None:
        arguments[0] = self._script(arguments[0])

    def load_script(self, arguments: list[str]) -> None:
        if arguments[0].upper() == "LOAD":
            arguments[1] = self._script(arguments[1])

    def _script(self, text: str) -> str:
        """Its SHA-1, by which EVALSHA names it."""
        if (name := self._named.get(text)) is None:
            name = self._named[text] = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
            self.scripts[name] = text
        return name


_LEARNS: Final[dict[str, Callable[[_Talk, list[str]], None]]] = {
    "SELECT": _Talk.select,
    "AUTH": _Talk.log_in,
    "HELLO": _Talk.greet,
    "MULTI": _Talk.begin,
    "CLIENT": _Talk.set_replies,
    "EVAL": _Talk.run_script,
    "EVAL_RO": _Talk.run_script,
    "SCRIPT": _Talk.load_script,
}
_ENDS: Final = frozenset(["EXEC", "DISCARD"])
"""These end a transaction, and are part of it."""


def _json(reply: Any) -> str:
    if type(reply) is int:
        return str(reply)
    if isinstance(reply, hiredis.ReplyError | list | dict):
        reply = _plain(reply)
    return msgspec.json.encode(reply).decode()[:LONGEST_REPLY]


def _plain(reply: Any) -> Any:
    if isinstance(reply, hiredis.ReplyError):
        return {"error": str(reply)}
    if isinstance(reply, list):
        return [_plain(each) for each in reply]
    if isinstance(reply, dict):
        return {str(_plain(key)): _plain(value) for key, value in reply.items()}
    return reply

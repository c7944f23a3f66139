"""What went over connections to a Redis server, as requests and the replies to them.

Replies come in the order of the requests, except for what the server sends unasked: messages to a subscriber, the
invalidation of cached keys, and everything after MONITOR.

Nearly all that there is to know of a request follows from its words (`cluster.redis_words`). The rest is the state of
its connection, which a few commands change: the database, the login, the transaction, and which requests are answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import hiredis
import msgspec
import numpy as np
import pyarrow as pa

from cluster.redis_messages import Messages, read_replies, read_requests
from cluster.redis_words import SUBSCRIBING, Words
from cluster.requests import LONGEST_REPLY, Chunks, Conversations, Ints

_CONFIRMATIONS: Final = frozenset(name.lower() for name in SUBSCRIBING)
_MESSAGES: Final = frozenset(["message", "pmessage", "smessage"])
_MONITORING: Final = frozenset(["MONITOR"])
_BEGINNING: Final = frozenset(["MULTI"])
_ENDING: Final = frozenset(["EXEC", "DISCARD"])
"""These end a transaction, and are part of it."""
_UNASKED, _CONFIRMING = -1, -2


def decode(sent: Chunks, answered: Chunks) -> Conversations:
    """A direction of a connection is read until something in it is not Redis's protocol."""
    found, plain = read_requests(sent)
    words = Words(plain, found.said)
    asked = _until_wrong(found, words)
    replies = read_replies(answered)
    state = _State(words, asked)
    request = _requests_of(replies, words, asked, state)
    is_reply, is_message = request >= 0, request == _UNASKED
    told_by = replies.connection[is_message]
    reply, reply_end = np.full((2, len(asked.code)), -1)
    reply[request[is_reply]], reply_end[request[is_reply]] = replies.code[is_reply], replies.end[is_reply]
    count = len(told_by)
    columns = {
        "connection": (asked.connection, told_by),
        "what": (asked.code, np.full(count, words.message)),
        "database": (state.database, _at_end(state.database, state.edges, 0)[told_by]),
        "user": (state.user, _at_end(state.user, state.edges, 0)[told_by]),
        "transaction": (state.transaction, np.full(count, -1)),
        "sent_end": (asked.end, np.full(count, -1)),
        "reply_end": (reply_end, replies.end[is_message]),
        "reply": (reply, replies.code[is_message]),
    }
    return Conversations(
        words.said,
        pa.array([_json(each) for each in replies.said], pa.string()),
        pa.array(words.users, pa.string()).dictionary_encode(),
        words.scripts,
        _not_understood(sent, asked) + _not_understood(answered, replies),
        **{name: np.concatenate(both) if count else both[0] for name, both in columns.items()},
    )


def _until_wrong(found: Messages, words: Words) -> Messages:
    """The messages of each connection before the first that is no request."""
    wrong = words.is_wrong[found.code]
    if not wrong.any():
        return found
    count = np.append(0, np.cumsum(wrong))
    kept = count[1:] == count[np.searchsorted(found.connection, found.connection)]
    is_broken = found.is_broken.copy()
    is_broken[found.connection[wrong]] = True
    return Messages(found.connection[kept], found.code[kept], found.end[kept], is_broken, found.said, found.plain)


def _not_understood(chunks: Chunks, messages: Messages) -> Ints:
    """How many bytes of each connection follow the last message, if these are not Redis's protocol."""
    if not messages.is_broken.any():
        return np.zeros(chunks.connections, np.int64)
    total = np.bincount(chunks.connection, weights=chunks.length, minlength=chunks.connections).astype(np.int64)
    edges = np.searchsorted(messages.connection, np.arange(chunks.connections + 1))
    return np.where(messages.is_broken, total - _at_end(messages.end, edges, 0), 0)


def _at_end(values: Ints, edges: Ints, otherwise: int) -> Ints:
    """The last value of each connection."""
    return np.where(np.diff(edges) > 0, np.append(values, otherwise)[edges[1:] - 1], otherwise)


class _State:
    """Of each request: its `command`, the `database` and the `user` that it had, and its `transaction`. (A login, or
    another database, that is refused counts as well: what follows is refused, too, or the client does not go on.)
    `edges`: where the requests of each connection begin."""

    def __init__(self, words: Words, asked: Messages) -> None:
        self.edges = np.searchsorted(asked.connection, np.arange(len(asked.is_broken) + 1))
        self.command = words.command[asked.code]
        self.database, self.user = (self._last(told[asked.code]) for told in (words.database, words.user))
        ends = np.flatnonzero(words.has(self.command, _ENDING)) + 1
        begins = np.flatnonzero(words.has(self.command, _BEGINNING))
        numbers = np.concatenate([np.full(len(ends), -1), begins - self.edges[asked.connection[begins]]])
        self.transaction = self._filled(np.concatenate([ends, begins]), numbers, -1)

    def _last(self, told: Ints) -> Ints:
        """What the connection was told last; 0 before that."""
        at = np.flatnonzero(told >= 0)
        return self._filled(at, told[at], 0)

    def _filled(self, at: Ints, values: Ints, otherwise: int) -> Ints:
        """These values, each from its place to the next, or to the end of the connection."""
        cuts = np.concatenate([self.edges[:-1], at])
        order = np.argsort(cuts, kind="stable")
        lengths = np.diff(np.append(cuts[order], self.edges[-1]))
        return np.repeat(np.concatenate([np.full(len(self.edges) - 1, otherwise), values])[order], lengths)


def _answered(words: Words, asked: Messages, edges: Ints) -> Ints:
    """The places of the requests that the server answers."""
    told = words.replies[asked.code]
    answers = np.ones(len(told), np.bool_)
    for connection in np.unique(asked.connection[told >= 0]).tolist():
        own = slice(edges[connection], edges[connection + 1])
        mode = "on"
        for at, each in enumerate(told[own].tolist(), own.start):
            mode = words.modes[each] if each >= 0 else mode
            answers[at] = mode == "on"
            mode = {"skip": "skipped", "skipped": "on"}.get(mode, mode)
    return np.flatnonzero(answers)


# -- which reply belongs to which request ----------------------------------------------------------------------------


def _requests_of(replies: Messages, words: Words, asked: Messages, state: _State) -> Ints:
    """The place of the request of each reply; or that it is a message sent unasked, or one of many confirmations."""
    waiting = _answered(words, asked, state.edges)
    every = np.arange(len(state.edges))
    asks, answers = (np.searchsorted(each, every) for each in (asked.connection[waiting], replies.connection))
    turn = np.arange(len(replies.code)) + (asks - answers)[replies.connection]
    is_there = turn < asks[replies.connection + 1]
    request = np.where(is_there, np.append(waiting, -1)[np.where(is_there, turn, -1)], _UNASKED)
    is_push = np.array([isinstance(each, hiredis.PushNotification) for each in replies.said], np.bool_)[replies.code]
    may_push = asked.connection[words.has(state.command, SUBSCRIBING | _MONITORING)]
    for connection in np.union1d(may_push, replies.connection[is_push]).tolist():
        own = slice(answers[connection], answers[connection + 1])
        mine = waiting[asks[connection] : asks[connection + 1]]
        counts = words.argument_count[asked.code[mine]].tolist()
        commands = [(words.names[code], count) for code, count in zip(state.command[mine], counts, strict=True)]
        matched = _matched([replies.said[code] for code in replies.code[own].tolist()], commands)
        request[own] = [mine[turn] if turn >= 0 else turn for turn in matched]
    return request


def _matched(replies: list[Any], asked: list[tuple[str, int]]) -> Iterator[int]:
    """The request of each reply, among the requests answered in a connection with pushes. `asked`: the commands, and
    how many words followed each."""
    waiting = deque(enumerate(asked))
    confirmed = 0
    is_subscriber = is_monitor = False
    for reply in replies:
        head = reply[0] if isinstance(reply, list) and reply and isinstance(reply[0], str) else None
        is_subscribing = bool(waiting) and waiting[0][1][0] in SUBSCRIBING
        is_push = isinstance(reply, hiredis.PushNotification) or is_monitor or not waiting
        if not (is_subscribing and head in _CONFIRMATIONS) and (is_push or (is_subscriber and head in _MESSAGES)):
            yield _UNASKED
            continue
        if is_subscribing and isinstance(reply, list):
            is_subscriber = True
            confirmed += 1
            if confirmed < waiting[0][1][1]:
                yield _CONFIRMING
                continue
            confirmed = 0
        turn, (command, _) = waiting.popleft()
        is_monitor |= command == "MONITOR"
        yield turn


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

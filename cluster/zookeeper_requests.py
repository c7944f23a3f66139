"""What went over connections to a ZooKeeper server, as requests and the replies to them.

A message of either side is a length and so many bytes, in ZooKeeper's own encoding (Jute). The first request of a
connection opens a session, or goes on with one. Each later request has a number, which its reply repeats; the server
also sends what happened to a node on which the client had left a watch, unasked
(https://zookeeper.apache.org/doc/current/zookeeperInternals.html; the records are those of `zookeeper.jute`).
"""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from cluster.requests import LONGEST_REPLY, SAID, Chunks, Conversations

_LONGEST: Final = 4 << 20
"""Longer messages are none: a server takes up to 1 MiB (`jute.maxbuffer`), and a client up to 4 MiB."""
_CONNECT: Final = "CONNECT"
_EVENT: Final = -1
_NO_NODE: Final = -101
_LENGTH: Final = struct.Struct("!i")
_COMMANDS: Final[Mapping[int, str]] = {
    -11: "CLOSESESSION",
    1: "CREATE",
    2: "DELETE",
    3: "EXISTS",
    4: "GETDATA",
    5: "SETDATA",
    6: "GETACL",
    7: "SETACL",
    8: "GETCHILDREN",
    9: "SYNC",
    11: "PING",
    12: "GETCHILDREN2",
    13: "CHECK",
    14: "MULTI",
    15: "CREATE2",
    16: "RECONFIG",
    17: "CHECKWATCHES",
    18: "REMOVEWATCHES",
    19: "CREATECONTAINER",
    20: "DELETECONTAINER",
    21: "CREATETTL",
    22: "MULTIREAD",
    100: "AUTH",
    101: "SETWATCHES",
    102: "SASL",
    103: "GETEPHEMERALS",
    104: "GETALLCHILDRENNUMBER",
    105: "SETWATCHES2",
    106: "ADDWATCH",
    107: "WHOAMI",
}
_WORDS: Final = frozenset(
    [b"conf", b"cons", b"crst", b"dirs", b"dump", b"envi", b"isro", b"mntr", b"ruok", b"srst", b"srvr", b"stat"]
)
"""What an administrator may ask over a connection, which the server answers with a text. Clients ask so, too
(https://zookeeper.apache.org/doc/current/zookeeperAdmin.html#sc_4lw)."""
_CREATES: Final = frozenset(["CREATE", "CREATE2", "CREATECONTAINER", "CREATETTL"])
_WATCHES: Final = frozenset(["EXISTS", "GETDATA", "GETCHILDREN", "GETCHILDREN2"])
_VERSIONED: Final = frozenset(["DELETE", "CHECK"])
_WITH_PATH: Final = _CREATES | _WATCHES | _VERSIONED | frozenset(["SETDATA", "GETACL", "SETACL", "SYNC"])
_MODES: Final = ("", "EPHEMERAL", "SEQUENTIAL", "EPHEMERAL SEQUENTIAL", "CONTAINER", "TTL", "TTL SEQUENTIAL")
_ERRORS: Final[Mapping[int, str]] = {
    -4: "ConnectionLoss",
    -5: "MarshallingError",
    -6: "Unimplemented",
    -7: "OperationTimeout",
    -8: "BadArguments",
    -101: "NoNode",
    -102: "NoAuth",
    -103: "BadVersion",
    -108: "NoChildrenForEphemerals",
    -110: "NodeExists",
    -111: "NotEmpty",
    -112: "SessionExpired",
    -114: "InvalidACL",
    -115: "AuthFailed",
    -118: "SessionMoved",
    -119: "NotReadOnly",
    -121: "NoWatcher",
}
_EVENTS: Final[Mapping[int, str]] = {
    -1: "session",
    1: "created",
    2: "deleted",
    3: "changed",
    4: "children changed",
}
_Said = tuple[str, tuple[str, ...], tuple[str, ...]]
"""The command, its paths, and all words after the command."""


def decode(sent: Chunks, answered: Chunks) -> Conversations:
    """A direction of a connection is read until something in it is not ZooKeeper's protocol. An administrator's word
    is no request of a client."""
    read = _Conversations()
    not_understood = []
    for connection in range(sent.connections):
        asked = _bytes(sent, connection)
        if asked.strip() in _WORDS:
            not_understood.append(0)
            continue
        one = _Connection(connection, read)
        left = _each(asked, one.asked), _each(_bytes(answered, connection), one.heard)
        not_understood.append(sum(left))
    return read.in_columns(not_understood)


def _bytes(chunks: Chunks, connection: int) -> bytes:
    first, last = np.searchsorted(chunks.connection, [connection, connection + 1]).tolist()
    return b"".join(chunks.distinct.take(pa.array(chunks.code[first:last])).to_pylist())


class _NotZooKeeperError(Exception):
    """These bytes are not ZooKeeper's protocol."""


def _each(stream: bytes, take: Callable[[_Record, int], None]) -> int:
    """Takes each complete message, with the length of the stream when it was complete. How many bytes follow them, if
    these are not ZooKeeper's protocol."""
    at = 0
    while len(stream) - at >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(stream, at)
        begin, end = at + _LENGTH.size, at + _LENGTH.size + length
        if not 0 <= length <= _LONGEST:
            return len(stream) - at
        if end > len(stream):
            break
        try:
            take(_Record(stream[begin:end]), end)
        except _NotZooKeeperError:
            return len(stream) - at
        at = end
    return 0


@dataclass(slots=True)
class _Record:
    """The parts of a message, which are read one after the other."""

    whole: bytes
    at: int = 0

    def numbers(self, form: str) -> tuple[int, ...]:
        """As `struct` names them."""
        try:
            found = struct.unpack_from(f"!{form}", self.whole, self.at)
        except struct.error:
            raise _NotZooKeeperError from None
        self.at += struct.calcsize(f"!{form}")
        return found

    def number(self) -> int:
        return self.numbers("i")[0]

    def text(self) -> str:
        """Bytes that are not UTF-8 are escaped; an absent text is empty."""
        if (length := self.number()) > len(self.whole) - self.at:
            raise _NotZooKeeperError
        start, self.at = self.at, self.at + max(length, 0)
        return self.whole[start : self.at].decode(errors="backslashreplace")

    def flag(self) -> bool:
        return bool(self.numbers("b")[0])

    def skip_rights(self) -> None:
        for _ in range(self.number()):
            self.number(), self.text(), self.text()


def _request(record: _Record) -> tuple[int, _Said]:
    """Its number, and what it says."""
    number, code = record.numbers("ii")
    if (command := _COMMANDS.get(code)) is None:
        raise _NotZooKeeperError
    if command == "MULTI":
        parts = list(_parts(record))
        paths = tuple(path for _, paths, _ in parts for path in paths)
        return number, (command, paths, tuple(word for part in parts for word in (part[0], *part[2])))
    if command == "AUTH":
        record.number()
        return number, (command, (), (record.text(), "***"))
    return number, _operation(command, record) if command in _WITH_PATH else (command, (), ())


def _parts(record: _Record) -> Iterator[_Said]:
    """The operations of a transaction."""
    while True:
        code, is_last, _ = record.numbers("ibi")
        if is_last:
            return
        if (command := _COMMANDS.get(code)) not in _WITH_PATH:
            raise _NotZooKeeperError
        yield _operation(command, record)


def _operation(command: str, record: _Record) -> _Said:
    path = record.text()
    words = [path]
    if command in _CREATES:
        words.append(record.text())
        record.skip_rights()
        mode = record.number()
        words += _MODES[mode].split() if 0 <= mode < len(_MODES) else [str(mode)]
        if command == "CREATETTL":
            words.append(str(record.numbers("q")[0]))
    elif command == "SETDATA":
        words += [record.text(), str(record.number())]
    elif command in _VERSIONED:
        words.append(str(record.number()))
    elif command in _WATCHES and record.flag():
        words.append("WATCH")
    return command, (path,), tuple(words)


def _reply(command: str, record: _Record, error: int) -> Any:
    if error:
        return None if command == "EXISTS" and error == _NO_NODE else {"error": _ERRORS.get(error, f"error {error}")}
    if command in _CREATES or command == "SYNC":
        return record.text()
    if command in ("GETCHILDREN", "GETCHILDREN2"):
        return [record.text() for _ in range(record.number())]
    if command == "GETDATA":
        return record.text()
    return "OK"


def _opening(record: _Record) -> _Said:
    _, _, timeout_ms, session = record.numbers("iqiq")
    return _CONNECT, (), (f"{session:#x}", str(timeout_ms))


def _opened(record: _Record) -> Any:
    """A session that the server does not know any more is answered with no time."""
    _, timeout_ms, session = record.numbers("iiq")
    return [f"{session:#x}", timeout_ms] if timeout_ms > 0 else {"error": "SessionExpired"}


@dataclass(slots=True)
class _Codes:
    """A number for each distinct value, in the order in which they came."""

    of: dict[Any, int] = field(default_factory=dict)

    def __call__(self, value: Any) -> int:
        return self.of.setdefault(value, len(self.of))


@dataclass(slots=True)
class _Conversations:
    """What was read so far. Of each request, and of each message that was sent unasked: its connection, what it says,
    where it and its reply end, and the reply."""

    said: _Codes = field(default_factory=_Codes)
    replies: _Codes = field(default_factory=_Codes)
    requests: list[list[int]] = field(default_factory=list)
    messages: list[list[int]] = field(default_factory=list)

    def answer(self, reply: Any) -> int:
        return self.replies(msgspec.json.encode(reply).decode()[:LONGEST_REPLY])

    def in_columns(self, not_understood: Sequence[int]) -> Conversations:
        rows = np.array([*self.requests, *self.messages], np.int64).reshape(-1, 5)
        connection, what, sent_end, reply_end, reply = rows.T
        nothing = np.zeros(len(rows), np.int64)
        command, *words = zip(*self.said.of, strict=True) if self.said.of else ((), (), ())
        said = [pa.array(command, pa.string()).dictionary_encode()]
        said += [pa.array(map(list, each), pa.list_(pa.string())) for each in words]
        return Conversations(
            pa.table(said, schema=SAID),
            pa.array(self.replies.of, pa.string()),
            pa.array([""], pa.string()).dictionary_encode(),
            scripts={},
            not_understood=np.array(not_understood, np.int64),
            connection=connection,
            what=what,
            database=nothing,
            user=nothing,
            transaction=nothing - 1,
            sent_end=sent_end,
            reply_end=reply_end,
            reply=reply,
        )


@dataclass(slots=True)
class _Connection:
    """One that is read. `opening`: its first request; None before that. `waiting`: by number, the requests that no
    reply came to yet."""

    number: int
    read: _Conversations
    opening: list[int] | None = None
    is_opened: bool = False
    waiting: dict[int, deque[tuple[str, list[int]]]] = field(default_factory=lambda: defaultdict(deque))

    def asked(self, record: _Record, end: int) -> None:
        number, said = (0, _opening(record)) if self.opening is None else _request(record)
        request = [self.number, self.read.said(said), end, -1, -1]
        self.read.requests.append(request)
        if self.opening is None:
            self.opening = request
        else:
            self.waiting[number].append((said[0], request))

    def heard(self, record: _Record, end: int) -> None:
        if self.opening is not None and not self.is_opened:
            self.is_opened = True
            self.opening[3:] = end, self.read.answer(_opened(record))
            return
        number, _, error = record.numbers("iqi")
        if number == _EVENT:
            kind, _ = record.numbers("ii")
            event = {"event": _EVENTS.get(kind, str(kind)), "path": record.text()}
            self.read.messages.append([self.number, self.read.said(("", (), ())), -1, end, self.read.answer(event)])
        elif self.waiting[number]:
            command, request = self.waiting[number].popleft()
            request[3:] = end, self.read.answer(_reply(command, record, error))

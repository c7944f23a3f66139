"""Which request changed a key, as the node itself tells it: MONITOR and keyspace notifications over one connection.

MONITOR shows every command that a node carries out, with the peer that sent it, and what scripts call inside
(https://redis.io/docs/latest/commands/monitor/). Notifications and these lines come in the order in which the node did
things: first what a command changed, then its line; the line of a script, then what the script calls. So each
notification is caused by the line that follows it. There are two exceptions. A client that waits in a blocking command
has its line already when another client's request lets it go on. And a key expires, or is evicted, by no request.
"""

from __future__ import annotations

import hashlib
import math
import re
import zlib
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from cluster.redis_keys import keys_of

WITHOUT_REQUEST: Final = frozenset([b"expired", b"evicted", b"hexpired"])

_LINE: Final = re.compile(rb'([\d.]+) \[(\d+) (?:(lua)|(?:\S*:)?(\S+))\] "([^"]*)"')
"""The node's clock, the database, whether a script calls, the peer's port, the command."""
_WORD: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED: Final = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.DOTALL)
_LETTERS: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}
_FLUSHES: Final = frozenset([b"FLUSHALL", b"FLUSHDB"])
_GIVES_UP: Final = {
    **dict.fromkeys([b"BLPOP", b"BRPOP", b"BLMOVE", b"BRPOPLPUSH", b"BZPOPMIN", b"BZPOPMAX"], -1),
    **dict.fromkeys([b"BLMPOP", b"BZMPOP"], 0),
}
"""The commands that wait for a key, and the place of the argument that says how many seconds."""
_GIVES_UP_LATE_S: Final = 0.2
"""A server looks ten times a second for clients that have waited long enough, and later if it is busy."""
_TAKES: Final = frozenset([b"lpop", b"rpop", b"zpopmin", b"zpopmax"])
_MOVES: Final = frozenset([b"BLMOVE", b"BRPOPLPUSH"])
_HASHED: Final = frozenset([b"EVAL", b"EVAL_RO"])


class Cause(NamedTuple):
    """A request that a node carried out. `port`: of the peer that sent it, 0 if it has none. `digest`: of its words, as
    `digest_of`. `command`: which changed the key, in upper case: that of the request, or one that its script called.
    `arguments`: of that command. `place`: that of the request among those of this port, as far as the node has shown
    them. `is_script`: whether a script called the command."""

    port: int
    digest: int
    command: str
    place: int
    arguments: tuple[str, ...] = ()
    is_script: bool = False

    def is_same(self, other: Cause) -> bool:
        """Whether it is the same request; a script may have called another command in it."""
        return (self.port, self.place) == (other.port, other.place)


class Flush(NamedTuple):
    """The keys of this database are gone, or of every one, and the node sends no notification. `cause`: by what."""

    database: int | None
    cause: Cause


def digest_of(words: Sequence[str]) -> int:
    """A number that two requests have in common only if their words are the same, as a rule. `words`: the command in
    upper case, and its arguments, with the SHA-1 of a script in the place of its text."""
    return zlib.crc32("\0".join(words).encode("utf-8", "surrogatepass"))


class _Caller(NamedTuple):
    line: bytes
    place: int


class _Waiting(NamedTuple):
    """A client in a blocking command. `until_s`: by the node's clock, when it may give up."""

    keys: frozenset[bytes]
    caller: _Caller
    until_s: float

    def may_have(self, event: bytes, key: bytes) -> bool:
        """Whether the command leads to this notification: it takes, and if it moves what it takes, it adds, too."""
        command = _words(self.caller.line)[0].upper()
        return key in self.keys and (event in _TAKES or event == b"del" or command in _MOVES)


class KeyCauses:
    """What caused each notification: give it all notifications and lines of a connection in their order. `found`: in
    that order what caused each notification, None if it was no request, and what emptied a database."""

    def __init__(self) -> None:
        self.found: deque[Cause | Flush | None] = deque()
        self._pending: list[tuple[bytes, bytes]] = []
        """Of the notifications since the last line: the event and the key."""
        self._caller = _Caller(b"", 0)
        """The last line that is a request's, whose script it is that calls."""
        self._waiting: dict[bytes, _Waiting] = {}
        self._places: dict[bytes, int] = {}
        """By port, of its last request."""

    def notified(self, event: bytes, key: bytes) -> None:
        self._pending.append((event, key))

    def line(self, line: bytes) -> None:
        head = _LINE.match(line)
        if head is None:
            return
        time_s, database, script, port, command = head.groups()
        name = command.upper()
        if script is None:
            place = self._places[port] = self._places.get(port, -1) + 1
            self._caller = _Caller(line, place)
        has_changed = bool(self._pending) and self._settle(line, port, float(time_s))
        if script is None:
            self._waiting.pop(port, None)  # it goes on
            if name in _GIVES_UP and not has_changed:
                self._wait(port, float(time_s))
        if name in _FLUSHES:
            cause = _cause(self._caller, _words(line), is_script=script is not None)
            self.found.append(Flush(None if name == b"FLUSHALL" else int(database), cause))

    def _wait(self, port: bytes, now_s: float) -> None:
        """The client has asked for a key that is not there yet."""
        name, *arguments = _words(self._caller.line)
        texts = [argument.decode("latin-1") for argument in arguments]
        try:
            for_s = float(texts[_GIVES_UP[name.upper()]])
        except (ValueError, IndexError):
            return  # refused
        keys = frozenset(key.encode("latin-1") for key in keys_of(name.decode().upper(), texts))
        self._waiting[port] = _Waiting(keys, self._caller, now_s + for_s if for_s else math.inf)

    def _settle(self, line: bytes, port: bytes | None, now_s: float) -> bool:
        """Name the cause of every notification before this line; whether that is the line of any."""
        words, has_changed = _words(line), False
        served: bytes | None = None
        for event, key in self._pending:
            if event in _TAKES:
                if served is not None:
                    del self._waiting[served]
                takes = key in words and words[0].lower().lstrip(b"b") in _TAKES
                served = self._served(key, now_s if takes else now_s - _GIVES_UP_LATE_S, port if takes else None)
            if event in WITHOUT_REQUEST:
                self.found.append(None)
            elif served is not None and self._waiting[served].may_have(event, key):
                waiting = self._waiting[served].caller
                self.found.append(_cause(waiting, _words(waiting.line)))
            elif key in words:
                has_changed = True
                self.found.append(_cause(self._caller, words, is_script=port is None))
            else:
                self.found.append(None)
        if served is not None:
            del self._waiting[served]
        self._pending.clear()
        return has_changed

    def _served(self, key: bytes, now_s: float, but: bytes | None) -> bytes | None:
        """The port of the client that has waited longest for the key."""
        some = ((port, one) for port, one in self._waiting.items() if port != but)
        return next((port for port, one in some if key in one.keys and now_s <= one.until_s), None)


def _words(line: bytes) -> list[bytes]:
    """The command and its arguments."""
    return [
        _ESCAPED.sub(_meant, word) if b"\\" in word else word for word in _WORD.findall(line, line.index(b'] "') + 2)
    ]


def _meant(escaped: re.Match[bytes]) -> bytes:
    told = escaped[1]
    return bytes([int(told[1:], 16)]) if len(told) == 3 else _LETTERS.get(told, told)


def _cause(caller: _Caller, did: Sequence[bytes], *, is_script: bool = False) -> Cause:
    """`did`: the command that changed the key, and its arguments."""
    head = _LINE.match(caller.line)
    port = head[4] if head is not None else None
    name, *arguments = _texts(_words(caller.line))
    if name.upper().encode() in _HASHED and arguments:
        arguments[0] = hashlib.sha1(arguments[0].encode(), usedforsecurity=False).hexdigest()
    dialled_from = int(port) if port is not None and port.isdigit() else 0
    command, *of_command = _texts(did)
    return Cause(
        dialled_from, digest_of([name.upper(), *arguments]), command.upper(), caller.place, tuple(of_command), is_script
    )


def _texts(words: Sequence[bytes]) -> list[str]:
    return [word.decode("utf-8", "backslashreplace") for word in words]

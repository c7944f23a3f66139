"""What happens to the keys of one node, as the node reports it: keyspace notifications over one RESP3 connection.

A notification names the key but not its value, so the key is read immediately. On a RESP3 connection notifications and
replies come in the order in which the node did things. So a value that was read belongs to the newest `set` before the
reply, and if the key was deleted or set again in between, the older value was too short-lived to be read and is
unknown. In the same way, an answer proves that every notification after it is later than the question: `since_ns`.

A lock may keep a hash instead of a string, with its owner as a field and a count as that field's value. Then the fields
are the key's value, and an event that leaves the fields as they were changed no owner.

A second connection tells which request caused each notification (`cluster.key_causes`). Both get the same notifications
in the same order, and count them from the same message on.

Nothing here waits: the owner polls. The node is told what to notify about when the connection is made, so servers need
no configuration for it, and a run without a witness pays nothing.
"""

from __future__ import annotations

import re
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic_ns
from typing import Any, Final, NamedTuple

import hiredis

from cluster.address import Address
from cluster.key_causes import Cause, Flush, KeyCauses
from cluster.probe import MARK_PREFIX
from cluster.resp import RespConnection, encode
from fencepost.history import FIELDS_APART, KeyEvent, KeyEventName
from fencepost.text import text_of

PROVE_EVERY_NS: Final = 50_000_000
"""How often a node gets a PING when there is nothing else to ask, so that `since_ns` is never much older."""
SILENT_AFTER_NS: Final = 500_000_000
"""A node that leaves a question unanswered this long is no longer watched."""
REDIAL_NS: Final = 30_000_000
"""How often a node is dialled that accepts and does not let itself be watched: it is loading its data, say."""
CONNECTS_WITHIN_NS: Final = 30_000_000
"""Servers are on this machine. One that was away when it was dialled, and whose address was away with it, is found
sooner by a new dial than by the kernel's second try, a second later."""
_PAGE: Final = 500
_MOST_ARGUMENTS: Final = 64
_LONGEST_ARGUMENT: Final = 256

_EVENTS: Final[dict[bytes, KeyEventName]] = {
    **dict.fromkeys([b"set", b"hset", b"hincrby", b"hdel", b"rename_to", b"copy_to", b"move_to", b"restore"], "set"),
    **dict.fromkeys([b"expire", b"persist"], "prolonged"),
    **dict.fromkeys([b"del", b"rename_from", b"move_from"], "deleted"),
    b"expired": "expired",
    b"evicted": "evicted",
}
"""Of every other notification the event is `changed`."""
_ADDS_FIELDS: Final = frozenset({b"hset", b"hincrby"})
_OF_HASHES: Final = _ADDS_FIELDS | {b"hdel"}
_CHANNEL: Final = re.compile(rb"__keyevent@(\d+)__:(.+)")
_HELLO: Final = encode("HELLO", 3, "SETNAME", "fencepost-witness")
_NOTIFY: Final = encode("CONFIG", "SET", "notify-keyspace-events", "EA")
_SUBSCRIBE: Final = encode("PSUBSCRIBE", "__keyevent@*")
_PING: Final = encode("PING")
_WHO: Final = encode("INFO", "server")
_DATABASES: Final = encode("INFO", "keyspace")
_LOADED: Final = encode("DBSIZE")
"""Refused by a server that is still loading its data."""
_MONITOR: Final = encode("MONITOR")
_OK: Final = b"OK"
_MARK: Final = MARK_PREFIX.encode()


class _Question(NamedTuple):
    """When something was asked, and what to do with the answer."""

    asked_ns: int
    take: Callable[[object, int], None]


class _WatchedKey(NamedTuple):
    database: int
    name: bytes

    @property
    def text(self) -> str:
        """A key of another database has another name: a lock that takes the wrong one has another key."""
        name = text_of(self.name)
        return f"{name} (database {self.database})" if self.database else name


class _Unread(NamedTuple):
    """An event whose key has yet to be read. `cause`: what made it. `adds`: it left every field of the hash where it
    was. `before`: older events that the key's value was the same after."""

    event: KeyEvent
    cause: Cause | None = None
    adds: bool = False
    before: tuple[KeyEvent, ...] = ()


class _Notice(NamedTuple):
    """What has come, and when: a notification, or the answer to a question."""

    said: Any
    at_ns: int
    is_counted: bool


class KeyEventStream:
    """One node's events. `advance` when a socket is ready, `upkeep` periodically, `take` what is complete."""

    def __init__(self, node: str, address: Address) -> None:
        self.node = node
        self.is_watching = False
        """Whether everything that the node holds is known."""
        self._address = address
        self._connection: RespConnection | None = None
        self._monitor: RespConnection | None = None
        self._causes = KeyCauses()
        self._beginning = b""
        """The channel of the message from which on both connections count."""
        self._is_counting = self._monitor_counts = False
        self._come: deque[_Notice] = deque()
        """What has come and waits until its cause is known."""
        self._dialled_ns = 0
        self._redial_after_ns = 0
        self._questions: deque[_Question] = deque()
        self._proven_ns = 0
        """When the newest question was asked that the node has answered."""
        self._told: deque[KeyEvent] = deque()
        self._incomplete: set[int] = set()
        """The events that still wait for their key to be read, by identity."""
        self._unread: dict[_WatchedKey, _Unread] = {}
        """By key: its newest event, while the key has yet to be read."""
        self._known: dict[_WatchedKey, str | None] = {}
        """The keys that are known to exist, and their values; None for a value that is not known."""
        self._unlisted: list[int] = []
        """The databases that are still to be listed."""
        self._is_blind = True
        self._is_silent = False

    @property
    def wants(self) -> Mapping[int, int]:
        """The descriptors to poll, and what for."""
        return {one.fd: one.wants for one in (self._connection, self._monitor) if one is not None}

    def take(self) -> list[KeyEvent]:
        """The events that are complete, each once, in order."""
        ready = []
        while self._told and id(self._told[0]) not in self._incomplete:
            ready.append(self._told.popleft())
        return ready

    def upkeep(self, now_ns: int) -> None:
        """Dial, ask for a sign of life, notice silence. Call it after everything that has arrived was handled.

        A node that is down is dialled every time: what clients do on a node that is back is unseen until it answers."""
        if self._connection is None:
            if now_ns - self._dialled_ns >= self._redial_after_ns:
                self._dial(now_ns)
        elif not self._questions:
            if now_ns - self._proven_ns >= PROVE_EVERY_NS:
                self.prove(now_ns)
        elif self._connection.is_connecting:
            if now_ns - self._questions[0].asked_ns >= CONNECTS_WITHIN_NS:
                self.close()
        elif now_ns - self._questions[0].asked_ns >= SILENT_AFTER_NS:
            self._is_silent = True
            self._stop_watching()

    def prove(self, now_ns: int) -> None:
        """Ask for a sign of life."""
        if self._connection is not None and not self._connection.is_connecting:
            self._ask(_PING, now_ns, _ignore)
            self._send()

    @property
    def is_opening(self) -> bool:
        """Whether the node has accepted the dial, and is not watched yet."""
        connection = self._connection
        return connection is not None and not (connection.is_connecting or self.is_watching or self._is_silent)

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is still to come from a node that is not known to be down or silent."""
        return self._connection is not None and not self._is_blind and bool(self._questions)

    def advance(self) -> None:
        """The poller saw something on a socket."""
        try:
            self._hear()
            self._receive()
        except OSError:
            self.close()
        self._send()

    def close(self) -> None:
        """Drop the connections. The last event is `blind`, at the last time for which the state is known."""
        self._redial_after_ns = REDIAL_NS if self.is_opening else 0
        for connection in (self._connection, self._monitor):
            if connection is not None:
                connection.close()
        self._connection, self._monitor, self._is_silent = None, None, False
        self._stop_watching()
        self._questions.clear()
        self._come.clear()

    # The connections.

    def _dial(self, now_ns: int) -> None:
        self._dialled_ns = self._proven_ns = now_ns
        self._beginning = f"fencepost-witness-{secrets.token_hex(8)}".encode()
        self._is_counting, self._monitor_counts, self._causes = False, False, KeyCauses()
        try:
            self._connection = RespConnection(self._address)
            self._monitor = RespConnection(self._address)
        except OSError:
            self.close()
            return
        for request in (_HELLO, _LOADED, _NOTIFY):
            self._ask(request, now_ns, self._expect)
        for connection in (self._connection, self._monitor):
            if connection is self._monitor:
                connection.queue(_HELLO)
            connection.queue(_SUBSCRIBE)  # both are answered by notifications
            connection.queue(encode("SUBSCRIBE", self._beginning))
        self._monitor.queue(_MONITOR)
        self._send()  # which as a rule shows at once whether the node answers

    def _ask(self, request: bytes, now_ns: int, take: Callable[[object, int], None]) -> None:
        assert self._connection is not None
        self._connection.queue(request)
        self._questions.append(_Question(now_ns, take))

    def _send(self) -> None:
        for connection in (self._connection, self._monitor):
            try:
                if connection is not None:
                    connection.flush()
            except OSError:
                self.close()
                return

    def _hear(self) -> None:
        """Take what the monitor has received. Raises OSError if the connection has failed or ended."""
        monitor, causes = self._monitor, self._causes
        if monitor is None or not monitor.advance():
            return
        said: Any
        for said in monitor.replies():
            if isinstance(said, hiredis.PushNotification):
                if self._monitor_counts and said[0] == b"pmessage":
                    causes.notified(said[2].rpartition(b":")[2], said[3])
                elif said[0] == b"message":
                    self._monitor_counts = True
            elif isinstance(said, hiredis.ReplyError):
                raise ConnectionAbortedError(f"the server shows no requests: {said}")
            elif self._monitor_counts and isinstance(said, bytes):
                causes.line(said)
            elif said == _OK:
                self._ask(encode("PUBLISH", self._beginning, ""), monotonic_ns(), _ignore)

    def _receive(self) -> None:
        """Raises OSError if the connection has failed or ended."""
        connection = self._connection
        if connection is None:
            return
        if connection.advance():
            # Not before: a process that yields to all others may lose the processor while it receives, and what it then
            # reads can be younger than any stamp that it took first.
            now_ns = monotonic_ns()
            said: Any
            for said in connection.replies():
                is_notice = isinstance(said, hiredis.PushNotification)
                if is_notice and said[0] == b"message":
                    self._is_counting = True
                    self._ask(_DATABASES, now_ns, self._list_all)
                elif not is_notice or self._is_counting:
                    self._come.append(_Notice(said, now_ns, is_notice))
        self._handle()

    def _handle(self) -> None:
        """Take what has come, up to the first notification whose cause is not known yet."""
        come, found = self._come, self._causes.found
        while come or found:
            cause = found[0] if found else None
            if isinstance(cause, Flush):
                found.popleft()
                self._flushed(cause, monotonic_ns())
            elif not come or (come[0].is_counted and not found):
                return
            elif come[0].is_counted:
                found.popleft()
                notice = come.popleft()
                self._notified(notice.said, notice.at_ns, cause)
            else:
                self._answered(come.popleft())
            if self._connection is None:
                return  # closed, because of what this reply said

    def _answered(self, notice: _Notice) -> None:
        question = self._questions.popleft()
        self._proven_ns = question.asked_ns
        question.take(notice.said, notice.at_ns)
        if self._is_silent:
            self._is_silent = False
            self._ask(_DATABASES, monotonic_ns(), self._list_all)

    def _expect(self, answer: object, _now_ns: int) -> None:
        """An error (it is loading its data, or is no Redis that can be watched) ends the connection."""
        if isinstance(answer, hiredis.ReplyError):
            self.close()

    # What is told.

    def _notified(self, said: Sequence[bytes], now_ns: int, cause: Cause | None) -> None:
        channel = _CHANNEL.fullmatch(said[2])
        if channel is None or said[3].startswith(_MARK):
            return
        key, name = _WatchedKey(int(channel[1]), said[3]), channel[2]
        event, adds = _EVENTS.get(name, "changed"), name in _ADDS_FIELDS
        unread = self._unread.get(key)
        before: tuple[KeyEvent, ...] = ()
        if unread is not None and (event == "prolonged" or (adds and unread.adds)):
            if cause is unread.cause is None or (cause and unread.cause and cause.is_same(unread.cause)):
                # A part of SET PX, say; the key is yet to be read, which shows the time to live and the fields.
                if adds and cause is not None and unread.event.arguments is not None:
                    unread.event.arguments += cause.arguments[1:]
                return
            before = (*unread.before, unread.event)
            del self._unread[key]
        self._settle(key)
        told = self._tell(event, key, now_ns, cause=cause)
        told.is_hash = name in _OF_HASHES
        if event in ("set", "prolonged", "changed"):
            if event != "prolonged":  # one that is prolonged before it is listed was there before: it is yet to be seen
                self._known.setdefault(key, None)
            self._read(key, _Unread(told, cause, adds, before), now_ns)
        else:
            self._known.pop(key, None)

    def _flushed(self, flush: Flush, now_ns: int) -> None:
        for key in [key for key in self._known if flush.database in (None, key.database)]:
            self._settle(key)
            self._tell("deleted", key, now_ns, cause=flush.cause)
            del self._known[key]

    def _tell(
        self, event: KeyEventName, key: _WatchedKey, at_ns: int, value: str | None = None, cause: Cause | None = None
    ) -> KeyEvent:
        told = KeyEvent(self.node, at_ns, event, key.text, value, since_ns=self._proven_ns)
        if cause is not None:
            told.port, told.digest, told.command, told.place = cause[:4]
            told.arguments = _recorded(cause.arguments) if cause.is_script else None
        self._told.append(told)
        self._is_blind = False
        return told

    def _read(self, key: _WatchedKey, unread: _Unread, now_ns: int) -> None:
        """Ask for what the key holds and for how long. An answer counts only if nothing has happened to the key yet."""
        event = unread.event

        def is_newest() -> bool:
            return key in self._unread and self._unread[key].event is event

        def value(answer: object, _: int) -> None:
            if is_newest() and (held := _held(answer)) is not None:
                event.value, event.is_hash = held
                for older in unread.before if FIELDS_APART not in (event.value or "") or not event.is_hash else ():
                    older.value, older.is_hash = held

        def ttl(answer: object, at_ns: int) -> None:
            if is_newest():
                _lives_for(event, answer, at_ns)
                self._settle(key)

        self._unread[key] = unread
        self._incomplete.add(id(event))
        # What was set is known to be a string or a hash; the time to live of any type may have been extended.
        asks = ("HKEYS",) if event.is_hash else ("GET",) if event.event == "set" else ("GET", "HKEYS")
        self._ask_of(key, [(ask, value) for ask in asks] + [("PTTL", ttl)], now_ns)

    def _ask_of(self, key: _WatchedKey, asks: Sequence[tuple[str, Callable[[object, int], None]]], now_ns: int) -> None:
        """Ask for something of the key, in its database."""
        with self._selected(key.database, now_ns):
            for ask, take in asks:
                self._ask(encode(ask, key.name), now_ns, take)

    @contextmanager
    def _selected(self, database: int, now_ns: int) -> Iterator[None]:
        """What is asked meanwhile is asked of this database."""
        if database:
            self._ask(encode("SELECT", database), now_ns, _ignore)
        yield
        if database:
            self._ask(encode("SELECT", 0), now_ns, _ignore)

    def _settle(self, key: _WatchedKey) -> None:
        """Stop waiting for the key to be read: what is known of its newest events stays unchanged."""
        unread = self._unread.pop(key, None)
        if unread is None:
            return
        for event in (*unread.before, unread.event):
            known = self._known.get(key)
            self._incomplete.discard(id(event))
            if event.event == "set" and event.is_hash and known is not None and event.value in (known, None):
                event.event = "prolonged"  # the count of its owner changed; and unread, the fields were still there
            elif event.event == "set" or (event.value is not None and key in self._known):
                self._known[key] = event.value

    def _stop_watching(self) -> None:
        for key in list(self._unread):
            self._settle(key)
        self._known.clear()
        self.is_watching = False
        if not self._is_blind:
            self._told.append(KeyEvent(self.node, self._proven_ns, "blind"))
            self._is_blind = True

    # What is there when watching begins.

    def _list_all(self, answer: object, now_ns: int) -> None:
        if not isinstance(answer, bytes):
            self.close()
            return
        self._unlisted = [int(number) for number in re.findall(rb"^db(\d+):", answer, re.MULTILINE)]
        self._list_next(now_ns)

    def _list_next(self, now_ns: int) -> None:
        if self._unlisted:
            self._list(self._unlisted.pop(), b"0", now_ns)
        else:
            self._ask(_WHO, now_ns, self._all_is_known)

    def _list(self, database: int, cursor: bytes, now_ns: int) -> None:
        def listed(answer: object, at_ns: int) -> None:
            if not isinstance(answer, list):
                self.close()
                return
            further, names = answer
            for name in names:
                if not name.startswith(_MARK):
                    self._look(_WatchedKey(database, name), at_ns)
            if further == b"0":
                self._list_next(at_ns)
            else:
                self._list(database, further, at_ns)

        with self._selected(database, now_ns):
            self._ask(encode("SCAN", cursor, "COUNT", _PAGE), now_ns, listed)

    def _look(self, key: _WatchedKey, now_ns: int) -> None:
        found: list[tuple[str | None, bool]] = []

        def value(answer: object, _: int) -> None:
            if (held := _held(answer)) is not None:
                found.append(held)

        def exists(answer: object, at_ns: int) -> None:
            if answer != 1 or key in self._known:
                return  # it is gone again, or was set meanwhile and is known already
            self._settle(key)
            told = self._tell("seen", key, at_ns)
            told.value, told.is_hash = found[-1] if found else (None, False)
            self._known[key] = told.value
            self._unread[key] = _Unread(told)
            self._incomplete.add(id(told))

        def ttl(answer: object, at_ns: int) -> None:
            unread = self._unread.get(key)
            if unread is not None and unread.event.event == "seen":
                _lives_for(unread.event, answer, at_ns)
                self._settle(key)

        self._ask_of(key, [("GET", value), ("HKEYS", value), ("EXISTS", exists), ("PTTL", ttl)], now_ns)

    def _all_is_known(self, answer: object, now_ns: int) -> None:
        run_id = re.search(r"run_id:(\w+)", answer.decode(errors="replace") if isinstance(answer, bytes) else "")
        self._tell("watching", _WatchedKey(0, b""), now_ns, run_id[1] if run_id else None)
        self.is_watching = True


def _ignore(_answer: object, _now_ns: int) -> None:
    return


def _recorded(arguments: Sequence[str]) -> list[str] | None:
    """None if there are too many, or too long ones, for a record of them."""
    is_short = len(arguments) <= _MOST_ARGUMENTS and all(len(one) <= _LONGEST_ARGUMENT for one in arguments)
    return list(arguments) if is_short else None


def _lives_for(event: KeyEvent, answer: object, at_ns: int) -> None:
    """Note what PTTL answered, if the key expires at all."""
    if isinstance(answer, int) and answer >= 0:
        event.ttl_ms, event.read_ns = answer, at_ns


def _held(answer: object) -> tuple[str, bool] | None:
    """The value that GET or HKEYS answered, and whether the key is a hash; None if the key is of another type, or gone.

    The fields of a hash, of which there is one as a rule, are one value."""
    if isinstance(answer, bytes):
        return text_of(answer), False
    if isinstance(answer, list) and answer:
        return _fields_text(answer), True
    return None


def _fields_text(fields: Iterable[bytes]) -> str:
    """The fields of a hash as one value."""
    return FIELDS_APART.join(sorted(map(text_of, fields)))

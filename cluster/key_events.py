"""What happens to the keys of one node, as the node reports it: keyspace notifications over one RESP3 connection.

A notification names the key but not its value, so the key is read immediately. On a RESP3 connection notifications and
replies come in the order in which the node did things. So a value that was read belongs to the newest `set` before the
reply, and if the key was deleted or set again in between, the older value was too short-lived to be read and is
unknown. In the same way, an answer proves that every notification after it is later than the question: `since_ns`.

A lock may keep a hash instead of a string, with its owner as a field and a count as that field's value. Then the fields
are the key's value, and an event that leaves the fields as they were changed no owner.

Nothing here waits: the owner polls. The node is told what to notify about when the connection is made, so servers need
no configuration for it, and a run without a witness pays nothing.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic_ns
from typing import Final, NamedTuple

import hiredis

from cluster.base import Address
from cluster.probe import MARK_PREFIX
from cluster.resp import Connection, encode
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

_EVENTS: Final[dict[bytes, KeyEventName]] = {
    b"__keyevent@0__:set": "set",
    b"__keyevent@0__:expire": "prolonged",
    b"__keyevent@0__:persist": "prolonged",
    b"__keyevent@0__:del": "deleted",
    b"__keyevent@0__:expired": "expired",
    b"__keyevent@0__:hset": "set",
    b"__keyevent@0__:hincrby": "set",
    b"__keyevent@0__:hdel": "set",
}
_ADDS_FIELDS: Final = frozenset({b"__keyevent@0__:hset", b"__keyevent@0__:hincrby"})
_OF_HASHES: Final = _ADDS_FIELDS | {b"__keyevent@0__:hdel"}
_HELLO: Final = encode("HELLO", 3, "SETNAME", "fencepost-witness")
_NOTIFY: Final = encode("CONFIG", "SET", "notify-keyspace-events", "Eg$hx")
_SUBSCRIBE: Final = encode("SUBSCRIBE", *_EVENTS)
_PING: Final = encode("PING")
_WHO: Final = encode("INFO", "server")
_MARK: Final = MARK_PREFIX.encode()


class _Question(NamedTuple):
    """When something was asked, and what to do with the answer."""

    asked_ns: int
    take: Callable[[object, int], None]


class _Unread(NamedTuple):
    """An event whose key has yet to be read. `adds`: it left every field of the hash where it was."""

    event: KeyEvent
    adds: bool = False


class KeyEventStream:
    """One node's events. `advance` when the socket is ready, `upkeep` now and then, `take` what is complete."""

    def __init__(self, node: str, address: Address) -> None:
        self.node = node
        self.is_watching = False
        """Whether everything that the node holds is known."""
        self._address = address
        self._connection: Connection | None = None
        self._dialled_ns = 0
        self._redial_after_ns = 0
        self._questions: deque[_Question] = deque()
        self._proven_ns = 0
        """When the newest question was asked that the node has answered."""
        self._told: deque[KeyEvent] = deque()
        self._incomplete: set[int] = set()
        """The events that still wait for their key to be read, by identity."""
        self._unread: dict[bytes, _Unread] = {}
        """By key: its newest event, while the key has yet to be read."""
        self._known: dict[bytes, str | None] = {}
        """The keys that are known to exist, and their values; None for a value that is not known."""
        self._is_blind = True
        self._is_silent = False

    @property
    def fd(self) -> int | None:
        return None if self._connection is None else self._connection.fd

    @property
    def wants(self) -> int:
        """What to poll for."""
        return 0 if self._connection is None else self._connection.wants

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
        """The poller saw something on the socket."""
        try:
            self._receive()
        except OSError:
            self.close()
        self._send()

    def close(self) -> None:
        """Drop the connection. The last event is `blind`, at the last time for which the state is known."""
        self._redial_after_ns = REDIAL_NS if self.is_opening else 0
        if self._connection is not None:
            self._connection.close()
        self._connection, self._is_silent = None, False
        self._stop_watching()
        self._questions.clear()

    # The connection.

    def _dial(self, now_ns: int) -> None:
        self._dialled_ns = self._proven_ns = now_ns
        try:
            self._connection = Connection(self._address)
        except OSError:
            self.close()
            return
        self._ask(_HELLO, now_ns, self._expect)
        self._ask(_NOTIFY, now_ns, self._expect)
        self._connection.queue(_SUBSCRIBE)  # answered by notifications
        self._list(b"0", now_ns)
        self._send()  # which shows at once, as a rule, whether anybody is there

    def _ask(self, request: bytes, now_ns: int, take: Callable[[object, int], None]) -> None:
        assert self._connection is not None
        self._connection.queue(request)
        self._questions.append(_Question(now_ns, take))

    def _send(self) -> None:
        if self._connection is None:
            return
        try:
            self._connection.flush()
        except OSError:
            self.close()

    def _receive(self) -> None:
        """Raises OSError if the connection has failed or ended."""
        connection = self._connection
        assert connection is not None
        if not connection.advance():
            return
        # Not before: a process that yields to everybody may lose the processor while it receives, and what it then
        # reads can be younger than any stamp that it took first.
        now_ns = monotonic_ns()
        for reply in connection.replies():
            if isinstance(reply, hiredis.PushNotification):
                self._notified(reply, now_ns)
            else:
                question = self._questions.popleft()
                self._proven_ns = question.asked_ns
                question.take(reply, now_ns)
            if self._connection is None:
                return  # closed, because of what this reply said
        if self._is_silent:
            self._is_silent = False
            self._list(b"0", monotonic_ns())

    def _expect(self, answer: object, _now_ns: int) -> None:
        """An error (it is loading its data, or is no Redis that can be watched) ends the connection."""
        if isinstance(answer, hiredis.ReplyError):
            self.close()

    # What is told.

    def _notified(self, said: Sequence[object], now_ns: int) -> None:
        event = _EVENTS.get(said[1]) if said[0] == b"message" else None  # type: ignore[call-overload]
        if event is None:
            return
        key = said[2]
        assert isinstance(key, bytes)
        if key.startswith(_MARK):
            return
        adds = said[1] in _ADDS_FIELDS
        unread = self._unread.get(key)
        if unread is not None and (event == "prolonged" or (adds and unread.adds)):
            return  # as a part of SET PX, or before the key was read, which shows the time to live and the fields
        self._settle(key)
        told = self._tell(event, key, now_ns)
        told.is_hash = said[1] in _OF_HASHES
        if event in ("set", "prolonged"):
            self._known.setdefault(key, None)
            self._read(key, told, now_ns, adds)
        else:
            self._known.pop(key, None)

    def _tell(self, event: KeyEventName, key: bytes, at_ns: int, value: str | None = None) -> KeyEvent:
        told = KeyEvent(self.node, at_ns, event, text_of(key), value, since_ns=self._proven_ns)
        self._told.append(told)
        self._is_blind = False
        return told

    def _read(self, key: bytes, event: KeyEvent, now_ns: int, adds: bool) -> None:
        """Ask for what the key holds and for how long. An answer counts only if nothing has happened to the key yet."""

        def is_newest() -> bool:
            return key in self._unread and self._unread[key].event is event

        def value(answer: object, _: int) -> None:
            if is_newest() and (held := _held(answer)) is not None:
                event.value, event.is_hash = held

        def ttl(answer: object, at_ns: int) -> None:
            if is_newest():
                _lives_for(event, answer, at_ns)
                self._settle(key)

        self._unread[key] = _Unread(event, adds)
        self._incomplete.add(id(event))
        # What was set is known to be a string or a hash; the time to live of either may have been extended.
        asks = ("GET", "HKEYS") if event.event == "prolonged" else ("HKEYS",) if event.is_hash else ("GET",)
        for ask in asks:
            self._ask(encode(ask, key), now_ns, value)
        self._ask(encode("PTTL", key), now_ns, ttl)

    def _settle(self, key: bytes) -> None:
        """Stop waiting for the key to be read: what is known of its newest event stays unchanged."""
        unread = self._unread.pop(key, None)
        if unread is None:
            return
        event, known = unread.event, self._known.get(key)
        self._incomplete.discard(id(event))
        if event.event == "set" and event.is_hash and known is not None and event.value in (known, None):
            event.event = "prolonged"  # the count of its owner changed; and unread, the fields were still there
        elif event.event == "set" or event.value is not None:
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

    def _list(self, cursor: bytes, now_ns: int) -> None:
        self._ask(encode("SCAN", cursor, "COUNT", _PAGE), now_ns, self._listed)

    def _listed(self, answer: object, now_ns: int) -> None:
        if not isinstance(answer, list):
            self.close()
            return
        cursor, keys = answer
        for key in keys:
            if not key.startswith(_MARK):
                self._look(key, now_ns)
        if cursor == b"0":
            self._ask(_WHO, now_ns, self._all_is_known)
        else:
            self._list(cursor, now_ns)

    def _look(self, key: bytes, now_ns: int) -> None:
        found: list[tuple[str | None, bool]] = []

        def value(answer: object, _: int) -> None:
            if (held := _held(answer)) is not None:
                found.append(held)

        def exists(answer: object, at_ns: int) -> None:
            if answer != 1 or key in self._known:
                return  # it is gone again, or was set meanwhile and is known already
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

        self._ask(encode("GET", key), now_ns, value)
        self._ask(encode("HKEYS", key), now_ns, value)
        self._ask(encode("EXISTS", key), now_ns, exists)
        self._ask(encode("PTTL", key), now_ns, ttl)

    def _all_is_known(self, answer: object, now_ns: int) -> None:
        run_id = re.search(r"run_id:(\w+)", answer.decode(errors="replace") if isinstance(answer, bytes) else "")
        self._tell("watching", b"", now_ns, run_id[1] if run_id else None)
        self.is_watching = True


def _ignore(_answer: object, _now_ns: int) -> None:
    return


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

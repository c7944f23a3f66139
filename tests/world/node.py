"""A node: keys that expire, the commands that locks send, and a witness that tells what happened to the keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any, Final, Protocol

from cluster.key_causes import digest_of
from fencepost.history import KeyEvent
from tests.nemesis.fakes import FakeNode
from tests.world import lua
from tests.world.clock import Clock

_LOOKS_EVERY_NS: Final = 50_000_000
_SILENT_AFTER_NS: Final = 500_000_000
_EXPIRES_LATE_NS: Final = 100_000_000
_FILLS: Final = frozenset(["SET", "SETNX", "INCR", "DECR", "HSET", "HINCRBY", "ZADD", "RPUSH"])
_WRITES: Final = _FILLS | {"DEL", "PEXPIRE", "EXPIRE", "HDEL", "ZREM", "ZREMRANGEBYSCORE", "LPOP", "LREM"}


class RefusedError(Exception):
    """What a node answers when it refuses."""


@dataclass
class Asker:
    """A connection as its node sees it. `port`: 0 for the harness. `place`: of its next request."""

    port: int
    answer: Callable[[Any], object]
    place: int = 0
    channel: str = ""


class Ended(Protocol):
    """A connection, as its node sees it."""

    def lose_node(self) -> None: ...


@dataclass
class Store(FakeNode):
    """`keeps`: its keys outlive a kill."""

    clock: Clock = None  # type: ignore[assignment]
    keeps: bool = False
    events: list[KeyEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.ends_ms: dict[str, int] = {}
        self._versions: dict[str, int] = {}
        self._scripts: dict[str, str] = {}
        self._changes: list[tuple[str, str, Sequence[str]]] = []
        self._waiting: list[tuple[str, Asker, list[str], int, int]] = []
        self.listeners: list[Asker] = []
        self.connections: list[Ended] = []
        self._backlog: list[Callable[[], object]] = []
        self._run = self._proven_ns = self._told_ns = 0
        self._is_watched = False
        self._paused_ns = 0
        if self.name != "resource":
            self._watch()
            self._look_again()

    # What faults do to it.

    def kill(self) -> None:
        super().kill()
        self._backlog.clear()
        self._waiting.clear()
        self.listeners.clear()
        for connection in list(self.connections):
            connection.lose_node()
        self._scripts.clear()
        self._go_blind()
        if not self.keeps:
            self.keys.clear()
            self.ends_ms.clear()

    def start(self) -> None:
        if not self.running:
            self.refuses = None
            self._run += 1
            self.clock.after(self.clock.rng.randrange(1, 20) * 1e6, self._watch)
        super().start()

    def pause(self) -> None:
        if not self.paused:
            self._paused_ns = self.clock.now_ns
        super().pause()

    def resume(self) -> None:
        super().resume()
        backlog, self._backlog = self._backlog, []
        for call in backlog:
            call()

    # Requests.

    def receive(self, asker: Asker, words: list[str]) -> None:
        """It answers when it gets to it, if ever."""
        if self.paused:
            self._backlog.append(lambda: self.receive(asker, words))
        elif self.running:
            self._carry_out(asker, words)

    def _carry_out(self, asker: Asker, words: list[str]) -> None:
        place, asker.place = asker.place, asker.place + 1
        try:
            if words[0].upper() == "BLPOP" and words[1] not in self.keys:
                self._await(asker, words, place)
                return
            if words[0].upper() == "BLPOP":
                reply: Any = [words[1], self._do("LPOP", words[1])]
            elif words[0].upper() == "SUBSCRIBE":
                asker.channel, reply = words[1], ["subscribe", words[1], 1]
                self.listeners.append(asker)
            else:
                reply = self._do(*words)
        except (RefusedError, lua.StatusError) as error:
            reply = error
        self._tell(asker.port, words, place)
        asker.answer(reply)
        self._serve()

    def _await(self, asker: Asker, words: list[str], place: int) -> None:
        until_ns = self.clock.now_ns + int(float(words[-1]) * 1e9)
        one = (words[1], asker, words, place, until_ns)
        self._waiting.append(one)

        def give_up() -> None:
            if one in self._waiting:
                self._waiting.remove(one)
                asker.answer(None)

        self.clock.after(until_ns - self.clock.now_ns, give_up)

    def _serve(self) -> None:
        for one in list(self._waiting):
            key, asker, words, place, _ = one
            if key in self.keys:
                self._waiting.remove(one)
                answer = [key, self._do("LPOP", key)]
                self._tell(asker.port, words, place)
                asker.answer(answer)

    def _do(self, *words: str) -> Any:
        name, arguments = words[0].upper(), words[1:]
        if self.refuses is not None and name in (_FILLS if self.refuses == "out of memory" else _WRITES):
            raise RefusedError(
                "OOM command not allowed" if self.refuses == "out of memory" else "NOREPLICAS Not enough"
            )
        for key in [key for key in arguments[:1] if self._is_over(key)]:
            self._expire(key)
        self._did = (name, *arguments)
        return _COMMANDS[name](self, *arguments)

    def evaluate(self, script: str, number: str, *more: str) -> Any:
        self._scripts[sha1(script.encode()).hexdigest()] = script
        return lua.run(script, more[: int(number)], more[int(number) :], self._do)

    def evaluate_known(self, digest: str, *more: str) -> Any:
        if digest not in self._scripts:
            raise RefusedError("NOSCRIPT No matching script")
        return self.evaluate(self._scripts[digest], *more)

    def set(self, key: str, value: str, *options: str) -> Any:
        upper = [option.upper() for option in options]
        if "NX" in upper and key in self.keys:
            return None
        self._put(key, value, "set")
        self.ends_ms.pop(key, None)
        for unit, ms in (("PX", 1), ("EX", 1_000)):
            if unit in upper:
                self.ends_ms[key] = self.clock.wall_ms() + ms * int(options[upper.index(unit) + 1])
                self._await_expiry(key)
        return b"OK"

    def expire(self, key: str, ms: int) -> int:
        if key not in self.keys:
            return 0
        if ms <= 0:
            return self.delete(key)
        self.ends_ms[key] = self.clock.wall_ms() + ms
        self._changed(key, "prolonged")
        self._await_expiry(key)
        return 1

    def delete(self, *keys: str) -> int:
        there = [key for key in keys if self.keys.pop(key, None) is not None]
        for key in there:
            self.ends_ms.pop(key, None)
            self._changed(key, "deleted")
        return len(there)

    def put(self, key: str, value: Any, reply: Any, event: str = "changed") -> Any:
        """A list, a hash or a sorted set that is empty is gone."""
        self._put(key, value, event)
        if not value:
            self.delete(key)
        return reply

    def _put(self, key: str, value: Any, event: str) -> None:
        self.keys[key] = value
        self._changed(key, event)

    def _is_over(self, key: str) -> bool:
        return self.clock.wall_ms() > self.ends_ms.get(key, 2**62)

    def _await_expiry(self, key: str) -> None:
        def look() -> None:
            if self.running and self._is_over(key):
                self._backlog.append(look) if self.paused else self._expire(key)

        left_ms = self.ends_ms[key] - self.clock.wall_ms() + 1
        self.clock.after(left_ms * 1e6 + self.clock.rng.randrange(_EXPIRES_LATE_NS), look)

    def _expire(self, key: str) -> None:
        if self.keys.pop(key, None) is not None:
            del self.ends_ms[key]
            self._tell_one("expired", key)

    def publish(self, channel: str, text: str) -> int:
        heard = [asker for asker in self.listeners if asker.channel == channel]
        for asker in heard:
            asker.answer(["message", channel, text])
        return len(heard)

    # What the witness sees.

    def _changed(self, key: str, event: str) -> None:
        self._changes.append((key, event, self._did))

    def _tell(self, port: int, words: Sequence[str], place: int) -> None:
        """The events of one request: what only prolongs a key that it has changed is one with that change."""
        changes, self._changes = self._changes, []
        told: dict[str, str] = {}
        said = said_words(words)
        for key, event, did in changes:
            if not (event == "prolonged" and key in told):
                self._tell_one(event, key, (port, digest_of(said), place, did))
                told[key] = event

    def _tell_one(self, event: Any, key: str, cause: tuple[int, int, int, Sequence[str]] | None = None) -> None:
        version = self._versions[key] = self._versions.get(key, 0) + 1
        if not self._is_watched:
            return
        clock = self.clock
        self._told_ns = max(self._told_ns, clock.now_ns + clock.rng.randrange(50_000, 3_500_000))
        told = KeyEvent(self.name, self._told_ns, event, key, since_ns=self._proven_ns)
        if cause is not None:
            told.port, told.digest, told.place, (told.command, *told.arguments) = cause
        self.events.append(told)
        told.is_hash = isinstance(self.keys.get(key), dict) and event == "set"
        if event in ("set", "prolonged", "changed"):
            asked_ns = self._told_ns
            self.clock.after(asked_ns + 200_000 - clock.now_ns, lambda: self._read(told, version, asked_ns))

    def _read(self, told: KeyEvent, version: int, asked_ns: int) -> None:
        if not self._is_watched or self.paused:
            return
        self._proven_ns = max(self._proven_ns, asked_ns)
        if self._versions[told.key] == version and told.key in self.keys and not self._is_over(told.key):
            self._show(told)

    def _show(self, told: KeyEvent) -> None:
        value = self.keys[told.key]
        told.is_hash = isinstance(value, dict) and not any(isinstance(score, float) for score in value.values())
        if isinstance(value, str) or told.is_hash:
            told.value = value if isinstance(value, str) else ", ".join(sorted(value))
        if told.key in self.ends_ms:
            told.ttl_ms, told.read_ns = self.ends_ms[told.key] - self.clock.wall_ms(), self.clock.now_ns

    def _watch(self) -> None:
        """The witness learns what is there."""
        if not self.running or self.paused or self._is_watched:
            return
        now_ns = self._told_ns = max(self._told_ns, self.clock.now_ns)
        since_ns = self._proven_ns = max(self._proven_ns, now_ns - 1_000_000)
        for key in [key for key in self.keys if not self._is_over(key)]:
            told = KeyEvent(self.name, now_ns, "seen", key, since_ns=since_ns)
            self._show(told)
            self.events.append(told)
        self.events.append(KeyEvent(self.name, now_ns, "watching", "", f"{self.name}-{self._run}", since_ns=since_ns))
        self._is_watched = True

    def _look_again(self) -> None:
        if self._is_watched and not self.paused:
            self._proven_ns = max(self._proven_ns, self.clock.now_ns - 1_000_000)
        elif self.paused and self.clock.now_ns - self._paused_ns > _SILENT_AFTER_NS:
            self._go_blind()
        self._watch()
        self.clock.after(_LOOKS_EVERY_NS, self._look_again)

    def _go_blind(self) -> None:
        if self._is_watched:
            self.events.append(KeyEvent(self.name, self._proven_ns, "blind"))
        self._is_watched = False


def said_words(words: Sequence[str]) -> list[str]:
    """As the record has them."""
    name = words[0].upper()
    hashed = [sha1(words[1].encode()).hexdigest()] if name == "EVAL" else list(words[1:2])
    return [name, *hashed, *words[2:]]


def _members(store: Store, key: str, kind: type) -> Any:
    return store.keys.setdefault(key, kind()) if key in store.keys else kind()


def _hset(store: Store, key: str, name: str, value: str) -> int:
    fields = _members(store, key, dict)
    is_new = name not in fields
    return int(store.put(key, fields | {name: value}, is_new, "set"))


def _add(store: Store, key: str, score: str, member: str) -> int:
    return store.put(key, _members(store, key, dict) | {member: float(score)}, 1)


def _without(store: Store, key: str, gone: Callable[[Any], bool]) -> int:
    members = _members(store, key, dict)
    left = {name: value for name, value in members.items() if not gone(name)}
    return store.put(key, left, len(members) - len(left)) if len(left) < len(members) else 0


def _push(store: Store, key: str, value: str) -> int:
    pushed = [*_members(store, key, list), value]
    return store.put(key, pushed, len(pushed))


def _pop(store: Store, key: str) -> str | None:
    first, *rest = store.keys.get(key) or [None]
    return store.put(key, rest, first) if first is not None else None


def _place(store: Store, key: str, value: str) -> int | None:
    members = _members(store, key, list)
    return members.index(value) if value in members else None


def _score(store: Store, key: str, member: str) -> str | None:
    score = _members(store, key, dict).get(member)
    return None if score is None else f"{score:.17g}"


def _left(store: Store, key: str) -> int:
    return -2 if key not in store.keys else store.ends_ms[key] - store.clock.wall_ms() if key in store.ends_ms else -1


def _setnx(store: Store, key: str, value: str) -> int:
    return int(store.set(key, value, "NX") is not None)


def _at(store: Store, key: str, place: str) -> str | None:
    return next(iter(_members(store, key, list)[int(place) :]), None)


def _take_out(store: Store, key: str, _: str, value: str) -> int:
    members = _members(store, key, list)
    left = [each for each in members if each != value]
    return store.put(key, left, len(members) - len(left)) if left != members else 0


_COMMANDS: Final[dict[str, Callable[..., Any]]] = {
    "PING": lambda _: b"PONG",
    "TIME": lambda store: [str(store.clock.wall_ms() // 1000), str(store.clock.wall_ms() % 1000 * 1000)],
    "GET": lambda store, key: store.keys.get(key),
    "SET": Store.set,
    "SETNX": _setnx,
    "DEL": Store.delete,
    "EXISTS": lambda store, *keys: sum(key in store.keys for key in keys),
    "PEXPIRE": lambda store, key, ms: store.expire(key, int(float(ms))),
    "EXPIRE": lambda store, key, seconds: store.expire(key, 1_000 * int(seconds)),
    "PTTL": _left,
    "INCR": lambda store, key: store.put(key, str(n := int(store.keys.get(key, 0)) + 1), n),
    "DECR": lambda store, key: store.put(key, str(n := int(store.keys.get(key, 0)) - 1), n),
    "HSET": _hset,
    "HEXISTS": lambda store, key, name: int(name in _members(store, key, dict)),
    "ZADD": _add,
    "ZCARD": lambda store, key: len(_members(store, key, dict)),
    "ZSCORE": _score,
    "ZREM": lambda store, key, member: _without(store, key, lambda name: name == member),
    "ZREMRANGEBYSCORE": lambda store, key, _, most: _without(
        store, key, lambda name: store.keys[key][name] <= float(most)
    ),
    "RPUSH": _push,
    "LPOP": _pop,
    "LINDEX": _at,
    "LPOS": _place,
    "LREM": _take_out,
    "LRANGE": lambda store, key, begin, _: _members(store, key, list)[int(begin) :],
    "EVAL": Store.evaluate,
    "EVALSHA": Store.evaluate_known,
    "SCRIPT": lambda store, _, script: (
        store._scripts.setdefault(sha1(script.encode()).hexdigest(), script) and sha1(script.encode()).hexdigest()
    ),
    "PUBLISH": Store.publish,
}

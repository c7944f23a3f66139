"""The author's lock behind the lock protocol.

The author names a class or a function. It is called with the nodes and returns an object with either

    acquire(key, ttl_ms)    what names the lease: text, bytes, a `Lease` or any other object; None or False: refused
    release(held)           False: it was no longer held. `held` is what acquire returned
    extend(held, ttl_ms)    optional; like acquire, and True means that the same lease goes on

or

    lock(key, ttl_ms)       a context manager, which is entered to acquire and left to release

Each may be a coroutine, and the context manager an asynchronous one. `is_held(held)` and `describe()` are optional. An
exception leaves open what happened, unless it is one of those that the object's `refused_by` names.
"""

from __future__ import annotations

import platform
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_fencepost.adapter.calls import Calls
from pytest_fencepost.adapter.fencepost_adapter import Answer, Nodes, Value, fail, ok
from pytest_fencepost.lease import Lease


@dataclass(frozen=True)
class Node:
    """A server that the lock is to use. `password`: of its default user, if it asks for one; `url` has it too."""

    host: str
    port: int
    url: str
    password: str | None = None


def open_lock(make: Callable[[Sequence[Node]], Any], target: str, nodes: Nodes) -> AuthorLock:
    """Call what the author named as `target`. Raises TypeError if it does not give a lock."""
    calls = Calls()
    lock = calls.call(make, [Node(node["host"], node["port"], node["url"], node.get("password")) for node in nodes])
    names = ("lock",) if hasattr(lock, "lock") else ("acquire", "release")
    if missing := [name for name in names if not callable(getattr(lock, name, None))]:
        raise TypeError(
            f"{target} gave a {type(lock).__name__} that has no {' and no '.join(missing)}; it needs "
            "acquire(key, ttl_ms) and release(held), or lock(key, ttl_ms) that returns a context manager"
        )
    kind = RenewedLock if hasattr(lock, "is_held") else AuthorLock
    return kind(lock, target, calls)


class AuthorLock:
    """What `fencepost_adapter.serve` calls."""

    def __init__(self, lock: Any, target: str, calls: Calls) -> None:
        self._lock = lock
        self._target = target
        self._calls = calls
        self._is_entered = hasattr(lock, "lock")
        self._refusals: tuple[type[BaseException], ...] = tuple(getattr(lock, "refused_by", ()))
        self._held: dict[Value, list[Any]] = {}
        """What the lock returned, by what names the lease; the newest last, where one name is of several."""
        self._guard = threading.Lock()

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        try:
            if self._is_entered:
                held: Any = self._calls.inside(self._lock.lock(key, ttl_ms))
                given = self._calls.call(held.enter)
            else:
                given = held = self._calls.call(self._lock.acquire, key, ttl_ms)
                if given is None or given is False:
                    return fail()
        except self._refusals as error:
            return fail(error)
        return self._granted(given, held, None)

    def extend(self, key: str, value: Value, ttl_ms: int) -> Answer:
        if not hasattr(self._lock, "extend"):
            return fail(f"{self._target} has no extend")
        held = self._held[value][-1]
        try:
            given = self._calls.call(self._lock.extend, held, ttl_ms)
        except self._refusals as error:
            return fail(error)
        if given is None or given is False:
            return fail()
        self._take(value)
        return self._granted(given, held if given is True else given, value)

    def release(self, key: str, value: Value) -> Answer:
        held = self._take(value)
        try:
            if self._is_entered:
                self._calls.call(held.leave)
                return ok()
            return fail() if self._calls.call(self._lock.release, held) is False else ok()
        except self._refusals as error:
            return fail(error)

    def describe(self) -> Answer:
        told = self._calls.call(self._lock.describe) if hasattr(self._lock, "describe") else {}
        return {"library": self._target, "python": platform.python_version(), **told}

    def _take(self, value: Value) -> Any:
        with self._guard:
            held = self._held[value].pop()
            if not self._held[value]:
                del self._held[value]
        return held

    def _granted(self, given: Any, held: Any, old: Value | None) -> Answer:
        """The answer to a grant. `given` tells of it, `held` is what the lock wants to see again, and `old` named the
        lease until now if it was extended."""
        value = given.value if isinstance(given, Lease) else given
        if not isinstance(value, (str, bytes)):
            value = uuid.uuid4().hex if old is None else old
        with self._guard:
            self._held.setdefault(value, []).append(held)
        names = ("validity_ms", "deadline_ns", "token") if isinstance(given, Lease) else ()
        told = {name: said for name in names if (said := getattr(given, name)) is not None}
        bounds = self._calls.computed if "validity_ms" in told else self._calls.around
        return ok(value=value, **told, **bounds)


class RenewedLock(AuthorLock):
    """A lock that can say whether it is still held."""

    def held(self, key: str, value: Value) -> Answer:
        return ok() if self._calls.call(self._lock.is_held, self._held[value][-1]) else fail()

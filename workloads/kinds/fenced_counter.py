"""A counter behind the lock: read it, hold the lock for a while, write it plus one, perhaps with a fencing token.

If the lock excludes, the counter ends at the number of writes. The client does *not* check the clock before it writes:
the harm done by a holder whose lease has expired is what is being measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from fencepost.errors import UsageError
from fencepost.history import Op, Write
from workloads.counter import Counter
from workloads.fencing import DRAW_TOKEN, STORIES, TokenSteps
from workloads.lock_steps import LockSteps
from workloads.options import ClientOptions
from workloads.redis_counter import READ, WRITE, RedisCounter
from workloads.resource import Resource
from workloads.workload import Workload


class CounterSteps(TokenSteps):
    """Keeps the value that was read."""

    is_committed_by_release: ClassVar[bool] = False

    def __init__(self, lock: LockSteps, resource: Resource) -> None:
        super().__init__(lock, resource)
        self._value: int | None = None
        self.counter = self.open_counter()

    def open_counter(self) -> Counter:
        return RedisCounter(self.resource)

    def read(self) -> Op:
        """Read the key's counter, with the token if reads carry one."""
        key = self.lock.held("read").key
        if self._fencing == "all":
            self.check_token("read")
        shown = self._token if self._fencing == "all" else None
        source = None if shown is None else self._source
        op = self.lock.step("read", lambda: self.counter.read(key, shown), "value", token=shown, token_source=source)
        self._value = op.value
        return op

    def write(self) -> Op:
        """Write the value that was read plus one, with the token unless fencing is off."""
        lock = self.lock
        key = lock.held("write").key
        self.check_token("write")
        if self._value is None:
            raise UsageError(f"{lock.client} has not read the counter of {key}; read it before it is written")
        new = Write(key, 0, lock.client, lock.section, self._value + 1, self._token)
        return lock.step(
            "write",
            lambda: self.counter.write(new, check=self._fencing != "none"),
            is_committed_by_release=self.is_committed_by_release,
            value=new.value,
            token=self._token,
            token_source=self._source,
        )


class FencedCounter(Workload):
    inside = CounterSteps
    checkers = ("counter", "fencing")
    fencings = ("none", "writes", "all")
    guards_data = True
    scripts = (DRAW_TOKEN, READ, WRITE)

    def final(self, resource: Resource, keys: Iterable[str]) -> Mapping[str, int]:
        return RedisCounter(resource).final(keys)

    def story(self, options: ClientOptions) -> str:
        return (
            f"A client that acquired it read a counter, stayed inside for {options.stay_in_words}, wrote it back plus "
            f"one, and released the lock. {STORIES[options.fencing]}"
        )


WORKLOAD = FencedCounter()

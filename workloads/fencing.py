"""Fencing by tokens, for workloads whose sections read something and write it back.

Two strengths of fencing, after Kleppmann, "How to do distributed locking" (2016), made precise. A token that only
writes show protects against a write that comes after the next holder's *write*. A write that lands between the next
holder's read and its write passes, because the resource has not seen the larger token yet, and is then overwritten.
Only a token that reads show as well closes that gap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, cast

from fencepost.errors import UsageError
from fencepost.history import Op, TokenSource
from workloads.lock_steps import LockSteps
from workloads.resource import Resource
from workloads.workload import Inside

CHECK_TOKEN: Final = """
if ARGV[1] ~= '' then
  local seen = tonumber(redis.call('GET', KEYS[2]) or '0')
  if seen > tonumber(ARGV[1]) then return redis.error_reply('STALE ' .. seen) end
  if seen < tonumber(ARGV[1]) then redis.call('SET', KEYS[2], ARGV[1]) end
end
"""
"""The beginning of a script that checks a token: ARGV[1], or nothing if it is empty. KEYS[2] keeps the largest token
that was seen of the key."""

DRAW_TOKEN: Final = "return redis.call('INCR', KEYS[1])"

STORIES: Final = {
    "none": "No fencing token was used, so only the lock kept clients apart.",
    "writes": "Writes carried a fencing token, which the store checked; reads did not.",
    "all": "Reads and writes carried a fencing token, which the store checked.",
}


def seen_key(key: str) -> str:
    """Where the resource keeps the largest token that it has seen of this key."""
    return f"seen:{key}"


class TokenSteps(Inside, ABC):
    """A section that reads a value and writes another one, and shows a fencing token if the options say so."""

    steps: ClassVar[tuple[str, ...]] = ("token", "read", "write")

    def __init__(self, lock: LockSteps, resource: Resource) -> None:
        super().__init__(lock, resource)
        self._fencing = lock.options.fencing
        self._token = lock.held("begin its work").token
        self._source: TokenSource | None = None if self._token is None else "lock"

    @property
    def needs_token(self) -> bool:
        """Whether the resource requires a token, and the lock granted none and none was drawn."""
        return self._fencing in ("writes", "all") and self._token is None

    def work(self, stay: Callable[[], bool]) -> None:
        """Draw a token, read, stay (and extend), write; stop at the first step that does not succeed."""
        if self.needs_token and self.token().outcome != "ok":
            return
        if self.read().outcome != "ok":
            return
        if stay():
            self.write()

    def token(self) -> Op:
        """Draw the key's next fencing token from the resource."""
        key = self.lock.held("draw a token").key

        def draw() -> int:
            return cast(int, self.resource.run(DRAW_TOKEN, [f"token:{key}"], []))

        op = self.lock.step("token", draw, "token", token_source="resource")
        if op.token is not None:
            self._token, self._source = op.token, "resource"
        return op

    @abstractmethod
    def read(self) -> Op: ...

    @abstractmethod
    def write(self) -> Op: ...

    def check_token(self, step: str) -> None:
        """Raise UsageError if the step requires a token and there is none."""
        if self.needs_token:
            raise UsageError(
                f"{self.lock.client} must show a token with --fencing {self._fencing}; draw one before {step}"
            )

"""A register behind the lock: read it, hold the lock for a while, write a new value, perhaps as a check-and-set.

With `--fencing unique` the write is checked against the lock's unique value, with `writes` or `all` against a token,
with `none` not at all.

A check-and-set needs no order, so it works with locks that grant no token: a client that comes in leaves the unique
value of its lease in the resource, and its write is accepted only while that value is still there (Sanfilippo, "Is
Redlock safe?", 2016). A later client replaces it, so a late write is refused.

The resource numbers all reads, and a client writes the number of its read. So no value is written twice, and an
accepted write shows what it builds on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from fencepost.errors import UsageError
from fencepost.history import Op, Write
from workloads.fencing import CHECK_TOKEN, DRAW_TOKEN, STORIES, TokenSteps, seen_key
from workloads.lock_steps import LockSteps
from workloads.options import ClientOptions
from workloads.resource import ACCEPTED, Resource, encoded
from workloads.workload import Workload

READ: Final = f"""{CHECK_TOKEN}
if ARGV[2] ~= '' then redis.call('SET', KEYS[3], ARGV[2]) end
return {{redis.call('GET', KEYS[1]) or '0', redis.call('INCR', KEYS[4])}}
"""
"""Leaves the unique value ARGV[2] (if any). Returns the register and the number of this read."""

WRITE: Final = f"""{CHECK_TOKEN}
if ARGV[2] ~= '' and redis.call('GET', KEYS[3]) ~= ARGV[2] then
  return redis.error_reply('STALE the unique value of another lease is there')
end
local replaced = redis.call('GET', KEYS[1]) or '0'
redis.call('SET', KEYS[1], ARGV[3])
redis.call('RPUSH', KEYS[4], string.sub(ARGV[4], 1, -2) .. ',"replaced":' .. replaced .. '}}')
return 1
"""
"""Sets the register to ARGV[3], if the unique value ARGV[2] (if any) is still there. ARGV[4] is the record; what the
write replaced is added to it."""

LAST_READ: Final = "return redis.call('GET', KEYS[1]) or '0'"

_STORY_OF_UNIQUE: Final = (
    "It left the unique value of its lease in the store when it read, and the store accepted its write only while that "
    "value was still there."
)


class RegisterSteps(TokenSteps):
    """Keeps the value that was read and the number of that read, until a write has used them."""

    def __init__(self, lock: LockSteps, resource: Resource) -> None:
        super().__init__(lock, resource)
        self._read: tuple[int, int] | None = None

    def read(self) -> Op:
        """Read the register, with the token if reads carry one, and leave the lease's unique value if that is
        checked."""
        lease = self.lock.held("read")
        if self._fencing == "all":
            self.check_token("read")
        key, unique = lease.key, self._unique
        shown = self._token if self._fencing == "all" else None
        self._read = None

        def read() -> int:
            keys = [_value_key(key), seen_key(key), _unique_key(key), "reads"]
            value, number = cast(list[str], self.resource.run(READ, keys, ["" if shown is None else shown, unique]))
            self._read = int(value), int(number)
            return int(value)

        source = None if shown is None else self._source
        return self.lock.step("read", read, "value", token=shown, token_source=source)

    def write(self) -> Op:
        """Write the number of the read, with the token or the unique value if one is checked."""
        lock = self.lock
        key = lock.held("write").key
        self.check_token("write")
        if self._read is None:
            raise UsageError(f"{lock.client} has not read the register of {key}; read it before each write")
        (value, number), self._read = self._read, None
        new = Write(key, 0, lock.client, lock.section, number, self._token, read=value)
        shown = self._token if self._fencing in ("writes", "all") else None
        unique = self._unique

        def write() -> None:
            keys = [_value_key(key), seen_key(key), _unique_key(key), ACCEPTED]
            self.resource.run(WRITE, keys, ["" if shown is None else shown, unique, number, encoded(new)])

        return lock.step("write", write, value=number, token=self._token, token_source=self._source)

    @property
    def _unique(self) -> str:
        """What is left and checked: never empty, even if the lock has no unique value; then it is always the same, and
        the check protects nothing."""
        return f"={self.lock.held('write').value}" if self._fencing == "unique" else ""


class Register(Workload):
    inside = RegisterSteps
    checkers = ("fencing", "register")
    fencings = ("none", "writes", "all", "unique")
    guards_data = True
    scripts = (DRAW_TOKEN, READ, WRITE, LAST_READ)

    def final(self, resource: Resource, keys: Iterable[str]) -> Mapping[str, int]:
        return {key: int(cast(str, resource.run(LAST_READ, [_value_key(key)], []))) for key in keys}

    def story(self, options: ClientOptions) -> str:
        fencing = _STORY_OF_UNIQUE if options.fencing == "unique" else STORIES[options.fencing]
        return (
            f"A client that acquired it read a register, stayed inside for {options.stay_in_words}, wrote a new value, "
            f"and released the lock. {fencing}"
        )


def _value_key(key: str) -> str:
    return f"value:{key}"


def _unique_key(key: str) -> str:
    return f"unique:{key}"


WORKLOAD = Register()

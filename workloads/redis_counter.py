"""The counter in a Redis of its own, by scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from fencepost.history import Write
from workloads.fencing import CHECK_TOKEN, seen_key
from workloads.resource import ACCEPTED, Resource, encoded

READ: Final = f"""{CHECK_TOKEN}
return redis.call('GET', KEYS[1])
"""

WRITE: Final = f"""{CHECK_TOKEN}
redis.call('SET', KEYS[1], ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[3])
return 1
"""


class RedisCounter:
    """`workloads.counter.Counter`."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource

    def read(self, key: str, token: int | None) -> int:
        value = self._resource.run(READ, [f"value:{key}", seen_key(key)], ["" if token is None else token])
        return 0 if value is None else int(cast(str, value))

    def write(self, new: Write, *, check: bool) -> None:
        shown = new.token if check and new.token is not None else ""
        keys = [f"value:{new.key}", seen_key(new.key), ACCEPTED]
        self._resource.run(WRITE, keys, [shown, new.value, encoded(new)])

    def final(self, keys: Iterable[str]) -> Mapping[str, int]:
        return {key: self.read(key, None) for key in keys}

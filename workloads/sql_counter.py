"""The counter in the database that grants the lock, by statements of SQL.

A write keeps its row until its transaction ends, so writes of a key are numbered in the order in which they are
committed, whatever the lock does. No token is checked: a client that lost its transaction cannot commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

import msgspec

from fencepost.history import Write
from workloads.resource import Resource, encoded

TABLES: Final = """
CREATE TABLE IF NOT EXISTS counters (key text PRIMARY KEY, value bigint NOT NULL);
CREATE TABLE IF NOT EXISTS accepted (number bigserial PRIMARY KEY, write text NOT NULL);
GRANT ALL ON counters, accepted, accepted_number_seq TO PUBLIC
"""

READ: Final = "SELECT value FROM counters WHERE key = $1"

WRITE: Final = """
WITH put AS (
  INSERT INTO counters VALUES ($1, $2::bigint) ON CONFLICT (key) DO UPDATE SET value = excluded.value RETURNING key
) INSERT INTO accepted (write) SELECT $3 FROM put
"""

FINAL: Final = "SELECT coalesce(json_object_agg(key, value), '{}') FROM counters"

ACCEPTED: Final = "SELECT coalesce(json_agg(write::json ORDER BY number), '[]') FROM accepted"
"""The accepted writes, oldest first, as JSON."""


class SqlCounter:
    """`workloads.counter.Counter`."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource

    def read(self, key: str, token: int | None) -> int:
        value = self._resource.run(READ, [key], [])
        return 0 if value is None else int(cast(str, value))

    def write(self, new: Write, *, check: bool) -> None:
        self._resource.run(WRITE, [new.key], [str(new.value), encoded(new).decode()])

    def final(self, keys: Iterable[str]) -> Mapping[str, int]:
        left = msgspec.json.decode(cast(str, self._resource.run(FINAL, [], [])), type=dict[str, int])
        return {key: left.get(key, 0) for key in keys}

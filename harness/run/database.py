"""The data that clients keep in the lock's own database (`Workload.tables`), as the harness sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from cluster.address import Address
from cluster.server import Query
from fencepost.errors import BrokenEnvironmentError, InternalError
from fencepost.history import Write
from workloads.sql_counter import ACCEPTED


class Database:
    """`workloads.resource.Resource`, for statements without values. Raises OSError if the database does not answer."""

    def __init__(self, query: Query, address: Address, timeout_ms: float) -> None:
        self._query = query
        self._address = address
        self._timeout_ms = timeout_ms

    def make(self, tables: str) -> None:
        """Raises BrokenEnvironmentError."""
        try:
            self.run(tables, [], [])
        except OSError as error:
            raise BrokenEnvironmentError(f"the tables of the workload cannot be made: {error}") from error

    def run(self, script: str, keys: Sequence[str], args: Sequence[object]) -> object:
        if keys or args:
            raise InternalError("the harness asks the database for values of no client")
        rows = self._query(self._address, script, self._timeout_ms)
        return rows[0][0] if rows else None

    def accepted_since(self, count: int) -> list[Write]:
        """The accepted writes after the first `count` ones, oldest first. Only when no transaction is open any more:
        one that was numbered early may commit late."""
        return msgspec.json.decode(cast(str, self.run(ACCEPTED, [], [])), type=list[Write])[count:]

    def close(self) -> None:
        """Each request has a connection of its own."""

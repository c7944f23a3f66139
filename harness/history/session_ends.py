"""When the session in which a client was granted a lock ended, as the proxy saw its connection."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.history import process_of
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Ints


class SessionEnds:
    """When the connections of each client to these nodes were opened and closed, and by which side. `connections`: as
    in `harness.store.wire`."""

    def __init__(self, connections: pa.Table, nodes: Collection[str]) -> None:
        is_own = pc.and_(pc.equal(connections["by"], "client"), pc.is_in(connections["node"], pa.array(list(nodes))))
        own = connections.filter(pc.and_(is_own, connections["is_reached"]))
        self._client = np.array(own["client"].to_pylist(), object)
        names = ("opened_ns", "client_closed_ns", "node_closed_ns")
        self._opened, self._by_client, by_node = (_times(own, name) for name in names)
        self._by_either = np.minimum(self._by_client, by_node)

    def of(self, client: str, asked_ns: int, start_ns: int, *, by_client: bool = False) -> int:
        """The latest time at which a session can have ended whose client asked for the lock and was granted it at these
        times; FOREVER_NS if it may have gone on. `by_client`: the client itself had closed by then."""
        closed = self._by_client if by_client else self._by_either
        is_own = self._client == process_of(client)
        may_hold = is_own & (self._opened <= start_ns) & (self._by_either >= asked_ns)
        return int(closed[may_hold].max()) if may_hold.any() else FOREVER_NS


def _times(table: pa.Table, name: str) -> Ints:
    times: Ints = table[name].fill_null(FOREVER_NS).to_numpy()
    return times

"""What went over the links, from the proxy's record to two tables.

While a run is on, the proxy records every moment of every link (`harness.store.wire_files`). When the run is over, each
server's object decodes its protocol (`harness.store.wire_reading`), and two tables take the place of the proxy's files
(`harness.store.wire_folder`):

    requests.parquet     a row a request: client, node, connection, command, the four times, the reply
    connections.parquet  a row a connection: when it was opened and closed, by which side, and its bytes

A time is missing where that moment never came. So a request without `to_node_ns` was lost on the way there, one without
`from_node_ns` was never answered, and one without `to_client_ns` was answered, but the client did not learn it.
"""

from __future__ import annotations

from typing import Final

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.errors import UsageError
from harness.history.change_causes import scripts_of
from harness.store.columns import NAME, column

REQUESTS: Final = "requests.parquet"
CONNECTIONS: Final = "connections.parquet"
REQUESTS_SCHEMA: Final = pa.schema(
    [
        column("client", NAME),
        column("node", NAME),
        column("connection", pa.int32()),
        column("by", NAME),
        column("task", NAME, optional=True),
        column("user", NAME),
        column("database", pa.int32()),
        column("command", NAME),
        column("keys", pa.list_(pa.string())),
        column("arguments", pa.list_(pa.string())),
        column("transaction", pa.int32(), optional=True),
        column("from_client_ns", pa.int64(), optional=True),
        column("to_node_ns", pa.int64(), optional=True),
        column("from_node_ns", pa.int64(), optional=True),
        column("to_client_ns", pa.int64(), optional=True),
        column("reply", pa.string(), optional=True),
    ]
)
CONNECTIONS_SCHEMA: Final = pa.schema(
    [
        column("client", NAME),
        column("node", NAME),
        column("connection", pa.int32()),
        column("by", NAME),
        column("node_port", pa.int32(), optional=True),
        column("opened_ns", pa.int64()),
        column("is_reached", pa.bool_()),
        column("client_closed_ns", pa.int64(), optional=True),
        column("node_closed_ns", pa.int64(), optional=True),
        column("proxy_closed_ns", pa.int64(), optional=True),
        column("from_client_bytes", pa.int64()),
        column("to_node_bytes", pa.int64()),
        column("from_node_bytes", pa.int64()),
        column("to_client_bytes", pa.int64()),
        column("not_understood_bytes", pa.int64()),
    ]
)
NOT_ALWAYS: Final = ("proxy_closed_ns", "task")
"""Columns that older records do not have: there, nothing is known."""
FITS: Final = b"fits"
"""In the metadata of the table of connections: the digest of both tables and of the run (`digest_of`)."""
ENDED: Final = b"ended"
"""In the metadata of the table of connections, if the record ends before the run does, because it had become too large:
when, in nanoseconds."""


class Wire(msgspec.Struct, frozen=True):
    requests: pa.Table
    connections: pa.Table

    @property
    def ended_ns(self) -> int | None:
        """When the record had become too large; None if it did not."""
        return ended_ns(self.connections)

    @property
    def is_cut_short(self) -> bool:
        """Whether the record ends before the run does, because it had become too large."""
        return self.ended_ns is not None

    @property
    def scripts(self) -> dict[str, str]:
        """The text of each script by its SHA-1."""
        return scripts_of(self.requests)

    def of_key(self, key: str) -> Wire:
        """The requests with a key whose name contains this one, as locks add to it, and all connections."""
        keys = self.requests["keys"].combine_chunks()
        rows = pc.list_parent_indices(keys).filter(pc.match_substring(keys.flatten(), key))
        return Wire(self.requests.take(pc.unique(rows)), self.connections)


def frame(table: pa.Table) -> pd.DataFrame:
    """The table for pandas: integers that may be missing are nullable, never floats, which could not distinguish two
    nanoseconds."""
    nullable = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}
    optional = {field.name for field in table.schema if field.nullable}
    whole: pd.DataFrame = table.to_pandas(types_mapper=nullable.get)
    return whole.astype({name: "int64" for name in whole if str(whole[name].dtype) == "Int64" and name not in optional})


def ended_ns(connections: pa.Table) -> int | None:
    """When the record had become too large. Raises UsageError for a table that says something else."""
    ended = (connections.schema.metadata or {}).get(ENDED)
    if ended is not None and not ended.isdigit():
        raise UsageError(f"{CONNECTIONS} is damaged: its record has no end")
    return None if ended is None else int(ended)

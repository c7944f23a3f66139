"""What went over the links, as literal rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from harness.history.change_causes import SCRIPTS
from harness.store.wire import CONNECTIONS_SCHEMA, REQUESTS_SCHEMA, Wire

TIMES = ("from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns")


def request(*words: str, at: tuple[int | None, ...] = (), reply: str | None = None, **fields: Any) -> dict[str, Any]:
    """`at`: as many of the four times as came."""
    command, *arguments = words or ("",)
    times = dict(zip(TIMES, (*at, None, None, None, None), strict=False))
    who = {"client": "c1", "node": "n1", "connection": 1, "by": "client", "user": "default", "database": 0}
    said = {"command": command, "arguments": arguments, "keys": arguments[:1], "reply": reply}
    return who | said | times | fields


def connection(number: int = 1, *, opened: int = 1, **fields: Any) -> dict[str, Any]:
    who = {"client": "c1", "node": "n1", "connection": number, "by": "client", "opened_ns": opened, "is_reached": True}
    counts = {name: 0 for name in CONNECTIONS_SCHEMA.names if name.endswith("_bytes")}
    return who | counts | fields


def wire(
    requests: list[dict[str, Any]], connections: list[dict[str, Any]], scripts: Mapping[str, str] | None = None
) -> Wire:
    metadata = {SCRIPTS: msgspec.json.encode(scripts or {})}
    return Wire(
        pa.Table.from_pylist(requests, REQUESTS_SCHEMA).replace_schema_metadata(metadata),
        pa.Table.from_pylist(connections, CONNECTIONS_SCHEMA),
    )

"""What the requests of transactions did: nodes queue them, and carry them out with the EXEC that ends them.

The EXEC brings the reply to each of them. If a key that the client had watched was changed, it brings none, and nothing
was done.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pyarrow as pa

from harness.history.groups import grouped

_QUEUED: Final = '"QUEUED"'
_TIMES: Final = ("to_node_ns", "from_node_ns", "to_client_ns")
_CHANGED: Final = (*_TIMES, "reply")


def with_results(requests: pa.Table) -> pa.Table:
    """The table of requests, where those of a transaction have the times of its EXEC from when it came to the node, and
    their own reply out of its: `null` if it did nothing. What was never executed, or whose reply was cut off, stays
    "QUEUED"."""
    if requests["transaction"].null_count == len(requests):
        return requests
    columns = {name: requests[name].to_pylist() for name in ("connection", "transaction", "command", *_CHANGED)}
    numbered = enumerate(zip(columns["connection"], columns["transaction"], strict=True))
    for rows in grouped((block, row) for row, block in numbered if block[1] is not None).values():
        _execute(columns, rows)
    for name in _CHANGED:
        place = requests.schema.get_field_index(name)
        requests = requests.set_column(
            place, requests.schema.field(place), pa.array(columns[name], requests.schema.field(place).type)
        )
    return requests


def _execute(columns: dict[str, list[Any]], rows: list[int]) -> None:
    last, queued = rows[-1], [row for row in rows if columns["reply"][row] == _QUEUED]
    if columns["command"][last] != "EXEC" or not queued:
        return
    try:
        results = msgspec.json.decode(columns["reply"][last] or "")
    except msgspec.DecodeError:  # it was cut off
        results = ...
    for name in _TIMES:
        for row in queued:
            columns[name][row] = columns[name][last]
    if results is None or (isinstance(results, list) and len(results) == len(queued)):
        for row, result in zip(queued, results or [None] * len(queued), strict=True):
            columns["reply"][row] = msgspec.json.encode(result).decode()

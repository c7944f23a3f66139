"""The proxy's record as tables: each connection is decoded by what knows its server's protocol."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from cluster.base import DIALLED_FROM, LinkKey
from cluster.requests import Conversation, Decode, Request
from fencepost.errors import UsageError
from harness.store.columns import NAME
from harness.store.wire import CONNECTIONS_SCHEMA, ENDED, REQUESTS_SCHEMA, SCRIPTS, Wire
from harness.store.wire_files import (
    CLIENT_CLOSED,
    EVENTS,
    FROM_CLIENT,
    FROM_NODE,
    LIMIT_REACHED,
    NODE_CLOSED,
    NOT_TO_CLIENT,
    NOT_TO_NODE,
    OPENED,
    TO_CLIENT,
    TO_NODE,
    UNREACHED,
    read_events,
)


def read_wire(folder: Path, decoders: Mapping[str, Decode | None]) -> Wire:
    """The proxy's two files as tables. `decoders`: by the name of the server. Raises UsageError for files that the
    proxy cannot have written."""
    events, at, text = read_events(folder)
    connections: dict[str, list[Any]] = {name: [] for name in CONNECTIONS_SCHEMA.names}
    requests: dict[str, list[Any]] = {name: [] for name in REQUESTS_SCHEMA.names}
    scripts: dict[str, str] = {}
    order = np.argsort(events["connection"], kind="stable")
    edges = np.flatnonzero(np.diff(events["connection"][order])) + 1
    with _without_collections():
        for rows in np.split(order, edges) if len(events) else ():
            if events["connection"][rows[0]]:
                link = _Link(events[rows], at[rows], text)
                client, _, node = link.link.partition("-")
                if node not in decoders:
                    raise UsageError(f"{folder / EVENTS} is damaged: it has a connection of no link")
                key, talk = (client, node), link.decoded(decoders[node])
                link.add_connection(connections, key, talk)
                link.add_requests(requests, key, talk)
                scripts |= talk.scripts
    table = _table(requests, REQUESTS_SCHEMA).replace_schema_metadata({SCRIPTS: msgspec.json.encode(scripts)})
    limit_ns = events["at_ns"][events["kind"] == LIMIT_REACHED]
    ended = {ENDED: b"%d" % limit_ns[0]} if len(limit_ns) else {}
    whole = _table(connections, CONNECTIONS_SCHEMA).replace_schema_metadata(ended)
    return Wire(table.sort_by("from_client_ns"), whole)


class _Link:
    """The records of one connection."""

    def __init__(self, events: Any, at: Any, text: bytes) -> None:
        self._at_ns, self._length = events["at_ns"], events["length"].astype(np.int64)
        self._number = int(events["connection"][0])
        self._at, self._text = at, text
        self.kinds = events["kind"]
        is_first = self.kinds[0] in (OPENED, UNREACHED)
        names = self._carried(int(self.kinds[0]))[0].decode(errors="replace") if is_first else ""
        self.link, _, dialled_from = names.partition(" ")
        self._by = "harness" if dialled_from == DIALLED_FROM else "client"

    def _carried(self, kind: int) -> list[bytes]:
        rows = self.kinds == kind
        text, at, length = self._text, self._at[rows].tolist(), self._length[rows].tolist()
        return [text[begin : begin + size] for begin, size in zip(at, length, strict=True)]

    def decoded(self, decode: Decode | None) -> Conversation:
        if decode is None:
            return Conversation((), 0, {})
        return decode(self._carried(FROM_CLIENT), self._carried(FROM_NODE))

    def _times(self, kind: int, undone: int | None, ends: Any) -> Any:
        """When so many bytes had passed this place; missing where they never did."""
        rows = (self.kinds == kind) | (self.kinds == undone) if undone is not None else self.kinds == kind
        lengths = np.where(self.kinds[rows] == kind, self._length[rows], -self._length[rows])
        # Nothing follows what could not be sent on, so the sums stay in order up to the last one.
        passed = np.minimum.accumulate(np.cumsum(lengths)[::-1])[::-1]
        found = np.searchsorted(passed, ends, "left")
        reached = (ends >= 0) & (found < len(passed))
        times = np.append(self._at_ns[rows], 0)[np.where(reached, found, len(passed))]
        return pa.array(times, pa.int64(), mask=~reached)

    def _bytes(self, kind: int, undone: int | None = None) -> int:
        total = self._length[self.kinds == kind].sum()
        return int(total - (self._length[self.kinds == undone].sum() if undone is not None else 0))

    def _first(self, kind: int) -> int | None:
        times = self._at_ns[self.kinds == kind]
        return int(times[0]) if len(times) else None

    def add_connection(self, columns: dict[str, list[Any]], key: LinkKey, talk: Conversation) -> None:
        row = (
            *key,
            self._number,
            self._by,
            int(self._at_ns[0]),
            bool(self.kinds[0] == OPENED),
            self._first(CLIENT_CLOSED),
            self._first(NODE_CLOSED),
            self._bytes(FROM_CLIENT),
            self._bytes(TO_NODE, NOT_TO_NODE),
            self._bytes(FROM_NODE),
            self._bytes(TO_CLIENT, NOT_TO_CLIENT),
            talk.not_understood,
        )
        for name, value in zip(CONNECTIONS_SCHEMA.names, row, strict=True):
            columns[name].append(pa.array([value]) if name not in ("client", "node", "by") else [value])

    def add_requests(self, columns: dict[str, list[Any]], key: LinkKey, talk: Conversation) -> None:
        if not talk.requests:
            return
        fields = dict(zip(Request._fields, zip(*talk.requests, strict=True), strict=True))
        sent, replied = (np.array(fields[name], np.int64) for name in ("sent_end", "reply_end"))
        count = len(sent)
        transaction = np.array(fields["transaction"], np.int32)
        for name, values in (
            ("client", [key[0]] * count),
            ("node", [key[1]] * count),
            ("connection", pa.array(np.full(count, self._number, np.int32))),
            ("by", [self._by] * count),
            ("user", fields["user"]),
            ("database", pa.array(fields["database"], pa.int32())),
            ("command", fields["command"]),
            ("keys", pa.array(fields["keys"], pa.list_(pa.string()))),
            ("arguments", pa.array(fields["arguments"], pa.list_(pa.string()))),
            ("transaction", pa.array(transaction, mask=transaction < 0)),
            ("from_client_ns", self._times(FROM_CLIENT, None, sent)),
            ("to_node_ns", self._times(TO_NODE, NOT_TO_NODE, sent)),
            ("from_node_ns", self._times(FROM_NODE, None, replied)),
            ("to_client_ns", self._times(TO_CLIENT, NOT_TO_CLIENT, replied)),
            ("reply", pa.array(fields["reply"], pa.string())),
        ):
            columns[name].append(values)


def _table(columns: Mapping[str, list[Any]], schema: pa.Schema) -> pa.Table:
    def whole(field: pa.Field, parts: list[Any]) -> Any:
        if field.type == NAME:
            return pa.array([name for part in parts for name in part], pa.string()).dictionary_encode()
        return pa.chunked_array([part.cast(field.type) for part in parts], field.type)

    return pa.table([whole(field, columns[field.name]) for field in schema], schema=schema)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Requests are many small lists without circles: looking for these takes twice as long as all the rest."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

"""The proxy's record as tables: what each server's protocol says, and when it passed the proxy.

All connections are read at once, in columns. The bytes that passed a place lie on one line of numbers, connection by
connection, so that one search finds when each request had passed it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from cluster.base import DIALLED_FROM
from cluster.requests import Chunks, Conversations, Decode
from fencepost.errors import UsageError
from harness.history.change_causes import SCRIPTS
from harness.history.groups import Bools, Ints
from harness.store.wire import CONNECTIONS_SCHEMA, ENDED, REQUESTS_SCHEMA, Wire
from harness.store.wire_files import (
    CLIENT_CLOSED,
    CUT,
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
    read_record,
)
from harness.store.wire_senders import Senders

_PLACES: Final[Mapping[str, tuple[int, int | None]]] = {
    "from_client": (FROM_CLIENT, None),
    "to_node": (TO_NODE, NOT_TO_NODE),
    "from_node": (FROM_NODE, None),
    "to_client": (TO_CLIENT, NOT_TO_CLIENT),
}
"""The kind of record of what passed each of them, and of what did not after all."""
_NEVER_NS: Final = np.iinfo(np.int64).max


def read_wire(folder: Path, decoders: Mapping[str, Decode | None]) -> Wire:
    """The proxy's two files as tables. `decoders`: by the name of the server. Raises UsageError for files that the
    proxy cannot have written."""
    connections = _Connections(folder)
    links = [name.partition("-")[::2] for name in connections.links]
    if any(node not in decoders for _, node in links):
        raise connections.damaged("one of its connections belongs to no link")
    of_link = {"client": [link[0] for link in links], "node": [link[1] for link in links], "by": connections.by}
    names = {name: pa.array(values, pa.string()).dictionary_encode() for name, values in of_link.items()}
    not_understood = np.zeros(len(links), np.int64)
    scripts: dict[str, str] = {}
    tables = []
    for decode in {decoders[node]: None for _, node in links}:
        if decode is not None:
            own = np.array([decoders[node] is decode for _, node in links], np.bool_)
            with _without_collections():
                said = decode(connections.chunks(FROM_CLIENT, own), connections.chunks(FROM_NODE, own))
            not_understood[own] = said.not_understood
            scripts |= said.scripts
            tables.append(_requests(connections, np.flatnonzero(own), said, names))
    requests = tables[0] if len(tables) == 1 else pa.concat_tables([REQUESTS_SCHEMA.empty_table(), *tables])
    if len(tables) > 1:
        requests = requests.unify_dictionaries().sort_by("from_client_ns")
    limit_ns = connections.record.at_ns[connections.record.kind == LIMIT_REACHED]
    ended = {ENDED: b"%d" % limit_ns[0]} if len(limit_ns) else {}
    return Wire(
        requests.replace_schema_metadata({SCRIPTS: msgspec.json.encode(scripts)}),
        connections.table(names, not_understood).replace_schema_metadata(ended),
    )


@contextmanager
def _without_collections() -> Iterator[None]:
    """Messages may be many small lists without circles: looking for these takes longer than all the rest."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Connections:
    """The records by connection. `links`, `by`: a value a connection, in the order of their numbers. `place`: of each
    record's connection among these; -1 if it has none, as its number is 0. `number`: by place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.record = record = read_record(folder)
        is_opening = (record.kind == OPENED) | (record.kind == UNREACHED)
        opening = np.flatnonzero(is_opening & (record.connection > 0))
        self.number, first = np.unique(record.connection[opening], return_index=True)
        self._opening = opening[first]
        highest = int(record.connection.max(initial=0))
        if highest > len(record.kind):  # they are counted
            raise self.damaged("one of its connections belongs to no link")
        place = np.full(highest + 1, -1, np.int32)
        place[self.number] = np.arange(len(self.number))
        self.place = place[record.connection]
        begun = np.append(self._opening, len(record.kind))[self.place]
        if ((np.arange(len(begun)) < begun) & (record.connection > 0)).any():
            raise self.damaged("one of its connections belongs to no link")
        names = record.chunks.take(pa.array(record.chunk[self._opening])).to_pylist()
        ends = [[*name.decode(errors="replace").split(" "), "", ""][:3] for name in names]
        self.links = [link for link, _, _ in ends]
        dialled_from = [dialled.rpartition(":") for _, dialled, _ in ends]
        self.by = ["harness" if host == DIALLED_FROM else "client" for host, _, _ in dialled_from]
        self._node_port = [_port(port) for _, _, port in ends]
        self.senders = Senders(folder, self._opened([port for _, _, port in dialled_from]))
        self.passed = {name: _Passed(self, *kinds) for name, kinds in _PLACES.items()}

    def _opened(self, ports: Sequence[str]) -> pd.DataFrame:
        """As `Senders` takes them. The harness dials from another address, so its ports may be a client's, too."""
        return pd.DataFrame(
            {
                "client": [link.partition("-")[0] for link in self.links],
                "port": [_port(port) if by == "client" else None for port, by in zip(ports, self.by, strict=True)],
                "opened_ns": self.record.at_ns[self._opening],
                "closed_ns": np.minimum(self._first_ns(CLIENT_CLOSED), self._first_ns(CUT)),
            }
        )

    def damaged(self, what: str) -> UsageError:
        return UsageError(f"{self._folder / EVENTS} is damaged: {what}")

    def rows(self, kind: int, other: int | None = None) -> Ints:
        """Of this kind, or of one of these two, connection by connection."""
        is_one = self.record.kind == kind
        is_one = is_one if other is None else is_one | (self.record.kind == other)
        rows = np.flatnonzero(is_one & (self.place >= 0))
        return rows[np.argsort(self.place[rows], kind="stable")]

    def chunks(self, kind: int, own: Bools) -> Chunks:
        """What came with records of this kind over these connections, which are counted anew."""
        rows = self.rows(kind)
        rows = rows[own[self.place[rows]]]
        chunk = self.record.chunk[rows]
        is_used = np.zeros(len(self.record.chunks), np.bool_)
        is_used[chunk] = True
        distinct = self.record.chunks.filter(pa.array(is_used))
        connection = (np.cumsum(own) - 1)[self.place[rows]]
        return Chunks(int(own.sum()), connection, (np.cumsum(is_used) - 1)[chunk], distinct)

    def table(self, names: Mapping[str, pa.DictionaryArray], not_understood: Ints) -> pa.Table:
        columns = {
            **names,
            "connection": pa.array(self.number, pa.int32()),
            "node_port": pa.array(self._node_port, pa.int32()),
            "opened_ns": self.record.at_ns[self._opening],
            "is_reached": self.record.kind[self._opening] == OPENED,
            "client_closed_ns": _unless_never(self._first_ns(CLIENT_CLOSED)),
            "node_closed_ns": _unless_never(self._first_ns(NODE_CLOSED)),
            "proxy_closed_ns": _unless_never(self._first_ns(CUT)),
            **{f"{name}_bytes": self.passed[name].bytes() for name in _PLACES},
            "not_understood_bytes": not_understood,
        }
        return pa.table([columns[name] for name in CONNECTIONS_SCHEMA.names], schema=CONNECTIONS_SCHEMA)

    def _first_ns(self, kind: int) -> Ints:
        """When each connection had its first record of this kind, or never."""
        rows = self.rows(kind)[::-1]
        first = np.full(len(self.number), _NEVER_NS)
        first[self.place[rows]] = self.record.at_ns[rows]
        return first


def _unless_never(at_ns: Ints) -> Any:
    return pa.array(at_ns, pa.int64(), mask=at_ns == _NEVER_NS)


def _port(digits: str) -> int | None:
    return int(digits) if digits.isdecimal() else None


class _Passed:
    """How many bytes had passed a place, when. Those of all connections are on one line, one behind the other."""

    def __init__(self, connections: _Connections, kind: int, undone: int | None) -> None:
        record = connections.record
        rows = connections.rows(kind, undone)
        length = record.length[rows].astype(np.int64)
        is_undone = record.kind[rows] != kind
        length[is_undone] *= -1
        self._at_ns = np.append(record.at_ns[rows], 0)
        self._total = np.append(0, np.cumsum(length))
        self._edges = np.searchsorted(connections.place[rows], np.arange(len(connections.number) + 1))
        self._line = self._total[1:]
        if is_undone.any():
            # Nothing follows what could not be sent on, so the sums stay in order up to the last one.
            self._line = np.minimum.accumulate(self._line[::-1])[::-1]
            if (np.append(self._line, self._total[-1])[self._edges] < self._total[self._edges]).any():
                raise connections.damaged("more was not sent on than was to be")

    def bytes(self) -> Ints:
        """Of each connection."""
        return np.diff(self._total[self._edges])

    def times(self, connection: Ints, ends: Ints) -> tuple[Ints, Bools]:
        """When so many bytes of a connection had passed, and whether they ever did."""
        found = np.searchsorted(self._line, ends + self._total[self._edges][connection], "left")
        return self._at_ns[found], (ends >= 0) & (found < self._edges[1:][connection])


def _requests(
    connections: _Connections, own: Ints, said: Conversations, names: Mapping[str, pa.DictionaryArray]
) -> pa.Table:
    """In the order in which they came. `own`: the places of these connections among all."""
    place = own[said.connection]
    at_ns, is_asked = connections.passed["from_client"].times(place, said.sent_end)
    order = np.argsort(np.where(is_asked, at_ns, _NEVER_NS), kind="stable")
    where, what, reply = place[order], said.what[order], said.reply[order]
    whole = {column: said.said[column].combine_chunks() for column in said.said.column_names}

    def coded(values: pa.DictionaryArray, at: Ints) -> pa.DictionaryArray:
        """The values at these places, without names that none of them has."""
        codes = values.indices.to_numpy()
        is_used = np.zeros(len(values.dictionary), np.bool_)
        is_used[codes[np.bincount(at, minlength=len(codes)) > 0]] = True
        codes = (np.cumsum(is_used, dtype=np.int32) - 1)[codes]
        return pa.DictionaryArray.from_arrays(codes[at], values.dictionary.filter(pa.array(is_used)))

    def numbers(values: Ints) -> pa.Array:
        ordered = values[order].astype(np.int32)
        return pa.array(ordered, mask=ordered < 0)

    def times(name: str, ends: Ints) -> pa.Array:
        found, is_there = connections.passed[name].times(place, ends)
        return pa.array(found[order], mask=~is_there[order])

    columns = {
        **{name: coded(values, where) for name, values in names.items()},
        "connection": pa.array(connections.number.astype(np.int32)[where]),
        "task": connections.senders.of(where, said.sent_end[order]),
        "user": coded(said.users, said.user[order]),
        "database": numbers(said.database),
        "command": coded(whole["command"], what),
        "keys": whole["keys"].take(pa.array(what)),
        "arguments": whole["arguments"].take(pa.array(what)),
        "transaction": numbers(said.transaction),
        "from_client_ns": pa.array(at_ns[order], mask=~is_asked[order]),
        "to_node_ns": times("to_node", said.sent_end),
        "from_node_ns": times("from_node", said.reply_end),
        "to_client_ns": times("to_client", said.reply_end),
        "reply": said.replies.take(pa.array(reply, mask=reply < 0)),
    }
    return pa.table([columns[name] for name in REQUESTS_SCHEMA.names], schema=REQUESTS_SCHEMA)

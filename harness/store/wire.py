"""What went over the links, from the proxy's record to two tables.

While a run is on, the proxy appends to two files in `wire/` (`fencepost/setup/toxiproxy/upstream/wire.go`):
`wire.events` has a record of 20 bytes for each moment, `wire.bytes` what came from clients and nodes, in the same
order; the ends of both are in `wire.tail` first. A SIGKILL costs at most the record under way. When the run is over,
each server's object decodes its protocol, and two tables take the place of these files:

    requests.parquet     a row a request: client, node, connection, command, the four times, the reply
    connections.parquet  a row a connection: when it was opened and closed, by which side, and its bytes

A time is missing where that moment never came. So a request without `to_node_ns` was lost on the way there, one without
`from_node_ns` was never answered, and one without `to_client_ns` was answered, but the client did not learn it.
"""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.base import DIALLED_FROM, RESOURCE, LinkKey
from cluster.registry import servers
from cluster.requests import Conversation, Decode, Request
from cluster.spec import sentinels_of
from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.files import kind_of, open_regular
from harness.config import RunConfig
from harness.history.change_causes import WireRecord
from harness.history.recorded import ForeignBytes, LinkTraffic, WireGaps
from harness.store.columns import NAME, column
from harness.store.run_folder import RunFolder

REQUESTS: Final = "requests.parquet"
CONNECTIONS: Final = "connections.parquet"
EVENTS: Final = "wire.events"
BYTES: Final = "wire.bytes"
TAIL: Final = "wire.tail"
TAIL_HEAD: Final = 4096
TAIL_EVENTS: Final = 20 * 3200
"""The tail begins with four numbers: where the tail of the events begins in its stream, and its length; the same of the
bytes. Behind `TAIL_HEAD` bytes are the events, and `TAIL_EVENTS` behind these the bytes."""
_TAIL_HEAD: Final = struct.Struct("<QQQQ")
EVENT: Final = np.dtype([("at_ns", "<i8"), ("connection", "<u4"), ("length", "<u4"), ("kind", "<u4")])
(
    OPENED,
    FROM_CLIENT,
    TO_NODE,
    FROM_NODE,
    TO_CLIENT,
    NOT_TO_NODE,
    NOT_TO_CLIENT,
    CLIENT_CLOSED,
    NODE_CLOSED,
    UNREACHED,
    LIMIT_REACHED,
) = range(11)
_CARRY: Final = (OPENED, FROM_CLIENT, FROM_NODE, UNREACHED)
"""The kinds of records that have bytes in the other file."""

REQUESTS_SCHEMA: Final = pa.schema(
    [
        column("client", NAME),
        column("node", NAME),
        column("connection", pa.int32()),
        column("by", NAME),
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
        column("from_client_bytes", pa.int64()),
        column("to_node_bytes", pa.int64()),
        column("from_node_bytes", pa.int64()),
        column("to_client_bytes", pa.int64()),
        column("not_understood_bytes", pa.int64()),
    ]
)
FITS: Final = b"fits"
"""In the metadata of the table of connections: the digest of both tables and of the run (`digest_of`)."""
SCRIPTS: Final = b"scripts"
"""In the metadata of the table of requests: the text of each script by its SHA-1, as JSON."""


ENDED: Final = b"ended"
"""In the metadata of the table of connections, if the record ends before the run does, because it had become too large:
when, in nanoseconds."""


class Wire(msgspec.Struct, frozen=True):
    requests: pa.Table
    connections: pa.Table

    @property
    def ended_ns(self) -> int | None:
        """When the record had become too large; None if it did not."""
        return _ended_ns(self.connections)

    @property
    def is_cut_short(self) -> bool:
        """Whether the record ends before the run does, because it had become too large."""
        return self.ended_ns is not None

    @property
    def scripts(self) -> dict[str, str]:
        """The text of each script by its SHA-1."""
        return msgspec.json.decode((self.requests.schema.metadata or {}).get(SCRIPTS, b"{}"), type=dict[str, str])

    def of_key(self, key: str) -> Wire:
        """The requests with a key whose name contains this one, as locks add to it, and all connections."""
        keys = self.requests["keys"].combine_chunks()
        rows = pc.list_parent_indices(keys).filter(pc.match_substring(keys.flatten(), key))
        return Wire(self.requests.take(pc.unique(rows)), self.connections)


def keep_wire(folder: RunFolder) -> None:
    """Put the tables in the place of what the proxy recorded. Raises BrokenEnvironmentError."""
    if folder.wire.is_dir():
        try:
            wire = read_wire(folder.wire, decoders_of(folder))
        except UsageError as error:  # nothing that the user did
            raise BrokenEnvironmentError(f"what went over the links is not on record: {error}") from error
        _write_table(folder, REQUESTS, wire.requests)
        metadata = (wire.connections.schema.metadata or {}) | {FITS: digest_of(folder, wire.connections)}
        _write_table(folder, CONNECTIONS, wire.connections.replace_schema_metadata(metadata))
        shutil.rmtree(folder.wire)


def _write_table(folder: RunFolder, name: str, table: pa.Table) -> None:
    with folder.in_place(name) as temporary, temporary.open("wb") as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True, **_encodings(table.schema))
        file.flush()
        os.fsync(file.fileno())


def digest_of(folder: RunFolder, connections: pa.Table) -> bytes:
    """Of both tables, and of the two documents that tell the run from others."""
    digest = hashlib.sha256(msgspec.json.encode(connections.to_pylist()))
    for name in ("config.json", "timeline.json", REQUESTS):
        if kind_of(folder.path / name) is not None:
            with open_regular(folder.path / name) as file:
                while piece := file.read(1 << 20):
                    digest.update(piece)
    return digest.hexdigest().encode()


def load_wire(folder: RunFolder) -> Wire:
    """What went over the links; without rows if it is not on record. Raises UsageError for damaged files."""
    if folder.wire.is_dir():  # the harness was killed
        return read_wire(folder.wire, decoders_of(folder))
    if kind_of(folder.path / REQUESTS) is None:
        return Wire(REQUESTS_SCHEMA.empty_table(), CONNECTIONS_SCHEMA.empty_table())
    return Wire(
        _read_table(folder.path / REQUESTS, REQUESTS_SCHEMA), _read_table(folder.path / CONNECTIONS, CONNECTIONS_SCHEMA)
    )


def link_traffic(folder: RunFolder, config: RunConfig, start_ns: int) -> tuple[LinkTraffic, ...] | None:
    """How much clients asked over each link to a node, as far as all of that link is on record; None where that is not
    on record, or not to its end (so also while a run is on), or in a protocol that is not known."""
    is_there = kind_of(folder.path / REQUESTS) is not None and kind_of(folder.path / CONNECTIONS) is not None
    if not is_there or any(decoders_of(folder)[node] is None for node in config.node_names):
        return None
    gaps = wire_gaps(folder, config)
    if gaps.ended_ns is not None:
        return None
    asked = _read_table(folder.path / REQUESTS, REQUESTS_SCHEMA, "client", "node", "by", "from_client_ns").to_pandas()
    asked = asked[(asked["by"] == "client") & asked["from_client_ns"].notna()]
    before = asked["from_client_ns"] < start_ns
    warm_up, load = (
        rows.groupby(["client", "node"], observed=True).size().to_dict() for rows in (asked[before], asked[~before])
    )
    foreign = {(each.client, each.node) for each in gaps.foreign}
    links = [(client, node) for client in config.client_names for node in config.node_names]
    links = [link for link in links if link not in foreign]
    return tuple(LinkTraffic(*link, int(warm_up.get(link, 0)), int(load.get(link, 0))) for link in links)


def wire_gaps(folder: RunFolder, config: RunConfig) -> WireGaps:
    """What of the clients' links is not on record, though the run recorded them. Raises UsageError for damaged
    files."""
    if kind_of(folder.path / CONNECTIONS) is None:
        return WireGaps()
    table = _read_table(folder.path / CONNECTIONS, CONNECTIONS_SCHEMA)
    columns = (table[name].to_pylist() for name in ("client", "node", "not_understood_bytes"))
    foreign: Counter[LinkKey] = Counter()
    for client, node, number in zip(*columns, strict=True):
        if number and client in config.client_names:  # replicas dial, too, and are sent more than requests
            foreign[client, node] += number
    names = {RESOURCE: _server_names(folder)[1]}
    named = {node: names.get(node, _server_names(folder)[0]).capitalize() for _, node in foreign}
    return WireGaps(
        _ended_ns(table), tuple(ForeignBytes(*link, named[link[1]], number) for link, number in sorted(foreign.items()))
    )


def wire_record(folder: RunFolder, config: RunConfig) -> WireRecord | None:
    """What went over the links to the nodes; None where nothing of it is on record, or the protocol of the nodes'
    server is not decoded. Raises UsageError for damaged files."""
    known, name = servers(), _server_names(folder)[0]
    wire = load_wire(folder)
    if name not in known or known[name].decode is None or not len(wire.connections):
        return None
    strange = pc.filter(wire.connections["node"], pc.greater(wire.connections["not_understood_bytes"], 0))
    recorded = frozenset() if wire.is_cut_short else frozenset(config.node_names) - set(strange.to_pylist())
    return WireRecord(wire.requests, wire.connections, recorded)


def frame(table: pa.Table) -> pd.DataFrame:
    """The table for pandas: integers that may be missing are nullable, never floats, which could not distinguish two
    nanoseconds."""
    nullable = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}
    optional = {field.name for field in table.schema if field.nullable}
    whole: pd.DataFrame = table.to_pandas(types_mapper=nullable.get)
    return whole.astype({name: "int64" for name in whole if str(whole[name].dtype) == "Int64" and name not in optional})


def _ended_ns(connections: pa.Table) -> int | None:
    """When the record had become too large. Raises UsageError for a table that says something else."""
    ended = (connections.schema.metadata or {}).get(ENDED)
    if ended is not None and not ended.isdigit():
        raise UsageError(f"{CONNECTIONS} is damaged: its record ends at no time")
    return None if ended is None else int(ended)


def _read_table(path: Path, schema: pa.Schema, *only: str) -> pa.Table:
    """The whole table, or only these columns."""
    try:
        wanted = pa.schema([field for field in schema if not only or field.name in only])
        with open_regular(path) as file:
            table = pq.read_table(file, columns=wanted.names, page_checksum_verification=True)
        return table.cast(wanted.with_metadata(table.schema.metadata))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UsageError(f"{path} is damaged: {' '.join(str(error).split())}") from error


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Times as the differences from one to the next."""
    times = [field.name for field in schema if field.type == pa.int64()]
    return {
        "column_encoding": dict.fromkeys(times, "DELTA_BINARY_PACKED"),
        "use_dictionary": [field.name for field in schema if field.name not in times],
    }


def decoders_of(folder: RunFolder) -> Mapping[str, Decode | None]:
    """How each server's protocol is read, by the server's name in the run."""
    known, config = servers(), folder.read_config()
    node, resource = (known[name].decode if name in known else None for name in _server_names(folder))
    return {**dict.fromkeys([*config.node_names, *sentinels_of(config.replication)], node), RESOURCE: resource}


def _server_names(folder: RunFolder) -> tuple[str, str]:
    """Which servers the nodes and the resource were. The configuration may name a program's path instead; what the
    program was is in environment.json, unless the run ended before."""
    config, cluster = folder.read_config(), folder.read_environment().get("cluster")
    found = []
    for field, chosen in (("server", config.server), ("resource_server", config.resource_server)):
        told = cluster.get(field) if isinstance(cluster, dict) else None
        name = told.get("name") if isinstance(told, dict) else None
        found.append(name if isinstance(name, str) else chosen.partition("=")[0])
    return found[0], found[1]


def read_wire(folder: Path, decoders: Mapping[str, Decode | None]) -> Wire:
    """The proxy's two files as tables. `decoders`: by the name of the server. Raises UsageError for files that the
    proxy cannot have written."""
    events, at, text = _read(folder)
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


def _read(folder: Path) -> tuple[Any, Any, bytes]:
    """The records, where the bytes of each begin, and the bytes. What was under way at a SIGKILL is left out. A run
    that ended before its proxy began to record has no such files."""
    raw, text = _streams(folder)
    events = np.frombuffer(raw, EVENT, count=len(raw) // EVENT.itemsize)
    carried = np.where(np.isin(events["kind"], _CARRY), events["length"], 0).astype(np.int64)
    ends = np.cumsum(carried)
    whole = int(np.searchsorted(ends, len(text), "right"))
    if whole < len(events) - 1:
        raise UsageError(f"{folder / BYTES} is damaged: it has {len(text)} bytes, and {EVENTS} tells of {ends[-1]}")
    events = events[:whole]
    if (events["kind"] > LIMIT_REACHED).any() or (np.diff(events["at_ns"]) < 0).any():
        raise UsageError(f"{folder / EVENTS} is damaged: its records are not in the order of their times")
    return events, (ends - carried)[:whole], text


def _streams(folder: Path) -> list[bytes]:
    """All that the proxy recorded: what its files have, and their tails. While the proxy writes, tails move into the
    files, so these are read after them, and all is read again if the tails began elsewhere meanwhile."""
    while True:
        tail = _read_bytes(folder / TAIL)
        files = [_read_bytes(folder / name) for name in (EVENTS, BYTES)]
        if not tail:
            return files
        try:
            head = _TAIL_HEAD.unpack_from(tail)
            if _TAIL_HEAD.unpack_from(_read_bytes(folder / TAIL))[::2] == head[::2]:
                break
        except struct.error:
            raise UsageError(f"{folder / TAIL} is damaged: it is too short") from None
    tails = tail[TAIL_HEAD : TAIL_HEAD + TAIL_EVENTS], tail[TAIL_HEAD + TAIL_EVENTS :]
    for number, (file, its_tail) in enumerate(zip(files, tails, strict=True)):
        begin, length = head[2 * number : 2 * number + 2]
        if begin > len(file) or length > len(its_tail):
            raise UsageError(f"{folder / TAIL} is damaged: it does not continue {(EVENTS, BYTES)[number]}")
        if begin + length > len(file):  # otherwise it has been moved
            files[number] = file[:begin] + its_tail[:length]
    return files


def _read_bytes(path: Path) -> bytes:
    if kind_of(path) is None:
        return b""
    with open_regular(path) as file:
        return file.readall()


class _Link:
    """The records of one connection."""

    def __init__(self, events: Any, at: Any, text: bytes) -> None:
        self._at_ns, self._length = events["at_ns"], events["length"].astype(np.int64)
        self._number = int(events["connection"][0])
        self._at, self._text = at, text
        self.kinds = events["kind"]
        is_first = self.kinds[0] in (OPENED, UNREACHED)
        names = self._carried(int(self.kinds[0]))[0].decode(errors="replace") if is_first else ""
        self.link, dialled_from, port, *_ = [*names.split(" "), "", ""]
        self._node_port = int(port) if port.isdecimal() else None
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
            self._node_port,
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

"""The tables of the links in a run's folder, and what of the links is not on record."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.address import LinkKey
from cluster.base import RESOURCE
from cluster.registry import servers
from cluster.requests import Decode
from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.files import kind_of, open_regular
from fencepost.memory import spare_memory
from harness.config import RunConfig
from harness.history.change_causes import WireRecord
from harness.history.run_tables import ForeignBytes, LinkTraffic, WireGaps
from harness.history.transactions import with_results
from harness.store.run_folder import RunFolder, part_of
from harness.store.wire import (
    CONNECTIONS,
    CONNECTIONS_SCHEMA,
    FITS,
    NOT_ALWAYS,
    REQUESTS,
    REQUESTS_SCHEMA,
    Wire,
    ended_ns,
)
from harness.store.wire_reading import read_wire


def keep_wire(folder: RunFolder) -> None:
    """Put the tables in the place of what the proxy recorded. Raises BrokenEnvironmentError."""
    if folder.wire.is_dir():
        spare_memory()
        try:
            wire = read_wire(folder.wire, decoders_of(folder))
        except UsageError as error:  # nothing that the user did
            raise BrokenEnvironmentError(f"what went over the links is not on record: {error}") from error
        _write_table(folder, REQUESTS, wire.requests)
        metadata = (wire.connections.schema.metadata or {}) | {FITS: digest_of(folder, wire.connections)}
        _write_table(folder, CONNECTIONS, wire.connections.replace_schema_metadata(metadata))
        shutil.rmtree(folder.wire)


def _write_table(folder: RunFolder, name: str, table: pa.Table) -> None:
    with folder.in_place(name) as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True, **_encodings(table.schema))


def digest_of(folder: RunFolder, connections: pa.Table) -> bytes:
    """Of both tables, and of the two documents that tell the run from others."""
    has = connections.column_names
    unknown = [name for name in NOT_ALWAYS if name in has and connections[name].null_count == len(connections)]
    digest = hashlib.sha256(msgspec.json.encode(connections.drop_columns(unknown).to_pylist()))
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
    columns = ("client", "node", "by", "keys", "from_client_ns")
    table = _read_table(folder.path / REQUESTS, REQUESTS_SCHEMA, *columns)
    asked = table.drop_columns("keys").to_pandas()
    asked["named"] = pc.greater(pc.list_value_length(table["keys"]), 0).to_numpy()
    asked = asked[(asked["by"] == "client") & asked["from_client_ns"].notna()]
    before = asked["from_client_ns"] < start_ns
    warm_up, load, named = (
        rows.groupby(["client", "node"], observed=True).size().to_dict()
        for rows in (asked[before], asked[~before], asked[~before & asked["named"]])
    )
    foreign = {(each.client, each.node) for each in gaps.foreign}
    links = [(client, node) for client in config.client_names for node in config.node_names]
    links = [link for link in links if link not in foreign]
    counts = (warm_up, load, named)
    return tuple(LinkTraffic(*link, *(int(count.get(link, 0)) for count in counts)) for link in links)


def wire_gaps(folder: RunFolder, config: RunConfig) -> WireGaps:
    """What of the clients' links is not on record, though the run recorded them. Raises UsageError for damaged
    files."""
    if (table := connections_of(folder)) is None:
        return WireGaps()
    columns = (table[name].to_pylist() for name in ("client", "node", "not_understood_bytes"))
    foreign: Counter[LinkKey] = Counter()
    for client, node, number in zip(*columns, strict=True):
        if number and client in config.client_names:  # replicas dial, too, and are sent more than requests
            foreign[client, node] += number
    names = {RESOURCE: _server_names(folder)[1]}
    named = {node: names.get(node, _server_names(folder)[0]).capitalize() for _, node in foreign}
    return WireGaps(
        ended_ns(table), tuple(ForeignBytes(*link, named[link[1]], number) for link, number in sorted(foreign.items()))
    )


def connections_of(folder: RunFolder) -> pa.Table | None:
    """The table of connections; None where it is not there. Raises UsageError for a damaged file."""
    there = kind_of(folder.path / CONNECTIONS) is not None
    return _read_table(folder.path / CONNECTIONS, CONNECTIONS_SCHEMA) if there else None


def wire_record(folder: RunFolder, config: RunConfig) -> WireRecord | None:
    """What went over the links to the nodes; None where nothing of it is on record, or the protocol of the nodes'
    server is not decoded. Raises UsageError for damaged files."""
    known, name = servers(), _server_names(folder)[0]
    wire = load_wire(folder)
    if name not in known or known[name].decode is None or not len(wire.connections):
        return None
    strange = pc.filter(wire.connections["node"], pc.greater(wire.connections["not_understood_bytes"], 0))
    recorded = frozenset() if wire.is_cut_short else frozenset(config.node_names) - set(strange.to_pylist())
    return WireRecord(with_results(wire.requests), wire.connections, recorded)


def _read_table(path: Path, schema: pa.Schema, *only: str) -> pa.Table:
    """The whole table, or only these columns."""
    wanted = pa.schema([field for field in schema if not only or field.name in only])
    with open_regular(path) as opened:
        try:
            file = pq.ParquetFile(opened, page_checksum_verification=True)
            there = file.schema_arrow.names
            if missing := [name for name in schema.names if name not in (*there, *NOT_ALWAYS)]:
                raise UsageError(
                    f"{path} has no column {', '.join(missing)}: another version of fencepost made this run, see "
                    "environment.json; judge it with that one, or make the run again"
                )
            table = file.read(columns=[name for name in wanted.names if name in there])
            for name in [name for name in wanted.names if name not in there]:
                table = table.append_column(wanted.field(name), pa.nulls(len(table), wanted.field(name).type))
            return table.select(wanted.names).cast(wanted.with_metadata(table.schema.metadata))
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
    return {**dict.fromkeys([*config.node_names, *config.sentinel_names], node), RESOURCE: resource}


def _server_names(folder: RunFolder) -> tuple[str, str]:
    """Which servers the nodes and the resource were. The configuration may name a program's path instead; what the
    program was is in environment.json, unless the run ended before."""
    config, cluster = folder.read_config(), part_of(folder.read_environment(), "cluster")
    found = []
    for field, chosen in (("server", config.server), ("resource_server", config.resource_server)):
        name = part_of(cluster, field).get("name")
        found.append(name if isinstance(name, str) else chosen.partition("=")[0])
    return found[0], found[1]

"""From lines to columns: logs of JSON lines as tables, fast and in bounded memory.

A log is read in pieces of a megabyte. Each piece becomes msgspec structs, and at once Arrow columns; a million
Python objects never exist at the same time. Times stay absolute int64 nanoseconds: where one may be missing the column
is pandas' nullable `Int64`, never a float, which could not tell two nanoseconds apart. Names are categoricals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from fencepost.errors import UsageError
from harness.history import Op, Write

_PIECE_BYTES: Final = 1 << 20
_NAME: Final = pa.dictionary(pa.int32(), pa.string())

OPS_SCHEMA: Final = pa.schema(
    [
        ("client", _NAME),
        ("life", pa.int32()),
        ("f", _NAME),
        ("outcome", _NAME),
        ("key", _NAME),
        ("section", pa.int64()),
        ("invoke_ns", pa.int64()),
        ("complete_ns", pa.int64()),
        ("value", pa.int64()),
        ("token", pa.int64()),
        ("token_source", _NAME),
        ("validity_ms", pa.float64()),
        ("deadline_ns", pa.int64()),
        ("computed_after_ns", pa.int64()),
        ("computed_before_ns", pa.int64()),
        ("requested_ns", pa.int64()),
        ("stale", pa.bool_()),
        ("error", _NAME),
    ]
)
WRITES_SCHEMA: Final = pa.schema(
    [
        ("key", _NAME),
        ("index", pa.int64()),
        ("client", _NAME),
        ("section", pa.int64()),
        ("value", pa.int64()),
        ("token", pa.int64()),
    ]
)
_OPTIONAL: Final = {"value", "token", "deadline_ns", "computed_after_ns", "computed_before_ns", "requested_ns"}
"""Integers that may be missing. A write's `value` never is; that it shares the type does no harm."""

S = TypeVar("S", bound=msgspec.Struct)


class Piece(list[S]):
    """Some records of a log. `lacks`: fields that none of them has, as their text already showed."""

    lacks: frozenset[str] = frozenset()


def read_lines(path: Path, kind: type[S]) -> Iterator[list[S]]:
    """The log's records in pieces. Half a line at the very end (a crash in mid-write) is dropped.

    Raises UsageError for anything else that is not a record, with the line's number, and for a file that cannot be
    read.
    """
    decoder = msgspec.json.Decoder(kind)
    optional = {field.name: f'"{field.name}"'.encode() for field in msgspec.structs.fields(kind) if not field.required}
    done, rest = 0, b""
    try:
        with path.open("rb", buffering=0) as file:
            while piece := file.read(_PIECE_BYTES):
                whole, newline, tail = piece.rpartition(b"\n")
                if not newline:
                    rest += piece
                    continue
                lines = rest + whole
                records = Piece(_decode(path, decoder, lines, done))
                if b"\\" not in lines:  # else a name might be spelt otherwise
                    records.lacks = frozenset(name for name, quoted in optional.items() if quoted not in lines)
                rest = tail
                done += len(records)
                yield records
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); check its permissions") from error
    if rest:
        try:
            yield [decoder.decode(rest)]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return


def _decode(path: Path, decoder: msgspec.json.Decoder[S], lines: bytes, done: int) -> list[S]:
    try:
        return decoder.decode_lines(lines)
    except (msgspec.DecodeError, UnicodeDecodeError):
        for number, line in enumerate(lines.split(b"\n"), done + 1):
            try:
                if line:
                    decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise UsageError(
                    f"{path} line {number} is not a record of this kind ({error}): the file was damaged or is foreign"
                ) from None
        raise


def ops_table(client: str, life: int, pieces: Iterable[Sequence[Op]]) -> pa.Table:
    """The operations of one life of one client as an Arrow table with the columns of `OPS_SCHEMA`."""
    batches = []
    for ops in pieces:
        known = {
            "client": pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(ops)), pa.array([client])),
            "life": pa.repeat(pa.scalar(life, pa.int32()), len(ops)),
        }
        batches.append(_batch(ops, OPS_SCHEMA, known))
    return pa.Table.from_batches(batches, OPS_SCHEMA)


def writes_table(pieces: Iterable[Sequence[Write]]) -> pa.Table:
    """The accepted writes as an Arrow table with the columns of `WRITES_SCHEMA`."""
    return pa.Table.from_batches([_batch(writes, WRITES_SCHEMA, {}) for writes in pieces], WRITES_SCHEMA)


def _batch(records: Sequence[msgspec.Struct], schema: pa.Schema, known: dict[str, pa.Array]) -> pa.RecordBatch:
    lacks = records.lacks if isinstance(records, Piece) else ()
    columns = []
    for field in schema:
        if field.name in known:
            columns.append(known[field.name])
        elif field.name in lacks:
            nothing = pa.nulls(len(records), field.type)
            columns.append(nothing.fill_null(False) if field.type == pa.bool_() else nothing)
        else:
            columns.append(_column(records, field))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(records: Sequence[msgspec.Struct], field: pa.Field) -> pa.Array:
    """One field of all the records. Optional fields missing throughout a piece cost nothing."""
    values = map(attrgetter(field.name), records)
    if field.type == pa.int64() and field.name not in _OPTIONAL:
        return pa.array(np.fromiter(values, np.int64, len(records)))
    listed: list[Any] = list(values)
    if listed.count(None) == len(listed):
        return pa.nulls(len(listed), field.type)
    if field.type == _NAME:
        return pa.array(listed, pa.string()).dictionary_encode()
    return pa.array(listed, field.type)


def frame(tables: Sequence[pa.Table], schema: pa.Schema) -> pd.DataFrame:
    """The tables, one after the other, as one pandas frame; without any row it has the same columns and types."""
    table = (pa.concat_tables(tables) if tables else schema.empty_table()).unify_dictionaries()
    return pd.DataFrame({name: _pandas(table.column(name), name) for name in table.column_names}, copy=False)


def _pandas(column: pa.ChunkedArray, name: str) -> Any:
    if name not in _OPTIONAL:
        return column.to_pandas()
    missing = column.is_null().to_numpy()
    return pd.arrays.IntegerArray(column.fill_null(0).to_numpy(), missing.copy())


def ops_frame(lives: Iterable[tuple[str, int, Sequence[Op]]]) -> pd.DataFrame:
    """The operations of several lives, given as (client, life, ops), as `Recorded.ops`."""
    return frame([ops_table(client, life, [ops]) for client, life, ops in lives], OPS_SCHEMA)


def writes_frame(writes: Sequence[Write]) -> pd.DataFrame:
    """Accepted writes in the resource's order, as `Recorded.writes`."""
    return frame([writes_table([writes])], WRITES_SCHEMA)


def codes_in(names: pd.Index, column: pd.Series) -> npt.NDArray[np.int64]:
    """The column's names as positions in `names`; -1 for others and for missing ones.

    Not by `astype`: pandas takes categoricals that differ only in the order of their names for equal, and keeps the
    codes.
    """
    own = column.astype("category").cat
    if own.categories.equals(names):
        return np.asarray(own.codes, np.int64)
    places = np.append(names.get_indexer(own.categories), -1).astype(np.int64)
    codes: npt.NDArray[np.int64] = places[np.asarray(own.codes, np.int64)]
    return codes

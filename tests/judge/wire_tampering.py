"""Damages what a run recorded of its links, in one way, chosen by a seed: the tables of a run that ended, or the
proxy's files of one that was killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.store.wire import CONNECTIONS, REQUESTS
from harness.store.wire_files import BYTES, EVENT, EVENTS

TABLES = (REQUESTS, CONNECTIONS)


def _table(folder: Path, random: Random, *names: str) -> Path:
    path = folder / random.choice(names or TABLES)
    if not path.exists():
        raise FileNotFoundError(path)
    return path


def _edit(path: Path, how: Callable[[pa.Table], pa.Table]) -> Path:
    pq.write_table(how(pq.read_table(path)), path, compression="zstd")
    return path


def truncate_a_table_of_the_links(folder: Path, random: Random) -> Path:
    path = _table(folder, random)
    data = path.read_bytes()
    path.write_bytes(data[: random.randrange(len(data))])
    return path


def flip_a_byte_of_a_table_of_the_links(folder: Path, random: Random) -> Path:
    path = _table(folder, random)
    data = bytearray(path.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    return path


def delete_a_table_of_the_links(folder: Path, random: Random) -> Path:
    path = _table(folder, random)
    path.unlink()
    return path


def reverse_the_requests(folder: Path, random: Random) -> Path:
    return _edit(_table(folder, random, REQUESTS), lambda table: table.take(pa.array(np.arange(len(table))[::-1])))


def drop_rows_of_the_links(folder: Path, random: Random) -> Path:
    def dropped(table: pa.Table) -> pa.Table:
        at = random.randrange(len(table))
        return pa.concat_tables([table[:at], table[at + random.randint(1, 50) :]])

    return _edit(_table(folder, random), dropped)


def shift_the_times_of_a_table_of_the_links(folder: Path, random: Random) -> Path:
    by = random.choice([-(10**11), -(10**8), 10**8, 10**11])

    def shifted(table: pa.Table) -> pa.Table:
        for name in table.column_names:
            if name.endswith("_ns"):
                table = table.set_column(table.column_names.index(name), name, pc.add(table[name], by))
        return table

    return _edit(_table(folder, random), shifted)


def shift_one_time_of_the_requests(folder: Path, random: Random) -> Path:
    def shifted(table: pa.Table) -> pa.Table:
        name = random.choice([name for name in table.column_names if name.endswith("_ns")])
        values = table[name].to_pylist()
        at = random.choice([at for at, value in enumerate(values) if value is not None])
        values[at] += random.choice([-(10**9), 10**9])
        return table.set_column(table.column_names.index(name), table.field(name), pa.array(values, pa.int64()))

    return _edit(_table(folder, random, REQUESTS), shifted)


def ask_for_another_key(folder: Path, random: Random) -> Path:
    """As if the clients had set each other's keys."""

    def asked(table: pa.Table) -> pa.Table:
        keys = pa.array([["another"] for _ in range(len(table))], pa.list_(pa.string()))
        return table.set_column(table.column_names.index("keys"), table.field("keys"), keys)

    return _edit(_table(folder, random, REQUESTS), asked)


def swap_the_tables_of_the_links(folder: Path, random: Random) -> Path:
    one, other = (folder / name for name in TABLES)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    return random.choice([one, other])


def _proxys(folder: Path, name: str) -> Path:
    path = folder / "wire" / name
    if not path.exists():
        raise FileNotFoundError(path)
    return path


def truncate_the_proxys_record(folder: Path, random: Random) -> Path:
    path = _proxys(folder, random.choice([EVENTS, BYTES]))
    data = path.read_bytes()
    path.write_bytes(data[: random.randrange(len(data) // 2)])
    return path


def flip_a_byte_of_the_proxys_record(folder: Path, random: Random) -> Path:
    path = _proxys(folder, random.choice([EVENTS, BYTES]))
    data = bytearray(path.read_bytes())
    data[random.randrange(len(data) // 2)] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    return path


def _edit_events(folder: Path, how: Callable[[Any], Any]) -> Path:
    path = _proxys(folder, EVENTS)
    data = path.read_bytes()
    path.write_bytes(how(np.frombuffer(data, EVENT, count=len(data) // EVENT.itemsize).copy()).tobytes())
    return path


def reverse_the_proxys_record(folder: Path, random: Random) -> Path:
    return _edit_events(folder, lambda events: events[::-1])


def drop_moments_of_the_proxys_record(folder: Path, random: Random) -> Path:
    def dropped(events: Any) -> Any:
        at = random.randrange(len(events) // 2)
        return np.concatenate([events[:at], events[at + random.randint(1, 20) :]])

    return _edit_events(folder, dropped)


def shift_the_times_of_the_proxys_record(folder: Path, random: Random) -> Path:
    def shifted(events: Any) -> Any:
        events["at_ns"] += random.choice([-(10**9), 10**9])
        return events

    return _edit_events(folder, shifted)


KINDS = (
    truncate_a_table_of_the_links,
    flip_a_byte_of_a_table_of_the_links,
    delete_a_table_of_the_links,
    reverse_the_requests,
    drop_rows_of_the_links,
    shift_the_times_of_a_table_of_the_links,
    shift_one_time_of_the_requests,
    ask_for_another_key,
    swap_the_tables_of_the_links,
    truncate_the_proxys_record,
    flip_a_byte_of_the_proxys_record,
    reverse_the_proxys_record,
    drop_moments_of_the_proxys_record,
    shift_the_times_of_the_proxys_record,
)

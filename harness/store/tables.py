"""A run folder as tables: the operations, the writes, the sections and what the nodes held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.errors import UsageError
from fencepost.files import kind_of
from fencepost.history import LATEST_NS, ClientEnd, FaultEvent, Op, Timeline, Write, task_names
from harness.history.fault_windows import FOREVER_NS, GroupFacts, hitting_tasks
from harness.history.heartbeats import lags, outside_stops
from harness.history.key_holdings import Watched, derive_holdings
from harness.history.open_ended_leases import with_open_ended_leases
from harness.history.recorded import Recorded
from harness.history.sections import derive_sections
from harness.history.vouched_leases import with_vouched_leases
from harness.store.append_log import read_lines
from harness.store.columns import NAME, OPS_SCHEMA, ops_frame, writes_frame
from harness.store.consistency import check_soundness
from harness.store.manifest import FIRST_SCHEMA, RunManifest, broke_off, check_manifest
from harness.store.run_folder import RunFolder, client_logs, part_of
from harness.store.seal import check_seal
from harness.store.wire_folder import connections_of, link_traffic, wire_gaps, wire_record

_ROW_GROUP: Final = 1 << 16


def load_recorded(folder: RunFolder, *, is_over: bool = True) -> Recorded:
    """The run as it was recorded, also one whose harness was killed during it.

    Without a timeline the run began with its first operation and was interrupted; without final.json `final_values` is
    None. `is_over`: False for a run that is still being recorded. Raises UsageError for a folder that was damaged.
    """
    if not is_over:  # what went over the links is on record as a whole when it is over
        return replace(_load(folder, ()), wire=lambda: None, sessions=lambda: None)
    manifest = folder.read_manifest(RunManifest)
    if manifest is not None:
        check_manifest(folder, manifest)
        run = _load_finite(folder, ())
    else:
        doubts = broke_off(folder)
        is_sealed = check_seal(folder)
        run = replace(_load_finite(folder, doubts), is_sealed=is_sealed)
    check_soundness(folder, run)
    return with_vouched_leases(with_open_ended_leases(run))


def _load_finite(folder: RunFolder, doubts: tuple[str, ...]) -> Recorded:
    try:
        return _load(folder, doubts)
    except OverflowError as error:
        raise UsageError(f"{folder.path} is damaged: a number in its logs is too large ({error})") from error


def _load(folder: RunFolder, doubts: tuple[str, ...]) -> Recorded:
    if kind_of(folder.clients) != "folder":
        raise UsageError(
            f"{folder.clients} is missing: the record is damaged; history.parquet, made from it, does not replace it"
        )
    ops = read_ops(client_logs(folder.clients))
    environment = folder.read_environment()
    ends = tuple(folder.read_log("client-ends.jsonl", ClientEnd))
    config = folder.read_config()
    noticed = list(folder.read_log("nemesis.jsonl", FaultEvent))
    stops, waits = outside_stops([(client, gap) for client, _, own in folder.read_gaps() for gap in own], noticed)
    faults = hitting_tasks([*noticed, *stops], config.client_names, config.users_per_client)
    timeline = folder.read_timeline()
    if timeline is None:
        first = int(ops["invoke_ns"].min()) if len(ops) else 0
        timeline = Timeline(start_ns=first, interrupted=True)
    sections = derive_sections(ops, ends, faults)
    return Recorded(
        config=config,
        timeline=timeline,
        ops=ops,
        sections=sections,
        writes=_read_writes(folder),
        faults=faults,
        ends=ends,
        planned_faults=folder.planned_faults(),
        is_scripted=folder.read_experiment() is not None,
        planned_ms=folder.planned_ms(),
        wire_gaps=wire_gaps(folder, config),
        denied=tuple(folder.read_denied()),
        lags=tuple(lags(folder.read_beats(), noticed, timeline.start_ns, timeline.stop_ns or FOREVER_NS)),
        final_values=folder.read_final(),
        traffic=link_traffic(folder, config, timeline.start_ns),
        wire=partial(wire_record, folder, config),
        sessions=partial(connections_of, folder) if session_is_connection(environment) else lambda: None,
        key_events=folder.read_nodes,
        watched=_read_watched(folder),
        unwatchable=_unwatchable(environment),
        group=_group(environment),
        acquire_limit_ms=_acquire_limit_ms(environment),
        lock_has_process=_lock_has_process(environment),
        doubts=doubts,
        is_vouched_for=folder.schema() >= FIRST_SCHEMA,
        kept_waiting={
            task: times for name, times in waits.items() for task in task_names(name, config.users_per_client)
        },
    )


def write_history(folder: RunFolder, ops: pd.DataFrame) -> None:
    """history.parquet: names by number, integers as the differences from one to the next, compressed with zstd. Only
    the times have statistics, by which a reader may skip parts."""
    names = [field.name for field in OPS_SCHEMA if field.type == NAME]
    steps = {field.name: "DELTA_BINARY_PACKED" for field in OPS_SCHEMA if field.type == pa.int64()}
    with folder.in_place("history.parquet") as file:
        pq.write_table(
            pa.Table.from_pandas(ops, OPS_SCHEMA, preserve_index=False),
            file,
            row_group_size=_ROW_GROUP,
            compression="zstd",
            use_dictionary=names,
            column_encoding=steps,
            write_statistics=["invoke_ns", "complete_ns"],
        )


def read_ops(logs: Sequence[tuple[str, int, Path]]) -> pd.DataFrame:
    """The operations of these logs, given with client and life, one log after the other. Raises UsageError for one that
    is damaged."""
    return ops_frame((client, life, ops) for client, life, path in logs for ops in read_lines(path, Op))


def _read_writes(folder: RunFolder) -> pd.DataFrame:
    """The writes that the resource accepted; none where there is no record."""
    log = folder.path / "resource.jsonl"
    return writes_frame(read_lines(log, Write) if log.exists() else ())


def _read_watched(folder: RunFolder) -> Watched | None:
    """What the witness recorded of the nodes' keys; None if there was no witness."""
    if not folder.nodes.exists():
        return None
    return derive_holdings(folder.read_nodes())


def _unwatchable(environment: Mapping[str, Any]) -> str | None:
    """The name of the nodes' server if it has no key events; older runs do not say, and theirs had them."""
    cluster = part_of(environment, "cluster")
    server = part_of(cluster, "server")
    return None if cluster.get("key_events", True) or not server else str(server.get("name"))


def _group(environment: Mapping[str, Any]) -> GroupFacts | None:
    """None if the nodes were no group, or are not known to have been."""
    group = part_of(part_of(environment, "cluster"), "group")
    if not group:
        return None
    return GroupFacts(float(group["settles_within_ms"]), group.get("only_leader_serves") is True)


def session_is_connection(environment: Mapping[str, Any]) -> bool:
    """Whether the nodes' server ends a session with its connection, as far as that is on record."""
    return part_of(environment, "cluster").get("session_ends_with_connection") is True


def _acquire_limit_ms(environment: Mapping[str, Any]) -> float | None:
    """What the lock declared (docs/lock-protocol.md), if it is a number."""
    limit = part_of(environment, "lock").get("acquire_limit_ms")
    if not isinstance(limit, int | float) or isinstance(limit, bool) or limit <= 0:
        return None
    return float(min(limit, LATEST_NS // 10**6))


def _lock_has_process(environment: Mapping[str, Any]) -> bool:
    """Whether the lock is, or may be, a process of its own, or has some; older runs say at least by which command."""
    lock = environment.get("lock")
    return not isinstance(lock, Mapping) or "command" in lock or "processes" in lock

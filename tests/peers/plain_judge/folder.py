"""Reads a run folder into lists of dictionaries. What is missing is empty or None; what is damaged is an error."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Line = dict[str, Any]
Life = tuple[str, int]
"""A client and its life."""


class DamagedError(Exception):
    """A file is there and cannot be understood. The message names it."""


@dataclass(frozen=True)
class Folder:
    config: Line
    ops: dict[Life, list[Line]]
    held: dict[Life, list[Line]]
    gaps: dict[Life, list[Line]]
    ends: dict[Life, Line]
    faults: list[Line]
    writes: list[Line]
    nodes: list[Line]
    timeline: Line | None
    final: dict[str, int] | None
    planned_faults: int
    requests: list[Line]
    connections: list[Line]
    are_links_recorded: bool
    partly_recorded: frozenset[str] = frozenset()
    """Nodes of whose requests some may be missing."""


def read(path: Path) -> Folder:
    ops = _lives(path / "clients")
    schedule = _json(path / "schedule.json", default=[])
    nodes = _lines(path / "nodes.jsonl")
    broke_off = (path / "connections.parquet").exists() and b"ended" in _table(path / "connections.parquet")[1]
    return Folder(
        config=_json(path / "config.json", default=None),
        ops=ops,
        held=_lives(path / "held"),
        gaps=_lives(path / "gaps"),
        ends={(end["client"], end["life"]): end for end in _lines(path / "client-ends.jsonl")},
        faults=_lines(path / "nemesis.jsonl"),
        writes=_lines(path / "resource.jsonl"),
        nodes=nodes,
        timeline=_json(path / "timeline.json", default=None),
        final=_json(path / "final.json", default=None),
        planned_faults=len(schedule["faults"] if isinstance(schedule, dict) else schedule),
        requests=_table(path / "requests.parquet")[0],
        connections=_table(path / "connections.parquet")[0],
        are_links_recorded=(path / "requests.parquet").exists(),
        partly_recorded=frozenset(event["node"] for event in nodes) if broke_off else frozenset(),
    )


def _table(path: Path) -> tuple[list[Line], Any]:
    """The rows, and what the file says besides."""
    if not path.exists():
        return [], {}
    table = pq.read_table(path)
    return table.to_pylist(), table.schema.metadata or {}


def _lives(folder: Path) -> dict[Life, list[Line]]:
    lives = {}
    for log in sorted(folder.iterdir()) if folder.is_dir() else []:
        name = re.fullmatch(r"(.+)\.(\d+)\.jsonl", log.name)
        if name is None:
            raise DamagedError(f"{log} has no name of a client's log")
        lives[name[1], int(name[2])] = _lines(log)
    return lives


def _lines(log: Path) -> list[Line]:
    """A partial line at the end is dropped: its writer was killed."""
    if not log.exists():
        return []
    lines = []
    for line in log.read_bytes().split(b"\n")[:-1]:
        try:
            value = json.loads(line)
        except ValueError as error:
            raise DamagedError(f"{log}: {error}") from error
        if not isinstance(value, dict):
            raise DamagedError(f"{log}: a line is no object")
        lines.append(value)
    return lines


def _json(path: Path, default: Any) -> Any:
    if not path.exists():
        return default
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise DamagedError(f"{path}: {error}") from error

"""What no run can have recorded: "Is the record whole?"."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.peers.plain_judge.folder import DamagedError, Folder

LOADS = ("acquire-release", "fenced-counter", "leader", "register", "rw-lock", "semaphore")
"""The workloads whose clients release every lock before they finish."""


def broke_off(path: Path, folder: Folder) -> bool:
    """Whether the run did not end as planned. Raises DamagedError if the files are not what the run left."""
    if (path / "manifest.json").exists():
        _check_manifest(path)
        return False
    broke = (path / "failure.json").exists()
    is_old = folder.config["schema_version"] < 2
    if not is_old and not broke and folder.final is not None:
        raise DamagedError(f"{path} ended and has no manifest")
    if (path / "sealed.json").exists():
        _check_seal(path)
    _check_lives(path, folder, is_old=is_old)
    _check_writes(folder)
    _check_nodes(folder)
    return broke or not is_old


def _check_manifest(path: Path) -> None:
    listed = {file["name"]: file for file in json.loads((path / "manifest.json").read_bytes())["files"]}
    for name, file in listed.items():
        if not (path / name).is_file():
            raise DamagedError(f"{path / name} is missing")
        data = (path / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != file["sha256"]:
            raise DamagedError(f"{path / name} has changed")
    logs = {log.relative_to(path).as_posix() for log in path.rglob("*.jsonl")}
    if logs - listed.keys():
        raise DamagedError(f"{path} has logs that were not there")


def _check_seal(path: Path) -> None:
    for file in json.loads((path / "sealed.json").read_bytes())["files"]:
        if not (path / file["name"]).is_file():
            raise DamagedError(f"{path / file['name']} is missing")
        data = (path / file["name"]).read_bytes()[: file["bytes"]]
        if hashlib.sha256(data).hexdigest() != file["sha256"]:
            raise DamagedError(f"{path / file['name']} has changed")


def _check_lives(path: Path, folder: Folder, *, is_old: bool) -> None:
    known = {f"c{number}" for number in range(1, folder.config["clients"] + 1)}
    timeline = folder.timeline or {}
    over = timeline.get("end_ns") is not None
    for life, end in folder.ends.items():
        if life[0] not in known or (life not in folder.ops and end.get("under_way") != "starting"):
            raise DamagedError(f"{life} ended and has no log")
    for life, gaps in folder.gaps.items():
        if life not in folder.ops or any(gap["to_ns"] < gap["from_ns"] for gap in gaps):
            raise DamagedError(f"{life} has gaps and no log, or a gap that ends before it begins")
    section, over_ns = dict.fromkeys(known, 0), dict.fromkeys(known, 0)
    for life, ops in sorted(folder.ops.items()):
        if life[0] not in known or (over and life not in folder.ends):
            raise DamagedError(f"{life} is unknown, or has no end")
        before, first, left_ns = 0, True, 0
        if ops and min(op["invoke_ns"] for op in ops) < over_ns[life[0]]:
            raise DamagedError(f"{life} begins before the life before it is over")
        over_ns[life[0]] = max((op["complete_ns"] for op in ops), default=over_ns[life[0]])
        if life in folder.ends and ops and over_ns[life[0]] > folder.ends[life]["at_ns"]:
            raise DamagedError(f"{life} does something after its end")
        for op in ops:
            if op["complete_ns"] < op["invoke_ns"] or op["invoke_ns"] < timeline.get("start_ns", 0):
                raise DamagedError(f"{life}: {op} ends before it starts, or starts before the run")
            if over and op["complete_ns"] > timeline["end_ns"]:
                raise DamagedError(f"{life}: {op} is later than the run")
            repeated = op["section"] < section[life[0]] or (first and op["section"] == section[life[0]])
            if is_old and (op["invoke_ns"] < before or repeated):
                raise DamagedError(f"{life}: {op} is out of order")
            if op["f"] in ("acquire", "release"):
                if op["invoke_ns"] < left_ns:
                    raise DamagedError(f"{life}: {op} begins before the one before it is over")
                left_ns = op["complete_ns"]
            before, first, section[life[0]] = op["complete_ns"], False, op["section"]
        granted = {(op["section"], op["key"]) for op in ops if op["f"] == "acquire" and op["outcome"] == "ok"}
        left = {(op["section"], op["key"]) for op in ops if op["f"] == "release"}
        is_load = folder.config["workload"] in LOADS and not (path / "experiment.json").exists()
        if is_load and life in folder.ends and folder.ends[life]["how"] == "finished" and granted - left:
            raise DamagedError(f"{life} finished inside")


def _check_writes(folder: Folder) -> None:
    granted = {
        (life[0], op["section"]): op["key"]
        for life, ops in folder.ops.items()
        for op in ops
        if op["f"] == "acquire" and op["outcome"] == "ok"
    }
    count: dict[str, int] = {}
    for write in folder.writes:
        count[write["key"]] = count.get(write["key"], 0) + 1
        if granted.get((write["client"], write["section"])) != write["key"] or write["index"] != count[write["key"]]:
            raise DamagedError(f"{write} was granted to nobody, or is not in the resource's order")


def _check_nodes(folder: Folder) -> None:
    last: dict[str, int] = {}
    for event in folder.nodes:
        if event["event"] == "blind":
            continue
        if event["at_ns"] < last.get(event["node"], 0) or event.get("since_ns", 0) > event["at_ns"]:
            raise DamagedError(f"{event} is not in its node's order")
        last[event["node"]] = event["at_ns"]

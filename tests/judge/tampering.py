"""Damages a run folder in one way, chosen by a seed: what a full disk, a careless copy or a hand may do to it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from harness.store.columns import ops_frame
from harness.store.run_folder import RunFolder
from harness.store.tables import write_history

Tampering = Callable[[Path, Random], Path]
"""Damages the folder and returns the file that it damaged."""


def tamper(folder: Path, seed: int, kinds: Sequence[Tampering] | None = None) -> tuple[str, Path]:
    """Damage the folder; returns how, and the damaged file."""
    kinds = KINDS if kinds is None else kinds
    kind = kinds[seed % len(kinds)]
    return kind.__name__.replace("_", " "), kind(folder, Random(seed))


def _log(folder: Path, random: Random, name: str = "clients/*.jsonl") -> Path:
    logs = [log for log in sorted(folder.glob(name)) if log.stat().st_size]
    return random.choice(logs)


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def delete_a_log(folder: Path, random: Random) -> Path:
    log = _log(folder, random)
    log.unlink()
    return log


def truncate_a_log_after_a_line(folder: Path, random: Random) -> Path:
    log = _log(folder, random)
    lines = _lines(log)
    log.write_bytes(b"".join(lines[: random.randrange(len(lines))]))
    return log


def truncate_a_log_within_a_line(folder: Path, random: Random) -> Path:
    log = _log(folder, random)
    data = log.read_bytes()
    log.write_bytes(data[: random.randrange(1, len(data) - 1)])
    return log


def empty_a_log(folder: Path, random: Random) -> Path:
    log = _log(folder, random)
    log.write_bytes(b"")
    return log


def duplicate_a_line(folder: Path, random: Random) -> Path:
    log = _log(folder, random)
    lines = _lines(log)
    at = random.randrange(len(lines))
    log.write_bytes(b"".join([*lines[: at + 1], *lines[at:]]))
    return log


def reverse_a_log(folder: Path, random: Random) -> Path:
    log = _log(folder, random)
    log.write_bytes(
        b"".join(
            reversed(
                [
                    *_lines(log),
                    b'{"f":"release","outcome":"ok","key":"k1","section":99,"invoke_ns":1,"complete_ns":2}\n',
                ]
            )
        )
    )
    return log


def flip_a_byte(folder: Path, random: Random) -> Path:
    log = _log(folder, random, random.choice(["clients/*.jsonl", "*.jsonl"]))
    data = bytearray(log.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    log.write_bytes(data)
    return log


def drop_lines_in_the_middle(folder: Path, random: Random) -> Path:
    log = _log(folder, random, random.choice(["clients/*.jsonl", "resource.jsonl", "nodes.jsonl", "clients/*.jsonl"]))
    lines = _lines(log)
    at = random.randrange(len(lines))
    log.write_bytes(b"".join([*lines[:at], *lines[at + random.randint(1, 5) :]]))
    return log


def drop_the_tail_of_the_resources_record(folder: Path, random: Random) -> Path:
    log = folder / "resource.jsonl"
    lines = _lines(log)
    log.write_bytes(b"".join(lines[: random.randrange(len(lines))]))
    return log


def drop_a_record_of_the_run(folder: Path, random: Random) -> Path:
    names = ["resource.jsonl", "client-ends.jsonl", "nemesis.jsonl", "nodes.jsonl", "timeline.json", "final.json"]
    path = folder / random.choice(names)
    path.unlink()
    return path


def swap_two_logs(folder: Path, random: Random) -> Path:
    one, other = random.sample(sorted((folder / "clients").iterdir()), 2)
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    return one


def copy_a_log_as_another_life(folder: Path, random: Random) -> Path:
    log = _log(folder, random)
    copy = log.with_name(f"{log.name.split('.')[0]}.7.jsonl")
    shutil.copy(log, copy)
    return copy


def _edit(path: Path, random: Random, change: Callable[[dict[str, Any]], None]) -> Path:
    lines = _lines(path)
    at = random.randrange(len(lines))
    record = json.loads(lines[at])
    change(record)
    lines[at] = json.dumps(record).encode() + b"\n"
    path.write_bytes(b"".join(lines))
    return path


def complete_before_invoke(folder: Path, random: Random) -> Path:
    return _edit(_log(folder, random), random, lambda op: op.update(complete_ns=op["invoke_ns"] - 5))


def a_time_outside_of_the_run(folder: Path, random: Random) -> Path:
    by = random.choice([-(10**12), 10**12])
    return _edit(
        _log(folder, random),
        random,
        lambda op: op.update(invoke_ns=op["invoke_ns"] + by, complete_ns=op["complete_ns"] + by),
    )


def a_number_that_is_too_large(folder: Path, random: Random) -> Path:
    log = _log(folder, random, random.choice(["clients/*.jsonl", "client-ends.jsonl", "nodes.jsonl"]))
    name = "complete_ns" if log.parent.name == "clients" else "at_ns"
    return _edit(log, random, lambda record: record.update({name: 10 ** random.choice([18, 19, 40])}))


def an_end_that_names_no_log(folder: Path, random: Random) -> Path:
    path = folder / "client-ends.jsonl"
    return _edit(path, random, lambda end: end.update(client=random.choice(["c999", "", "k1"])))


def _anywhere(folder: Path, random: Random) -> Path:
    names = ["nodes.jsonl", "timeline.json", "resource.jsonl", "config.json", "final.json", "client-ends.jsonl"]
    return random.choice([_log(folder, random), folder / random.choice(names)])


def a_fifo_instead_of_a_file(folder: Path, random: Random) -> Path:
    path = _anywhere(folder, random)
    path.unlink()
    os.mkfifo(path)
    return path


def a_folder_instead_of_a_file(folder: Path, random: Random) -> Path:
    path = _anywhere(folder, random)
    path.unlink()
    path.mkdir()
    return path


def json_that_is_too_deep(folder: Path, random: Random) -> Path:
    path = _anywhere(folder, random)
    path.write_bytes(b'{"key":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
    return path


def a_line_without_an_end(folder: Path, random: Random) -> Path:
    path = _log(folder, random)
    path.write_bytes(path.read_bytes() + b'{"f":"' + b"x" * 3_000_000)
    return path


def an_empty_history_instead_of_the_logs(folder: Path, random: Random) -> Path:
    """Another run's operations, in which nothing happened."""
    log = _log(folder, random)
    shutil.rmtree(folder / "clients")
    write_history(RunFolder(folder), ops_frame([]))
    return log.parent


EXTREMES = (2**63 - 1, -(2**63), 2**63, 2**62, -(2**62), 2**60, 2**60 + 1, 10**18, 10**40, 10**12, -1, 0, 1e308, 1e-308)


def an_extreme_number(folder: Path, random: Random) -> Path:
    """Of any field of any record, in place of the number that was there."""
    path = random.choice([path for path in sorted(folder.rglob("*.json*")) if _has_numbers(path)])
    document = path.read_bytes()
    lines = document.splitlines(keepends=True) if path.suffix == ".jsonl" else [document]
    at = random.choice([number for number, line in enumerate(lines) if _NUMBER.search(line)])
    found = random.choice(list(_NUMBER.finditer(lines[at])))
    extreme = repr(random.choice(EXTREMES)).encode()
    lines[at] = lines[at][: found.start(1)] + extreme + lines[at][found.end(1) :]
    path.write_bytes(b"".join(lines))
    return path


_NUMBER = re.compile(rb"[:\[,]\s*(-?[0-9][0-9.eE+-]*)(?=[,}\]\s])")
_NOT_RECORDED = ("manifest.json", "sealed.json", "verdict.json")


def _has_numbers(path: Path) -> bool:
    return path.is_file() and path.name not in _NOT_RECORDED and bool(_NUMBER.search(path.read_bytes()))


KINDS: tuple[Tampering, ...] = (
    delete_a_log,
    truncate_a_log_after_a_line,
    truncate_a_log_within_a_line,
    empty_a_log,
    duplicate_a_line,
    reverse_a_log,
    flip_a_byte,
    drop_lines_in_the_middle,
    drop_the_tail_of_the_resources_record,
    drop_a_record_of_the_run,
    swap_two_logs,
    copy_a_log_as_another_life,
    complete_before_invoke,
    a_time_outside_of_the_run,
    a_number_that_is_too_large,
    an_end_that_names_no_log,
    a_fifo_instead_of_a_file,
    a_folder_instead_of_a_file,
    json_that_is_too_deep,
    a_line_without_an_end,
    an_empty_history_instead_of_the_logs,
    an_extreme_number,
)

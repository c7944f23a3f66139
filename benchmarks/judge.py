"""How fast a history is read and judged: `python benchmarks/judge.py [SECTIONS] [FOLDER]` prints figures.

Two histories of the same size are made up: one without overlaps, and one of a lock that is often broken. Each becomes
the logs of ten clients in a folder that is removed afterwards, and is read, cut into sections and judged.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec

from harness.checkers import checkers
from harness.columns import OPS_SCHEMA, frame
from harness.config import RunConfig
from harness.history import ClientEnd, Op, Timeline, Write
from harness.judge import judge
from harness.sections import derive_sections
from harness.store import RunFolder, load_recorded

T = TypeVar("T")
CLIENTS = 10
START_NS = 10**15
STEP_NS = 100_000


def make(results: Path, sections: int, broken_share: float) -> RunFolder:
    """A folder with this many sections of five operations each, the given share of them overlapping the next one."""
    folder = RunFolder.create(results, RunConfig(seed=1, clients=CLIENTS, nemesis="none"))
    encode, rng = msgspec.json.Encoder().encode, Random(1)
    logs = {n: folder.client_log(f"c{n}", 1).open("wb") for n in range(1, CLIENTS + 1)}
    at, value = START_NS, 0
    with folder.resource_log() as resource:
        writes = []
        for number in range(sections):
            client, section = number % CLIENTS + 1, number // CLIENTS + 1
            broken = rng.random() < broken_share
            read, end = value, at + (STEP_NS + 20_000 if broken else STEP_NS - 10_000)
            value = value if broken else value + 1
            base = ("k1", section)
            for op in (
                Op("acquire", "fail", *base, at - 40_000, at - 30_000),
                Op("acquire", "ok", *base, at - 20_000, at, validity_ms=900.0, requested_ns=at - 15_000),
                Op("read", "ok", *base, at + 10, at + 20, value=read),
                Op("write", "ok", *base, at + 30, at + 40, value=read + 1),
                Op("release", "ok", *base, end, end + 10),
            ):
                logs[client].write(encode(op) + b"\n")
            writes.append(Write("k1", 0, f"c{client}", section, read + 1))
            at += STEP_NS
        resource.extend(writes)
    with folder.client_ends_log() as ends:
        ends.extend([ClientEnd(f"c{n}", 1, "finished", at) for n in logs])
    for log in logs.values():
        log.close()
    folder.write_timeline(Timeline(START_NS, at, at, at))
    folder.write_final({"k1": writes[-1].value})
    return folder


def timed(what: str, count: int, unit: str, act: Callable[[], T]) -> T:
    begin = time.perf_counter()
    result = act()
    seconds = time.perf_counter() - begin
    print(f"  {what:<34} {seconds:7.2f} s   {count / seconds / 1e6:6.2f} M {unit}/s")
    return result


def main() -> None:
    sections = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as results:
        for words, share in (("no overlap", 0.0), ("one section in a hundred overlaps", 0.01)):
            folder = make(Path(results), sections, share)
            lines = 5 * sections
            print(f"{sections:,} sections, {lines:,} operations, {words}")
            table = timed("logs to columns", lines, "lines", folder.read_history)
            ops = timed("columns to a frame", lines, "rows", lambda table=table: frame([table], OPS_SCHEMA))
            timed("sections from operations", sections, "sections", lambda ops=ops: derive_sections(ops, (), ()))
            del table, ops
            run = load_recorded(folder)
            for name, check in checkers().items():
                timed(f"checker {name}", sections, "sections", lambda run=run, check=check: check(run))
            verdict = timed("judged in all", sections, "sections", lambda run=run: judge(run))
            found = verdict.figures["exclusion"]["overlaps"]
            print(f"  {verdict.verdict}: {found}, lost {verdict.figures['counter']['lost']}\n")


if __name__ == "__main__":
    main()

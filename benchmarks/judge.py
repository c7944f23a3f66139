"""How fast a history is judged: `python benchmarks/judge.py [SECTIONS] [LOGGED] [FOLDER]` prints figures.

First, tables of sections (`harness.store.section_table`) with 10,000 to SECTIONS rows (10 million), 1,000 keys and 256
clients, from the Parquet file to the verdict: without overlaps, with one section in a hundred overlapping the next, and
with one key on which everything overlaps. A separate process judges each table; its peak memory includes all imports.
For comparison, each line shows how long numpy takes to sort as many random numbers in the same process, and the ratio
of the two in CPU time.

Then LOGGED sections (a million) as the logs of ten clients, with five operations each. An operation is two events, its
invocation and its completion. The logs are read in pieces, about sixty-five bytes per operation remain in memory, and
judging them needs about ten more for a while. So the peak grows with the number of operations, not with the length of
their lines. The output compares the rate with bare decoding of the same lines into structs, in CPU time.
All files are in a folder that is removed afterwards.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pyarrow as pa

from fencepost.history import ClientEnd, Op, Timeline, Write
from harness.checkers import checkers
from harness.checkers.judge import judge_folder, judge_table
from harness.config import RunConfig
from harness.store.append_log import read_lines
from harness.store.manifest import write_manifest
from harness.store.run_folder import RunFolder
from harness.store.section_table import SECTIONS_SCHEMA, save
from harness.store.tables import load_recorded

KEYS, CLIENTS, LOGGING_CLIENTS = 1_000, 256, 10
START_NS = 10**15
STEP_NS = 100_000
KINDS = {"no overlap": 0.0, "one in a hundred overlaps": 0.01, "everything overlaps": 1.0}


def make_table(path: Path, count: int, broken_share: float) -> None:
    """Sections of random keys by random clients; the given share of them overlaps the next section of its key."""
    rng = np.random.default_rng(1)
    everything = broken_share == 1
    key = np.zeros(count, np.int32) if everything else rng.integers(0, KEYS, count).astype(np.int32)
    client = rng.integers(0, CLIENTS, count).astype(np.int32)
    start = START_NS + np.arange(count, dtype=np.int64) * 1_000
    by_key = np.argsort(key, kind="stable")
    follows = np.append(key[by_key][1:] == key[by_key][:-1], False)
    until = np.empty(count, np.int64)
    until[by_key] = np.where(follows, np.append(start[by_key][1:], 0), start[-1] + 1_000)
    broken = rng.random(count) < broken_share
    end = np.where(broken, start[-1] if everything else until + 500, until - 1)
    numbers = {name: np.empty(count, np.int64) for name in ("key", "client")}
    for name, codes in (("key", key), ("client", client)):
        order = np.argsort(codes, kind="stable")
        first = np.flatnonzero(np.diff(codes[order], prepend=-1))
        numbers[name][order] = np.arange(count) - np.repeat(first, np.diff(np.append(first, count))) + 1
    table = {
        "client": _names(client, "c", CLIENTS),
        "life": np.ones(count, np.int32),
        "section": numbers["client"],
        "key": _names(key, "k", KEYS),
        "start_ns": start,
        "end_ns": end,
        "deadline_min_ns": np.where(rng.random(count) < 0.5, end, until - 2),
        "deadline_max_ns": end + 1_000,
        "ended": _names(np.zeros(count, np.int32), "release", 1),
        "token": numbers["key"],
        "token_source": _names(np.zeros(count, np.int32), "lock", 1),
        "value": numbers["key"],
        "accepted": numbers["key"],
        "told": np.ones(count, np.bool_),
    }
    save(pa.table({name: table[name] for name in SECTIONS_SCHEMA.names}), path)


def _names(codes: np.ndarray, stem: str, count: int) -> pa.DictionaryArray:
    names = [stem] if count == 1 else [f"{stem}{number}" for number in range(1, count + 1)]
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names))


def judge_one(path: Path, count: int) -> None:
    """Judge one table, in a separate process, and print one line of figures."""
    began, cpu_began = time.perf_counter(), time.process_time()
    verdict = judge_table(path, RunConfig(seed=1, nemesis="none"))
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    peak_gb = peak_memory_gb()
    numbers = np.random.default_rng(1).integers(0, 2**62, count)
    began = time.process_time()
    numbers.sort()
    sort_seconds = time.process_time() - began
    pairs, ratio = verdict.figures["exclusion"].overlapping_pairs, cpu_seconds / sort_seconds
    print(
        f"  {count:>12,} {seconds:>9.3f} s {cpu_seconds:>9.3f} s {peak_gb:>7.2f} GB"
        f" {sort_seconds:>9.3f} s {ratio:>7.1f}   {verdict.verdict}, {pairs:,} pairs"
    )


def make_logs(results: Path, sections: int, broken_share: float) -> RunFolder:
    """A folder with this many sections of five operations each; the given share of them overlaps the next section."""
    folder = RunFolder.create(results, RunConfig(seed=1, clients=LOGGING_CLIENTS, nemesis="none"))
    encode, rng = msgspec.json.Encoder().encode, Random(1)
    logs = {n: folder.client_log(f"c{n}", 1).open("wb") for n in range(1, LOGGING_CLIENTS + 1)}
    at, value = START_NS, 0
    with folder.resource_log() as resource_log:
        writes = []
        for number in range(sections):
            client, section = number % LOGGING_CLIENTS + 1, number // LOGGING_CLIENTS + 1
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
            writes.append(Write("k1", number + 1, f"c{client}", section, read + 1))
            at += STEP_NS
        resource_log.extend(writes)
    folder.nemesis_log().close()
    at += STEP_NS
    with folder.client_ends_log() as ends:
        ends.extend([ClientEnd(f"c{n}", 1, "finished", at) for n in logs])
    for log in logs.values():
        log.close()
    folder.write_timeline(Timeline(START_NS - STEP_NS, at, at, at))
    folder.write_environment({})
    folder.write_final({"k1": writes[-1].value})
    write_manifest(folder)
    return folder


def judge_logs(folder: RunFolder, operations: int) -> None:
    """Judge the logs step by step, and then in one call as `fencepost analyze` does."""
    began = time.perf_counter()
    run = load_recorded(folder)
    print(f"  {'logs to sections':<22} {time.perf_counter() - began:7.2f} s")
    for name, checker in checkers().items():
        began = time.perf_counter()
        checker.check(run)
        print(f"  {'checker ' + name:<22} {time.perf_counter() - began:7.2f} s")
    del run
    began, cpu_began = time.perf_counter(), time.process_time()
    _, verdict = judge_folder(folder)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    peak_gb = peak_memory_gb()
    rate = operations / seconds / 1e6
    cpu_began = time.process_time()
    for log in folder.clients.iterdir():
        for _ in read_lines(log, Op):
            pass
    ratio = cpu_seconds / (time.process_time() - cpu_began)
    print(
        f"  {'logs to verdict':<22} {seconds:7.2f} s ({cpu_seconds:.2f} s of CPU, {ratio:.1f} times bare decoding)\n"
        f"  {rate:.2f} M operations/s, {2 * rate:.2f} M events/s, {2 * operations / cpu_seconds / 1e6:.2f} M events per"
        f" second of CPU, peak {peak_gb:.2f} GB, {verdict.verdict}\n"
    )


def peak_memory_gb() -> float:
    """The peak of this process alone; `getrusage` would include its parent's memory at the fork."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e9


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        judge_one(Path(sys.argv[2]), int(sys.argv[3]))
        return
    if sys.argv[1:2] == ["logs"]:
        judge_logs(RunFolder.open(sys.argv[2]), int(sys.argv[3]))
        return
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    logged = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else None) as temporary:
        path = Path(temporary) / "sections.parquet"
        for words, share in KINDS.items():
            print(f"{words}\n  {'sections':>12} {'judged':>11} {'CPU':>11} {'peak':>10} {'bare sort':>11} {'ratio':>7}")
            count = 10_000
            while count <= largest:
                make_table(path, count, share)
                again("one", str(path), str(count))
                count *= 10
        for words, share in list(KINDS.items())[:2]:
            print(f"logs of {logged:,} sections, {5 * logged:,} operations, {words}")
            folder = make_logs(Path(temporary), logged, share)
            again("logs", str(folder.path), str(5 * logged))


def again(*arguments: str) -> None:
    sys.stdout.flush()
    subprocess.run([sys.executable, __file__, *arguments], check=True)


if __name__ == "__main__":
    main()

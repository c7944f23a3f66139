"""How fast a history is judged: `python benchmarks/judge.py [LOGGED] [FOLDER]` prints figures.

LOGGED sections (a million) are the logs of ten clients, with five operations each: without overlaps, and with one
section in a hundred overlapping the next. An operation is two events, its invocation and its completion. The logs are
read in pieces, about sixty-five bytes per operation remain in memory, and judging them needs about ten more for a
while. The output compares the rate with bare decoding of the same lines into structs, in CPU time. All files are in a
folder that is removed afterwards.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import msgspec

from fencepost.history import ClientEnd, Op, Timeline, Write
from harness.checkers import checkers
from harness.checkers.judge import judge_folder
from harness.config import RunConfig
from harness.store.append_log import read_lines
from harness.store.manifest import write_manifest
from harness.store.run_folder import RunFolder
from harness.store.tables import load_recorded

LOGGING_CLIENTS = 10
START_NS = 10**15
STEP_NS = 100_000
KINDS = {"no overlap": 0.0, "one in a hundred overlaps": 0.01}


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
    if sys.argv[1:2] == ["logs"]:
        judge_logs(RunFolder.open(sys.argv[2]), int(sys.argv[3]))
        return
    logged = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as temporary:
        for words, share in KINDS.items():
            print(f"logs of {logged:,} sections, {5 * logged:,} operations, {words}")
            folder = make_logs(Path(temporary), logged, share)
            sys.stdout.flush()
            subprocess.run([sys.executable, __file__, "logs", str(folder.path), str(5 * logged)], check=True)


if __name__ == "__main__":
    main()

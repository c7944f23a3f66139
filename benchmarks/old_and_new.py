"""How much faster this tree judges than another revision: `python benchmarks/old_and_new.py BASE [--sections N]`.

BASE is checked out into a temporary folder, and both trees judge the same histories, one after the other and each in a
process of its own with the same interpreter:

- raw logs of ten clients, five operations per section, from the bytes to the verdict;
- 64 clients on 1,000 keys, with all key events of five nodes.

Each is judged by turns, several times; the smallest figures count. Each line shows the time and the CPU time of both,
and their ratio. An operation is two events, its invocation and its completion. Their rate is shown by the clock, and
per second of CPU time, which a busy machine changes less, but by a fifth all the same. The peak memory is shown per
operation, after subtracting what the imports need. The last line shows what decoding alone costs: the processor time in
which msgspec turns the same raw lines into structs. For links that are cut and healed together and one by one, see
`benchmarks/links.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from judge import LOGGING_CLIENTS, START_NS, make_logs

from fencepost.history import ClientEnd, KeyEvent, Op, Timeline, Write
from harness.config import RunConfig
from harness.store.append_log import AppendLog, read_lines
from harness.store.manifest import write_manifest
from harness.store.run_folder import RunFolder

ROOT = Path(__file__).resolve().parent.parent
KEYS, CLIENTS, NODES = 1_000, 64, 5
MILLISECOND = 1_000_000
WORKER = """
import json, os, sys, time
from pathlib import Path
from harness.checkers import checkers
from harness.checkers.judge import judge_folder
from harness.store.run_folder import RunFolder

checkers()

def peak():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))

path, imports, began, cpu = Path(sys.argv[1]), peak(), time.perf_counter(), sum(os.times()[:4])
_, verdict = judge_folder(RunFolder.open(path))
took = {"wall": time.perf_counter() - began, "cpu": sum(os.times()[:4]) - cpu, "bytes": peak() - imports}
json.dump(took | {"verdict": verdict.verdict}, sys.stdout)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("base", help="the revision to compare this tree with")
    parser.add_argument("--sections", type=int, default=1_000_000, help="in the raw logs (default: 1,000,000)")
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fencepost-old-and-new-") as temporary:
        place = Path(temporary)
        logs = make_logs(place / "logs", asked.sections, 0.01)
        keys = make_keys(place / "keys", max(1, asked.sections // 50 // KEYS))
        base = place / "base"
        git("worktree", "add", "--quiet", "--detach", str(base), asked.base)
        try:
            print(f"{'':44} {'old':>17} {'new':>17} {'ratio':>11}   bytes per operation, old and new")
            operations = 5 * asked.sections
            compare(base, f"{2 * operations:,} events in raw logs", logs.path, operations, asked.rounds)
            compare(base, f"{KEYS:,} keys, {CLIENTS} clients, key events", keys.path, 0, asked.rounds)
        finally:
            git("worktree", "remove", "--force", str(base))
        began = time.process_time()
        for log in logs.clients.iterdir():
            for _ in read_lines(log, Op):
                pass
        seconds = time.process_time() - began
        rate = 2 * operations / seconds / 1e6
        print(
            f"bare decoding of the raw logs of {LOGGING_CLIENTS} clients: {seconds:.2f} s of CPU, {rate:.2f} M events/s"
        )


def compare(base: Path, what: str, path: Path, operations: int, rounds: int) -> None:
    """By turns, so that a busy machine slows both."""
    found: dict[str, list[dict[str, float]]] = {"old": [], "new": []}
    for _ in range(rounds):
        for name, tree in (("old", base), ("new", ROOT)):
            found[name].append(judged_by(tree, path))
    old, new = ({name: min(one[name] for one in of) for name in ("wall", "cpu", "bytes")} for of in found.values())
    ratios = f"{old['wall'] / new['wall']:.1f} ({old['cpu'] / new['cpu']:.1f})"
    memory = f"   {old['bytes'] / operations:.0f} {new['bytes'] / operations:.0f}" if operations else ""
    times = [f"{one['wall']:.2f} s ({one['cpu']:.2f})" for one in (old, new)]
    print(f"{what:44} {times[0]:>17} {times[1]:>17} {ratios:>11}{memory}", flush=True)
    if operations:
        for words, clock in (("  events a second", "wall"), ("  events per second of CPU", "cpu")):
            rates = [f"{2 * operations / one[clock] / 1e6:.2f} M" for one in (old, new)]
            print(f"{words:44} {rates[0]:>17} {rates[1]:>17}", flush=True)


def judged_by(tree: Path, path: Path) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", WORKER, str(path)]
    took: dict[str, float] = json.loads(subprocess.check_output(command, cwd=tree, env=environment))
    return took


def make_keys(results: Path, per_key: int) -> RunFolder:
    """A run on `KEYS` keys without overlaps, of which five nodes saw every set and every deletion."""
    folder = RunFolder.create(results, RunConfig(seed=1, clients=CLIENTS, nemesis="none", keys=KEYS, lock="redlock"))
    nodes = [f"n{number}" for number in range(1, NODES + 1)]
    before = START_NS - 1000 * MILLISECOND
    events = [KeyEvent(node, before, "watching", value=f"run of {node}", since_ns=before - 1) for node in nodes]
    ops: dict[int, list[Op]] = {client: [] for client in range(CLIENTS)}
    writes = []
    for number in range(KEYS * per_key):
        client, key, count = number % CLIENTS, f"k{number % KEYS + 1}", number // KEYS
        section, at = number // CLIENTS + 1, START_NS + number * MILLISECOND
        base, end, value = (key, section), at + 20 * MILLISECOND, f"{client}-{section}"
        asked = at - MILLISECOND
        ops[client] += [
            Op("acquire", "fail", *base, at - 3 * MILLISECOND, at - 2 * MILLISECOND),
            Op("acquire", "ok", *base, asked, at, validity_ms=900.0, requested_ns=asked),
            Op("read", "ok", *base, at + 1_000, at + 2_000, value=count),
            Op("write", "ok", *base, at + 3_000, at + 4_000, value=count + 1),
            Op("release", "ok", *base, end, end + 500_000),
        ]
        writes.append(Write(key, count + 1, f"c{client + 1}", section, count + 1))
        for place, node in enumerate(nodes):
            events.append(KeyEvent(node, at - 500_000 + place, "set", key, value, 1000, asked))
            events.append(KeyEvent(node, end + 100_000 + place, "deleted", key, since_ns=end))
    over = at + 1000 * MILLISECOND
    for client in range(CLIENTS):
        with AppendLog(folder.client_log(f"c{client + 1}", 1)) as log:
            log.extend(ops[client])
    with AppendLog(folder.nodes) as log:
        log.extend(sorted(events, key=lambda event: event.at_ns))
    with folder.resource_log() as log:
        log.extend(writes)
    with folder.client_ends_log() as log:
        log.extend(ClientEnd(f"c{client + 1}", 1, "finished", over) for client in range(CLIENTS))
    folder.write_timeline(Timeline(START_NS, over, over, over))
    folder.write_final({f"k{key + 1}": per_key for key in range(KEYS)})
    write_manifest(folder)
    return folder


def git(*words: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *words], check=True)


if __name__ == "__main__":
    main()

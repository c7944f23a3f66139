"""What a run costs in processor time, and who spends it: `python benchmarks/run_cost.py [--base REVISION]`.

Campaigns of a few runs (`fencepost compare --axis lock=redlock`) are made with this tree, and by turns with REVISION,
which is checked out into a temporary folder. Behind `--` may be options of `fencepost test`; by default, five clients
put load on servers that are processes for 12 s. With `--workers 4`, four runs are made at once.

Meanwhile all processes below the command are looked at 20 times a second. The table shows the processor seconds of a
run by who spent them, how many runs an hour two processors could make at most, and the ratio of both trees. What a
process spends after the last look at it is missing, as are processes that live shorter than a look: "not seen" is the
rest of what the kernel says of the whole command.

Both trees are compiled first, so no process of a run compiles its modules, whatever the environment says about keeping
byte code. `acquired` says whether the lock was put to the same use: how often it was granted in a run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
LOAD = ("--cluster", "process", "--duration", "12s", "--clients", "5")
LOOK_EVERY_S = 0.05
PARTS = {
    "workloads.client": "clients",
    "harness.run.witness": "witness",
    "main_inside": "harness inside",
    "cluster.reap": "reaper",
    "harness.campaign.worker_process_client": "players",
    "harness.campaign.scheduler_process": "Dask",
    "multiprocessing": "Dask",
    "toxiproxy": "Toxiproxy",
    "redis-server": "servers",
    "valkey-server": "servers",
}
"""Who a process is, by a word in its command line."""
COMMAND, UNSEEN, ACQUIRED = "command", "not seen", "acquired"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Looking(threading.Thread):
    """Looks at the processes below one. `spent`: processor seconds of each, and who it is."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._known = {pid}
        self._over = threading.Event()
        self.spent: dict[int, tuple[str, float]] = {}

    def run(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self._look()

    def end(self) -> None:
        self._over.set()
        self.join()

    def by_part(self) -> Counter[str]:
        sums: Counter[str] = Counter()
        for who, seconds in self.spent.values():
            sums[who] += seconds  # type: ignore[assignment]
        return sums

    def _look(self) -> None:
        for pid in sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                if pid not in self._known and int(fields[1]) not in self._known:
                    continue
                self._known.add(pid)
                line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                who = next((part for word, part in PARTS.items() if word in line), COMMAND)
                if not line:  # it has ended, and is still what it was
                    who = self.spent.get(pid, (COMMAND, 0.0))[0]
                self.spent[pid] = who, (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def cost_of(tree: Path, words: Sequence[str], seed: int, runs: int, workers: int) -> Counter[str]:
    """Processor seconds of one run by part, and how often the lock was granted."""
    with tempfile.TemporaryDirectory(prefix="fencepost-cost-") as place:
        report = Path(place, "report")
        command = [sys.executable, "-m", "fencepost", "compare", "--axis", "lock=redlock", "--seeds", str(runs)]
        command += ["--first-seed", str(seed), "--workers", str(workers), "--report", str(report)]
        command += ["--results", f"{place}/runs", "--", *words]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        process = subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        looking = Looking(process.pid)
        looking.start()
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        looking.end()
        if status:
            raise SystemExit(f"{tree} cannot make these runs: {said.decode(errors='replace')}")
        lines = [json.loads(line) for line in Path(report, "runs.jsonl").read_text().splitlines()]
    sums = looking.by_part()
    sums[UNSEEN] = max(0.0, usage.ru_utime + usage.ru_stime - sums.total())  # type: ignore[assignment]
    sums[ACQUIRED] = sum(sum(line["figures"]["acquire"].values()) for line in lines)
    return Counter({part: value / runs for part, value in sums.items()})  # type: ignore[misc]


def compile_all(tree: Path) -> None:
    packages = [tree / name for name in ("fencepost", "cluster", "nemesis", "workloads", "harness")]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *packages], check=True)


def show(found: dict[str, list[Counter[str]]]) -> None:
    names = list(found)
    middle = {name: {part: median(one[part] for one in of) for part in set().union(*of)} for name, of in found.items()}
    parts = sorted(set().union(*middle.values()) - {ACQUIRED}, key=lambda part: -middle[names[0]].get(part, 0))
    sums = {name: median(one.total() - one[ACQUIRED] for one in of) for name, of in found.items()}

    def row(what: str, values: Sequence[float], digits: int) -> None:
        ratio = f"{values[-1] / values[0]:10.2f}" if len(values) > 1 and values[0] else ""
        print(f"{what:34}" + "".join(f"{value:10.{digits}f}" for value in values) + ratio)

    print(
        f"{'processor seconds of a run':34}"
        + "".join(f"{name:>10}" for name in names)
        + f"{'ratio' if len(names) > 1 else '':>10}"
    )
    for part in parts:
        row(part, [middle[name].get(part, 0.0) for name in names], 2)
    row("all", [sums[name] for name in names], 2)
    row("runs an hour on two processors", [7200 / sums[name] for name in names], 0)
    row(ACQUIRED, [middle[name][ACQUIRED] for name in names], 0)


def git(*words: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *words], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", help="the revision to compare this tree with")
    parser.add_argument("--rounds", type=int, default=3, help="campaigns of each (3)")
    parser.add_argument("--runs", type=int, default=3, help="runs of a campaign (3)")
    parser.add_argument("--workers", type=int, default=1, help="runs at once (1)")
    parser.add_argument("words", nargs="*", metavar="OPTIONS", help="of `fencepost test`, after --")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fencepost-base-") as place:
        trees = {"new": ROOT}
        if asked.base:
            git("worktree", "add", "--quiet", "--detach", f"{place}/base", asked.base)
            Path(place, "base", ".tools").symlink_to((ROOT / ".tools").resolve())
            trees = {"old": Path(place, "base"), "new": ROOT}
        try:
            for tree in trees.values():
                compile_all(tree)
            found: dict[str, list[Counter[str]]] = {name: [] for name in trees}
            for number in range(asked.rounds):
                for name, tree in trees.items():
                    seed = 1 + number * asked.runs
                    found[name].append(cost_of(tree, [*LOAD, *asked.words], seed, asked.runs, asked.workers))
            show(found)
        finally:
            if asked.base:
                git("worktree", "remove", "--force", f"{place}/base")


if __name__ == "__main__":
    main()

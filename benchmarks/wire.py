"""What recording the links costs: `python -m benchmarks.wire [--rounds 4] [--seconds 10]`.

First, the reference lock on two clusters of processes, of which one records: acquires and releases by turns, in
batches, so that both see the same noise. The ratios (recorded to not) are those of the time of an acquire and its
release, and of Toxiproxy's processor time for it.

Then ROUNDS pairs of whole runs at the default load without faults, with `--wire on` and `--wire off` by turns: sections
a second, the median wait of a granted acquire, and Toxiproxy's processor time for each acquire that was tried. These
are the figures that users see, and those that a busy machine disturbs most.

Prints medians of the ratios, and ends with 1 if one misses its target.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

import fencepost
from benchmarks.reference_lock import BATCH, by_the_lock
from benchmarks.run_cost import TICKS_PER_S, Looking
from cluster.lifetime import RunState
from cluster.process import ProcessCluster
from cluster.programs import find_server, find_toxiproxy
from cluster.spec import ClusterSpec
from workloads.base import LockSettings, NodeAddress
from workloads.locks.redlock import Redlock

SECTIONS_TARGET, CPU_TARGET = 0.95, 1.15
NODES = 5


class Played(NamedTuple):
    """`cpu_us`: of Toxiproxy, for an acquire, granted or not. `wait_ms`: the median of granted acquires."""

    sections_per_s: float
    wait_ms: float
    cpu_us: float


def batches(seconds: float) -> tuple[float, float]:
    """The median ratio of the time of an acquire and its release, and the ratio of Toxiproxy's processor time."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fencepost-wire-")))
        turns = [stack.enter_context(acquiring(place / name, name == "on")) for name in ("on", "off")]
        for turn, _ in turns:
            took_s(turn)
        before = [ticks(pid) for _, pid in turns]
        ratios, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            order = turns if len(ratios) % 2 else turns[::-1]
            found = {pid: took_s(turn) for turn, pid in order}
            ratios.append(found[turns[0][1]] / found[turns[1][1]])
        on, off = (ticks(pid) - earlier for (_, pid), earlier in zip(turns, before, strict=True))
    print(f"{len(ratios)} batches of {BATCH} each: Toxiproxy {on / TICKS_PER_S:.2f} s and {off / TICKS_PER_S:.2f} s")
    return median(ratios), on / off


@contextmanager
def acquiring(folder: Path, is_recorded: bool) -> Iterator[tuple[Callable[[], object], int]]:
    """An acquire and its release on a cluster of its own, and the process of its Toxiproxy."""
    names, redis = [f"n{number}" for number in range(1, NODES + 1)], find_server("redis")
    folder.mkdir()
    known = toxiproxies()
    with RunState.create(parent=folder / "state") as state:
        spec = ClusterSpec(redis, redis, find_toxiproxy(), tuple(names), ("c1",))
        cluster = ProcessCluster(spec, state, folder / "logs", folder / "wire" if is_recorded else None)
        cluster.start()
        try:
            (pid,) = toxiproxies() - known
            links = [cluster.links["c1", name].address for name in names]
            lock = Redlock(
                [NodeAddress(*link, redis.server.url(*link)) for link in links], LockSettings(node_timeout_ms=1_000)
            )
            yield by_the_lock(lock), pid
            lock.close()
        finally:
            cluster.stop()


def toxiproxies() -> set[int]:
    return {each.pid for each in psutil.Process().children(recursive=True) if "toxiproxy" in each.name()}


def ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def took_s(turn: Callable[[], object]) -> float:
    before = time.monotonic()
    for _ in range(BATCH):
        turn()
    return time.monotonic() - before


def played(wire: str, seconds: float, seed: int) -> Played:
    with tempfile.TemporaryDirectory(prefix="fencepost-wire-") as place:
        words = ["test", "--lock", "redlock", "--nemesis", "none", "--cluster", "process", "--wire", wire]
        words += ["--duration", f"{seconds:g}s", "--recovery", "0s", "--seed", str(seed), "--witness", "off"]
        command = [sys.executable, "-m", "fencepost", *words, "--results", place]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        looking = Looking(process.pid)
        looking.start()
        said, _ = process.communicate()
        looking.end()
        if process.returncode not in (0, 2):
            raise SystemExit(said)
        (folder,) = (path.parent for path in Path(place).glob("*/config.json") if not path.parent.is_symlink())
        run = fencepost.load(folder)
    granted = run.ops[(run.ops.f == "acquire") & (run.ops.outcome == "ok")]
    wait_ms = float((granted.complete_ns - granted.invoke_ns).median()) / 1e6
    return Played(
        len(run.sections) / seconds, wait_ms, looking.by_part()["Toxiproxy"] * 1e6 / (run.ops.f == "acquire").sum()
    )


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args(argv)
    os.environ["COLUMNS"] = "200"
    latency, cpu = batches(given.seconds)
    missed = cpu > CPU_TARGET
    print(f"acquire and release {latency:.3f}, Toxiproxy {cpu:.3f} (at most {CPU_TARGET})")
    pairs = []
    for seed in range(1, given.rounds + 1):
        order = ("on", "off") if seed % 2 else ("off", "on")
        found = {wire: played(wire, given.seconds, seed) for wire in order}
        pairs.append((found["on"], found["off"]))
        (on, off) = pairs[-1]
        print(f"sections/s {on.sections_per_s:.1f} and {off.sections_per_s:.1f}, ", end="")
        print(f"wait {on.wait_ms:.2f} and {off.wait_ms:.2f} ms, Toxiproxy {on.cpu_us:.0f} and {off.cpu_us:.0f} µs")
    if pairs:
        sections, wait, cpu = (
            median(getattr(on, name) / getattr(off, name) for on, off in pairs) for name in Played._fields
        )
        missed |= sections < SECTIONS_TARGET or cpu > CPU_TARGET
        print(f"sections/s {sections:.3f} (at least {SECTIONS_TARGET}), wait p50 {wait:.3f}, ", end="")
        print(f"Toxiproxy {cpu:.3f} (at most {CPU_TARGET})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

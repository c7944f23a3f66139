"""How fast clients record: the real client loop with a no-op lock and resource, in two concurrent processes, compared
with the same loop without its heartbeat, and with a bare msgspec encode + write of the same lines. The loops alternate.

An operation is one line and two events of the history, its invocation and its completion (`ok`, `fail`, `info`). Prints
operations and events per second, and the ratio to the bare loop of the same run.

    python benchmarks/recording.py [seconds]
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import monotonic_ns

import msgspec

from fencepost.history import Op
from workloads.base import LockSettings
from workloads.control import Control
from workloads.heartbeat import Heartbeat
from workloads.hold import Hold
from workloads.kinds.fenced_counter import WORKLOAD
from workloads.lock_steps import LockSteps
from workloads.locks.no_op import LOCK
from workloads.options import ClientOptions
from workloads.recorder import Recorder
from workloads.workload import Client

PROCESSES = 2
ROUNDS = 5


class NoOpResource:
    """Accepts everything and does nothing."""

    def run(self, script: str, keys: Sequence[str], args: Sequence[object]) -> object:
        return None


def client_loop(folder: Path, number: int, seconds: float) -> float:
    """Operations per second of the real client loop."""
    control = Control.create(folder / f"{number}.control")
    with Heartbeat(folder / f"{number}.gaps", folder / f"{number}.beats", control.beat) as heartbeat:
        record = Recorder(folder / f"{number}.jsonl", before=heartbeat.check)
        return _operations_per_s(control, record, number, seconds)


def heartless_loop(folder: Path, number: int, seconds: float) -> float:
    """Operations per second without a heartbeat."""
    control = Control.create(folder / f"{number}.control")
    return _operations_per_s(control, Recorder(folder / f"{number}.jsonl"), number, seconds)


def _operations_per_s(control: Control, record: Recorder, number: int, seconds: float) -> float:
    options = ClientOptions(hold=Hold("fixed", 0, 0), retry_delay_ms=0)
    lock = LockSteps(f"c{number}", options, LOCK([], LockSettings()), record, control)
    began_ns = monotonic_ns()
    control.stop_ns = began_ns + int(seconds * 1e9)
    WORKLOAD.run(Client(options, lock, NoOpResource(), control, Random(number)))
    return record.ops / ((monotonic_ns() - began_ns) / 1e9)


def bare_loop(folder: Path, number: int, seconds: float) -> float:
    """Operations per second of encoding and writing alone."""
    fd = os.open(folder / f"{number}.bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    encode = msgspec.json.Encoder().encode
    began_ns = monotonic_ns()
    stop_ns = began_ns + int(seconds * 1e9)
    count = 0
    while (now_ns := monotonic_ns()) < stop_ns:
        os.write(fd, encode(Op("acquire", "ok", "k1", count, now_ns, now_ns)) + b"\n")
        count += 1
    os.close(fd)
    return count / ((monotonic_ns() - began_ns) / 1e9)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    with tempfile.TemporaryDirectory() as name, multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        loops = {
            "client loop": client_loop,
            "without a heartbeat": heartless_loop,
            "bare encode + write": bare_loop,
        }
        rates: dict[str, list[float]] = {title: [] for title in loops}
        for _ in range(ROUNDS):
            for title, loop in loops.items():
                jobs = [(Path(name), number, seconds / ROUNDS) for number in range(PROCESSES)]
                rates[title].append(sum(pool.starmap(loop, jobs, chunksize=1)))
        median = {title: statistics.median(of_rounds) for title, of_rounds in rates.items()}
        for title, rate in median.items():
            print(f"{title:<20} {rate:>12,.0f} operations/s {2 * rate:>12,.0f} events/s")
        print(f"ratio client loop / bare: {median['client loop'] / median['bare encode + write']:.2f}")
        print(f"ratio with / without a heartbeat: {median['client loop'] / median['without a heartbeat']:.3f}")


if __name__ == "__main__":
    main()

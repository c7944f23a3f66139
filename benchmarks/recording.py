"""How fast clients record: the real client loop with a no-op lock and resource, in two concurrent processes, compared
with a bare msgspec encode + write of the same lines.

An operation is one line and two events of the history, its invocation and its completion (`ok`, `fail`, `info`). Prints
operations and events per second, and the ratio to the bare loop of the same run.

    python benchmarks/recording.py [seconds]
"""

from __future__ import annotations

import multiprocessing
import os
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
from workloads.hold import Hold
from workloads.kinds.fenced_counter import WORKLOAD
from workloads.lock_steps import LockSteps
from workloads.locks.no_op import LOCK
from workloads.options import ClientOptions
from workloads.recorder import Recorder
from workloads.workload import Client

PROCESSES = 2


class NoOpResource:
    """Accepts everything and does nothing."""

    def run(self, script: str, keys: Sequence[str], args: Sequence[object]) -> object:
        return None


def client_loop(folder: Path, number: int, seconds: float) -> float:
    """Operations per second of the real client loop."""
    control = Control.create(folder / f"{number}.control")
    record = Recorder(folder / f"{number}.jsonl")
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
        rates = {}
        for title, loop in (("client loop", client_loop), ("bare encode + write", bare_loop)):
            rates[title] = sum(pool.starmap(loop, [(Path(name), n, seconds) for n in range(PROCESSES)], chunksize=1))
            print(f"{title:<20} {rates[title]:>12,.0f} operations/s {2 * rates[title]:>12,.0f} events/s")
        print(f"ratio client loop / bare: {rates['client loop'] / rates['bare encode + write']:.2f}")


if __name__ == "__main__":
    main()

"""The client process: `python -m workloads.client SPEC.json`.

The harness starts a fresh one for each client. It opens its lock, connects, says that it is ready, waits for the agreed
moment, and from then on needs nobody: it works, records and ends by itself. A driven client does what it is told.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import monotonic_ns, sleep

import msgspec

from fencepost.errors import FencepostError
from fencepost.options import fields_of
from workloads import driven_client
from workloads.base import LockSettings, NodeAddress
from workloads.control import Control, State
from workloads.kinds import find_workload
from workloads.lock_steps import LockSteps
from workloads.options import ClientOptions, LockOptions
from workloads.recorder import Recorder
from workloads.redis_resource import RedisResource
from workloads.registry import open_lock
from workloads.workload import Client


class ClientSpec(msgspec.Struct, frozen=True, kw_only=True):
    """All that a client needs to know. `options`: what the user decides; the harness writes its whole `RunConfig`
    there, and the client reads its own part. `nodes` and `resource` are the client's own links; `first_section` is
    where the numbers of sections continue after a killed predecessor in the same slot. `held`: where the values of
    granted leases are recorded. `pipes`: the pipes (orders in, answers out) of a driven client."""

    client: str
    seed: str
    options: ClientOptions
    nodes: Sequence[NodeAddress]
    resource: tuple[str, int]
    resource_timeout_ms: float
    lock_log: str
    first_section: int
    history: str
    answers: str
    held: str | None
    control: str
    description: str
    pipes: tuple[int, int] | None = None


def work(spec: ClientSpec) -> None:
    """The whole life of a client. Raises FencepostError when the lock or the disk is broken."""
    control, options = Control(Path(spec.control)), spec.options
    workload = find_workload(options.workload)
    settings = LockSettings(
        **fields_of(options, LockOptions), rng=Random(f"{spec.seed}:lock"), log_path=Path(spec.lock_log)
    )
    lock = open_lock(options.lock, options.lock_command, spec.nodes, settings)
    resource = RedisResource(*spec.resource, spec.resource_timeout_ms)
    record = Recorder(Path(spec.history), Path(spec.answers))
    held = None if spec.held is None else Recorder(Path(spec.held))
    try:
        resource.warm_up(workload.scripts)
        Path(spec.description).write_bytes(msgspec.json.encode(lock.describe()))
        gc.collect()
        gc.freeze()
        control.enter(State.READY, monotonic_ns())
        steps = LockSteps(spec.client, options, lock, record, control, spec.first_section, held)
        if spec.pipes is None:
            _await_start(control)
            workload.run(Client(options, steps, resource, control, Random(f"{spec.seed}:workload")))
        else:
            driven_client.serve(workload, steps, resource, *spec.pipes)
        control.enter(State.DONE, monotonic_ns())
    finally:
        lock.close()
        resource.close()
        record.close()
        if held is not None:
            held.close()


def _await_start(control: Control) -> None:
    """Sleep until the agreed moment, or until the run is called off before it began."""
    while control.start_ns == 0 and monotonic_ns() < control.stop_ns:
        sleep(0.002)
    while (left_ns := min(control.start_ns, control.stop_ns) - monotonic_ns()) > 0:
        sleep(left_ns / 1e9)


def main(argv: Sequence[str]) -> int:
    try:
        work(msgspec.json.decode(Path(argv[1]).read_bytes(), type=ClientSpec))
    except FencepostError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

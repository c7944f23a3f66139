"""The client process: `python -m workloads.client SPEC.json`.

The harness starts a fresh one for each client, so it imports at once only what every client needs: half of what a
client costs in a short run is its start. It opens its lock, connects, says that it is ready, waits for the agreed
moment, and from then on works by itself: it works, records and ends by itself. A driven client does what it is told.

With several tasks, each is a thread with logs, a control block, random numbers and a connection to the resource of its
own. They share the lock object, and call it at the same time. One that takes two keys at once is two users of the lock,
each with logs of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from random import Random
from threading import Thread
from time import monotonic_ns, sleep
from typing import Final, NamedTuple

import msgspec

from fencepost.errors import BrokenEnvironmentError, FencepostError
from fencepost.interpreter_start import is_complete
from fencepost.options import fields_of
from fencepost.user_code import in_words
from workloads.answer_checks import checked_description
from workloads.base import Lock, LockSettings, NodeAddress, other_processes
from workloads.control import Control, State
from workloads.heartbeat import Heartbeat
from workloads.kinds import find_workload
from workloads.lock_steps import LockSteps
from workloads.options import ClientOptions, LockOptions
from workloads.recorder import Recorder
from workloads.redis_resource import RedisResource
from workloads.registry import open_lock
from workloads.secrecy import hidden
from workloads.workload import Client, Workload

_NICENESS: Final = 10
"""On a machine with too many clients, the servers, the proxy and the harness come first: the network that the lock is
judged on must not be what the clients starve."""
_OPEN_AGAIN_NS: Final = 200_000_000


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Who uses the lock, and where that is recorded. `seed`: of its own random numbers. `first_section`: where the
    numbers of sections continue after a killed predecessor in the same slot."""

    name: str
    seed: str
    first_section: int
    history: str
    control: str


class ResourceAddress(NamedTuple):
    """Where a client dials the resource. `password`: None if it asks for none."""

    host: str
    port: int
    password: str | None


class ClientSpec(msgspec.Struct, frozen=True, kw_only=True):
    """All that a client needs to know. `options`: what the user decides; the harness writes its whole `RunConfig`
    there, and the client reads its own part. `nodes`, `sentinels` and `resource` are the client's own links.
    `tasks`: one, or several that share the lock; with `two_keys` each thread is two of them, which follow each other.
    `gaps`, `beats`: where the heartbeat records when the process did not run, and how late it beat. `senders`: where it
    notes which task sends what; None: that is not asked for. `life`: which
    process in its slot it is, from 1 on. `pipes`: the pipes (orders in, answers out) of a driven client, which has one
    task."""

    seed: str
    options: ClientOptions
    nodes: Sequence[NodeAddress]
    resource: ResourceAddress
    resource_timeout_ms: float
    lock_log: str
    tasks: tuple[TaskSpec, ...]
    description: str
    gaps: str
    beats: str
    senders: str | None = None
    life: int = 1
    sentinels: Sequence[NodeAddress] = ()
    pipes: tuple[int, int] | None = None


def work(spec: ClientSpec) -> None:
    """The whole life of a client. Raises FencepostError when the lock or the disk is broken."""
    options = spec.options
    workload = find_workload(options.workload)
    settings = LockSettings(
        **fields_of(options, LockOptions),
        rng=Random(f"{spec.seed}:lock"),
        log_path=Path(spec.lock_log),
        senders_path=None if spec.senders is None else Path(spec.senders),
        sentinels=spec.sentinels,
    )
    with ExitStack() as stack:
        if spec.senders is not None:
            from workloads.senders import SenderLog

            stack.enter_context(SenderLog(Path(spec.senders)))
        heartbeat = Heartbeat(Path(spec.gaps), Path(spec.beats), Control(Path(spec.tasks[0].control)).beat)
        closing = stack.enter_context(ExitStack())

        def opened(*, is_first: bool = False) -> Lock:
            closing.close()
            lock = _open(spec, settings, is_first=is_first)
            closing.callback(lock.close)
            heartbeat.minds(other_processes(lock))
            return lock

        lock = opened(is_first=spec.life == 1)
        clients = [_client(spec, task, lock, opened, workload, heartbeat, stack) for task in spec.tasks]
        description = checked_description(lock.describe(), len(other_processes(lock)))
        Path(spec.description).write_bytes(hidden(description, spec.resource.password))
        is_complete()
        stack.enter_context(heartbeat)
        for client in clients:
            client.control.enter(State.READY, monotonic_ns())
        if options.two_keys:
            clients = [replace(one, second=other) for one, other in zip(clients[::2], clients[1::2], strict=True)]
        if spec.pipes is not None:
            from workloads import driven_client

            (client,) = clients
            secret = spec.resource.password
            driven_client.serve(workload, client.lock, client.resource, *spec.pipes, secret=secret)
            client.control.enter(State.DONE, monotonic_ns())
        elif len(clients) == 1:
            _run(workload, clients[0])
        else:
            _run_all(workload, clients)


def _open(spec: ClientSpec, settings: LockSettings, *, is_first: bool) -> Lock:
    """The lock, opened. Some connect at once, and fail while a node is away. A process that took the place of a killed
    one, or that opens its lock anew, during faults, does as its supervisor would do: it tries again, until
    the run is over."""
    control = Control(Path(spec.tasks[0].control))
    while True:
        try:
            return open_lock(spec.options.lock, spec.options.lock_command, spec.nodes, settings)
        except BrokenEnvironmentError as error:
            if is_first or monotonic_ns() + _OPEN_AGAIN_NS > control.stop_ns:
                raise
            _complain(spec, f"{error}; it is tried again")
        sleep(_OPEN_AGAIN_NS / 1e9)


def _client(
    spec: ClientSpec,
    task: TaskSpec,
    lock: Lock,
    reopened: Callable[[], Lock],
    workload: Workload,
    heartbeat: Heartbeat,
    stack: ExitStack,
) -> Client:
    """The client of a task. `stack` closes what it opens."""
    control = Control(Path(task.control))
    resource = RedisResource(*spec.resource, spec.resource_timeout_ms)
    stack.callback(resource.close)
    record = Recorder(Path(task.history), spec.resource.password, heartbeat.check)
    stack.callback(record.close)
    resource.warm_up(workload.scripts)
    steps = LockSteps(task.name, spec.options, lock, record, control, task.first_section, reopened)
    return Client(spec.options, steps, resource, control, Random(f"{task.seed}:workload"))


def _run(workload: Workload, client: Client) -> None:
    _await_start(client.control)
    workload.run(client)
    for user in filter(None, (client.second, client)):
        user.control.enter(State.DONE, monotonic_ns())


def _run_all(workload: Workload, clients: Sequence[Client]) -> None:
    """Run every task in a thread of its own. Raises what the first one to fail raised; the others end with the
    process."""
    from concurrent.futures import FIRST_EXCEPTION, Future, wait

    def run(client: Client, result: Future[None]) -> None:
        try:
            _run(workload, client)
        except BaseException as error:
            result.set_exception(error)
        else:
            result.set_result(None)

    results: list[Future[None]] = [Future() for _ in clients]
    for client, result in zip(clients, results, strict=True):
        Thread(target=run, args=(client, result), name=client.lock.client, daemon=True).start()
    for result in wait(results, return_when=FIRST_EXCEPTION).done:
        result.result()


def _await_start(control: Control) -> None:
    """Sleep until the agreed moment, or until the run is called off before it began.

    The moment is agreed a tenth of a second ahead, so it is enough to look periodically: hundreds of clients that look
    all the time would keep the last ones from starting.
    """
    while control.start_ns == 0 and monotonic_ns() < control.stop_ns:
        sleep(0.02)
    while (left_ns := min(control.start_ns, control.stop_ns) - monotonic_ns()) > 0:
        sleep(left_ns / 1e9)


def main(argv: Sequence[str]) -> int:
    os.nice(_NICENESS)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a killed process cannot flush what its lock printed
    spec = msgspec.json.decode(Path(argv[1]).read_bytes(), type=ClientSpec)
    try:
        work(spec)
    except FencepostError as error:
        _complain(spec, str(error))
        return error.exit_code
    except BaseException as error:  # the lock's own code may raise anything, SystemExit too
        import traceback

        _complain(spec, traceback.format_exc())
        _complain(spec, f"the client ended by {in_words(error)}")
        return FencepostError.exit_code
    return 0


def _complain(spec: ClientSpec, words: str) -> None:
    said = hidden(words.encode(errors="replace"), spec.resource.password)
    sys.stderr.write(said.decode().rstrip() + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""The witness: a process that watches what the nodes actually hold, and records it (`nodes.jsonl`).

Clients know only what their lock reported. Whether a key was left behind, or was gone while its holder was inside, only
the nodes know. The witness asks them directly, not through the links, so only a fault of the node itself can stop it
from seeing, and it records when that happens. It does not disturb a run: it is a separate process that yields the
processor to clients and servers and, as a rule, wakes up at most every few milliseconds. It changes nothing on a node
except the notification setting.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns, sleep
from typing import Final, NamedTuple

import msgspec

from cluster.address import Address
from cluster.base import Node
from cluster.credentials import Login
from cluster.key_events import KeyEventStream
from cluster.registry import server_named
from fencepost.errors import FencepostError, InternalError
from fencepost.interpreter_start import is_complete
from harness.run.helper_process import Companion
from harness.store.append_log import AppendLog

_LOOK_NS: Final = 50_000_000
"""How often what was seen is written."""
_LAST_PROOF_NS: Final = 300_000_000
_NICE: Final = 10
_REST_S: Final = 0.003
"""The pause between two looks. All events in between are handled in one batch: at 500 sections per second that takes 6
% of a processor, whereas waking up for every event takes 15 %. If a key lived shorter than this, its value stays
unknown. There is no pause while a node that is back is asked what it holds."""
_READY: Final = b"watching\n"


def witness(nodes: Iterable[Node], log: Path, words: Path, environment: Mapping[str, str]) -> Companion:
    """Watches these nodes, whose server must have key events, from when it is entered; the log shows which of them were
    in sight by then. `log`: the file for events; `words`: the file for its own errors."""
    told = [_Watched(node.name, node.server.name, node.address, node.address.login) for node in nodes]
    return Companion("harness.run.witness", [str(log)], told, words, environment)


class _Watched(NamedTuple):
    """What the witness has to know of a node."""

    name: str
    server: str
    address: Address
    login: Login | None


def watch(nodes: Sequence[_Watched], log: AppendLog, until: int, ready: int) -> None:
    """Watch the nodes until the descriptor `until` can be read or is closed; write to `ready` when all nodes are being
    watched. Raises BrokenEnvironmentError when the disk is full."""
    streams = [_open(node) for node in nodes]
    told = False
    while not _look(streams, until, _LOOK_NS):
        _write(streams, log)
        if not told and all(stream.is_watching for stream in streams):
            os.write(ready, _READY)
            told = True
    now_ns = monotonic_ns()
    for stream in streams:
        stream.prove(now_ns)
    deadline_ns = now_ns + _LAST_PROOF_NS
    while any(stream.is_waiting for stream in streams):
        left_ns = max(0, deadline_ns - monotonic_ns())
        _look(streams, None, left_ns)  # also when the time is over: what came while this process did not run is there
        if not left_ns:
            break
    for stream in streams:
        stream.close()
    _write(streams, log)


def _open(node: _Watched) -> KeyEventStream:
    open_events = server_named(node.server).key_events
    if open_events is None:
        raise InternalError(f"{node.name} runs {node.server}, which has no key events, and cannot be watched")
    return open_events(node.name, node.address.behind(node.login))


def _look(streams: Sequence[KeyEventStream], until: int | None, for_ns: int) -> bool:
    """Handle the nodes' events for this long; returns True immediately if it is time to end."""
    deadline_ns = monotonic_ns() + for_ns
    while True:
        rest_s = 0.0 if any(stream.is_opening for stream in streams) else _REST_S
        sleep(rest_s)
        poll = select.poll()
        if until is not None:
            poll.register(until, select.POLLIN)
        by_fd = {}
        for stream in streams:
            for fd, events in stream.wants.items():
                by_fd[fd] = stream
                poll.register(fd, events)
        left_ms = max(0, deadline_ns - monotonic_ns()) / 1e6
        if not all(stream.is_watching for stream in streams):  # one may have to be dialled
            left_ms = min(left_ms, (_REST_S - rest_s) * 1e3)
        ready = [fd for fd, _ in poll.poll(left_ms)]
        if until in ready:
            return True
        for stream in {id(by_fd[fd]): by_fd[fd] for fd in ready}.values():
            stream.advance()
        now_ns = monotonic_ns()
        for stream in streams:
            stream.upkeep(now_ns)
        if now_ns >= deadline_ns or (until is None and not any(stream.is_waiting for stream in streams)):
            return False


def _write(streams: Sequence[KeyEventStream], log: AppendLog) -> None:
    log.extend(event for stream in streams for event in stream.take())


def main(argv: Sequence[str]) -> int:
    os.nice(_NICE)
    with suppress(PermissionError):  # of a policy that yields even more
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # so that it preempts no other process
    is_complete()
    nodes = msgspec.json.decode(sys.stdin.buffer.readline(), type=list[_Watched])
    try:
        with AppendLog(Path(argv[1])) as log:
            watch(nodes, log, sys.stdin.fileno(), sys.stdout.fileno())
    except FencepostError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

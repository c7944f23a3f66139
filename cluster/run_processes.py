"""The processes of a run: found by the mark in their environment, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from cluster.waiting import is_readable
from fencepost.errors import BrokenEnvironmentError

RUN_VARIABLE = "FENCEPOST_RUN"
"""The environment variable that marks every process of a run."""

_END_LIMIT_S = 10.0


def end_processes(run_id: str) -> tuple[str, ...]:
    """SIGKILL every process that carries the run's id in its environment, except the caller, and wait until all are
    gone.

    Returns `pid name` of each. Raises BrokenEnvironmentError if one does not end.
    """
    ended: list[str] = []
    deadline = time.monotonic() + _END_LIMIT_S
    # A process may have started another one before it was killed, so look until none is found.
    while found := list(_processes_of(run_id)):
        try:
            for pid, descriptor in found:
                if (line := f"{pid} {_process_name(pid)}") not in ended:
                    ended.append(line)
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            for pid, descriptor in found:
                left_s = max(0.0, deadline - time.monotonic())
                if not is_readable(descriptor, left_s):
                    raise BrokenEnvironmentError(f"process {pid} of run {run_id} does not end after SIGKILL")
        finally:
            for _, descriptor in found:
                os.close(descriptor)
    return tuple(ended)


def _processes_of(run_id: str) -> Iterator[tuple[int, int]]:
    """Every process of the run, as pid and pidfd.

    The pidfd is opened before the process is examined, and the process is seen alive afterwards. So the pidfd belongs
    to the process that was examined, even if its number is reused later.
    """
    own = os.getpid()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == own or not _belongs(entry.name, run_id):
            continue
        pid = int(entry.name)
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            continue
        if _belongs(entry.name, run_id):
            yield pid, descriptor
        else:
            os.close(descriptor)


def _belongs(pid: str, run_id: str) -> bool:
    """Whether a living process carries the run's id; a dead one no longer has an environment.

    Servers are configured not to set their title, because they would write it over the environment. The working
    directory proves nothing: a user's shell may well be inside a dead run's folder.
    """
    try:
        environment = (Path("/proc") / pid / "environ").read_bytes()
    except OSError:
        return False
    return f"{RUN_VARIABLE}={run_id}".encode() in environment.split(b"\0")


def _process_name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "comm").read_text().strip()
    return "?"

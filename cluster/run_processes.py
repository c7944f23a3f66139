"""The processes of a run: found by the mark in their environment, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

from cluster.polling import is_readable
from cluster.process_tree import tree_of
from fencepost.errors import BrokenEnvironmentError

RUN_VARIABLE = "FENCEPOST_RUN"
"""The environment variable that marks every process of a run."""

_END_LIMIT_S = 10.0
_EXEC_WITHIN_S = 1.0
"""Within exec(2) there is a moment at which a process has no environment. One that is older than this has passed it."""
_LOOK_EVERY_S = 0.002
_STARTED: Final = 19
"""The place of the start time in /proc/PID/stat, counted after the name."""


def end_processes(run_id: str) -> tuple[str, ...]:
    """SIGKILL every process that carries the run's id in its environment, except the caller, and wait until all are
    gone.

    Returns `pid name` of each. Raises BrokenEnvironmentError if one does not end.
    """
    ended: list[str] = []
    deadline = time.monotonic() + _END_LIMIT_S
    # A process may have started another one before it was killed, so look until none is found.
    while True:
        found, is_unknown = _processes_of(run_id)
        if not found:
            if not is_unknown:
                return tuple(ended)
            time.sleep(_LOOK_EVERY_S)
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


def _processes_of(run_id: str) -> tuple[list[tuple[int, int]], bool]:
    """Every process of the run, as pid and pidfd; and whether there is one that cannot be told yet.

    The pidfd is opened before the process is examined, and the process is seen alive afterwards. So the pidfd belongs
    to the process that was examined, even if its number is reused later.
    """
    own = os.getpid()
    found: list[tuple[int, int]] = []
    is_unknown = False
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == own:
            continue
        pid = int(entry.name)
        belongs = _belongs(pid, run_id)
        is_unknown |= belongs is None
        if not belongs:
            continue
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            continue
        if _belongs(pid, run_id):
            found.append((pid, descriptor))
        else:
            os.close(descriptor)
    return [*found, *_unmarked_children({pid for pid, _ in found} | {own})], is_unknown


def _unmarked_children(marked: set[int]) -> list[tuple[int, int]]:
    """Descendants of marked processes that have written over their environment, as pid and pidfd."""
    found: list[tuple[int, int]] = []
    for root in marked - {os.getpid()}:
        for pid in set(tree_of(root)) - marked:
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(pid)
                if pid in tree_of(root):
                    found.append((pid, descriptor))
                else:
                    os.close(descriptor)
    return found


def _belongs(pid: int, run_id: str) -> bool | None:
    """Whether a living process carries the run's id; None for one that may just be within exec(2). A dead one no longer
    has an environment.

    Servers are configured not to set their title, because they would write it over the environment. The working
    directory proves nothing: a user's shell may well be inside a dead run's folder.
    """
    try:
        environment = _environment(pid)
        if not environment:
            return None if _is_new(pid) else False
    except OSError:
        return False
    return f"{RUN_VARIABLE}={run_id}".encode() in environment.split(b"\0")


def _environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def _is_new(pid: int) -> bool:
    """Whether it is a program that was started a moment ago; the dead and the kernel's own threads have no program."""
    Path(f"/proc/{pid}/exe").readlink()
    started = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_STARTED])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")
    return age_s < _EXEC_WITHIN_S


def _process_name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "comm").read_text().strip()
    return "?"

"""Start a child that a sweep can find, and end it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cluster.waiting import VERB_LIMIT_S, becomes_true
from fencepost.errors import BrokenEnvironmentError


def spawn(
    command: Sequence[str | Path], *, folder: Path, log: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a program in its own session (so that a Ctrl-C at the terminal reaches only the harness); what it prints is
    appended to `log`. `environment` is added to ours. Raises BrokenEnvironmentError if it cannot be started."""
    try:
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )
    except OSError as error:
        raise BrokenEnvironmentError(f"{command[0]} cannot be started: {error}") from error


def end_child(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to a child of `spawn`, stopped or not, and to its own children (a server that writes a snapshot has one,
    which would go on), and wait for the child's end. Does nothing if it has ended.

    Raises BrokenEnvironmentError if it does not end."""
    if process.poll() is None:  # then its process group certainly still exists
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(VERB_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise BrokenEnvironmentError(f"process {process.pid} does not end after SIGKILL") from None


def stop_child(process: subprocess.Popen[bytes]) -> bool:
    """SIGSTOP, and wait until the kernel shows it; False if the child has ended instead."""
    process.send_signal(signal.SIGSTOP)
    seen = becomes_true(lambda: process.poll() is not None or is_stopped(process.pid))
    if not seen:
        raise BrokenEnvironmentError(f"process {process.pid} does not stop after SIGSTOP")
    return process.poll() is None


def is_stopped(pid: int) -> bool:
    """Whether the kernel shows the process as stopped; False also for one that is gone."""
    try:
        # The name, in parentheses, may hold anything; the state is the first word after the last one.
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False

"""Start a child that a sweep can find, and end it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, TypedDict

from cluster.polling import VERB_LIMIT_S, becomes_true, is_readable
from cluster.process_tree import tree_of
from cluster.run_user import Owner
from fencepost.errors import BrokenEnvironmentError

_STAT_BYTES: Final = 512
"""More than a name and a state take in what the kernel says of a process."""


def spawn(
    program: Path,
    arguments: Sequence[str],
    *,
    owner: Owner,
    folder: Path,
    log: Path,
    environment: Mapping[str, str],
    files: Mapping[str, Path] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program as `owner`, in its own session (so that a Ctrl-C at the terminal reaches only the harness); what
    it prints is appended to `log`. `environment` is added to ours; `files` too, as paths that the owner can open.
    Raises BrokenEnvironmentError if it cannot be started.

    The owner may enter `folder`, but not the folders above it, nor those above the program, such as /root. So it gets
    `folder` as its working directory, and its program and the files through open descriptors."""
    try:
        with log.open("ab") as output, _way_to(program) as (descriptor, path), ExitStack() as opened:
            named = {name: opened.enter_context(_opened(file)) for name, file in (files or {}).items()}
            return subprocess.Popen(
                [str(program), *arguments],
                executable=path,
                pass_fds=(descriptor, *named.values()),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment, **{name: _path_of(file) for name, file in named.items()}},
                start_new_session=True,
                **_as(owner),
            )
    except OSError as error:
        hint = "; every user must be allowed to run it" if isinstance(error, PermissionError) else ""
        raise BrokenEnvironmentError(f"{program} cannot be started: {error.strerror}{hint}") from error


class _Identity(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


def _as(owner: Owner) -> _Identity:
    return {"user": owner.uid, "group": owner.gid, "extra_groups": []} if owner.is_somebody_else else {}


@contextmanager
def _way_to(program: Path) -> Iterator[tuple[int, str]]:
    """A descriptor to pass on, and a path through it that is open to every user: from the program's folder, so that the
    process has the program's name, unless only its owner may enter that."""
    is_open = program.parent.stat().st_mode & stat.S_IXOTH
    with _opened(program.parent if is_open else program) as descriptor:
        yield descriptor, _path_of(descriptor) + (f"/{program.name}" if is_open else "")


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _path_of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def end_child(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to a child of `spawn`, stopped or not, and to its own children (a server that writes a snapshot has one,
    which would go on; one with a process for each connection could not start again before they have ended), and wait
    for the end of all. Does nothing if it has ended.

    Raises BrokenEnvironmentError if one does not end."""
    if process.poll() is None:  # then its process group certainly still exists
        with _watched(_own_children(process)) as children:
            for child in children.values():
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(child, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            for pid, child in children.items():
                if not is_readable(child, VERB_LIMIT_S):
                    raise BrokenEnvironmentError(f"process {pid} does not end after SIGKILL")
    try:
        process.wait(VERB_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise BrokenEnvironmentError(f"process {process.pid} does not end after SIGKILL") from None


def stop_child(process: subprocess.Popen[bytes]) -> bool:
    """SIGSTOP to a child of `spawn` and to its own children, and wait until the kernel shows it; False if the child has
    ended instead."""
    process.send_signal(signal.SIGSTOP)
    if not becomes_true(lambda: process.poll() is not None or is_stopped(process.pid)):
        raise BrokenEnvironmentError(f"process {process.pid} does not stop after SIGSTOP")
    if process.poll() is not None:
        return False
    if not becomes_true(lambda: not sum(not _stands(pid) for pid in tree_of(process.pid)[1:])):
        raise BrokenEnvironmentError(f"the children of process {process.pid} do not stop after SIGSTOP")
    return True


def continue_child(process: subprocess.Popen[bytes]) -> None:
    """SIGCONT to a child of `spawn` and, before it, to its own children."""
    if process.poll() is None:
        for pid in reversed(tree_of(process.pid)[1:]):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        process.send_signal(signal.SIGCONT)


def _own_children(process: subprocess.Popen[bytes]) -> tuple[int, ...]:
    """The descendants of a child of `spawn`, none of which forks any more; it stands still if it has any, so that their
    numbers stay theirs."""
    if len(tree_of(process.pid)) > 1:
        with suppress(BrokenEnvironmentError):  # SIGKILL ends it all the same
            stop_child(process)
    return tree_of(process.pid)[1:]


@contextmanager
def _watched(pids: Sequence[int]) -> Iterator[dict[int, int]]:
    """A descriptor of each process that is still there."""
    found: dict[int, int] = {}
    try:
        for pid in pids:
            with suppress(ProcessLookupError):
                found[pid] = os.pidfd_open(pid)
        yield found
    finally:
        for descriptor in found.values():
            os.close(descriptor)


def _stands(pid: int) -> bool:
    """Whether a process is stopped or has ended; if not, it is told to stop."""
    if _state(f"/proc/{pid}/stat") in (b"T", b"Z", b""):
        return True
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    return False


def look_at_child(
    process: subprocess.Popen[bytes] | None, answers: Callable[[], bool]
) -> Literal["up", "stopped", "silent", "down"]:
    """How a child of `spawn` is; asks it whether it `answers` unless the kernel knows better."""
    if process is None or process.poll() is not None:
        return "down"
    if is_stopped(process.pid):
        return "stopped"
    if answers():
        return "up"
    return "down" if process.poll() is not None else "stopped" if is_stopped(process.pid) else "silent"


def is_gone(pid: int) -> bool:
    """Whether the kernel has no such process."""
    return not (Path("/proc") / str(pid)).exists()


def is_stopped(pid: int) -> bool:
    """Whether the kernel shows the process as stopped; False also for one that is gone."""
    return _state(f"/proc/{pid}/stat") == b"T"


def wants_processor(pid: int) -> bool:
    """Whether the kernel shows a thread of the process as ready to run; False also for one that is gone."""
    with suppress(OSError), os.scandir(f"/proc/{pid}/task") as threads:
        return any(_state(f"{thread.path}/stat") == b"R" for thread in threads)
    return False


def _state(path: str) -> bytes:
    """By system calls alone, because every server is looked at many times; empty for what is gone."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # The name, in parentheses, may hold anything; the state is the first word after the last one.
            return os.read(file, _STAT_BYTES).rpartition(b")")[2].split(None, 1)[0]
        finally:
            os.close(file)
    except OSError:
        return b""

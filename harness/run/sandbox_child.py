"""The process in the sandbox: it makes the run, and reports to the command outside (`harness.run.sandbox_parent`)."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TypeVar

from cluster.namespaces import keep_capabilities
from fencepost.boundary import unexpected
from fencepost.errors import FencepostError
from fencepost.interpreter_start import is_complete
from harness.run.interruption import Interruption
from harness.run.messages import Failed, Finished, Message, Said, Shown, Stop, decode, encode
from harness.run.plan import Job
from harness.run.snapshot import Snapshot

_LOG: Final = Path("logs", "harness.log")


J = TypeVar("J", bound=Job)


class WayOut:
    """The way out. Implements `harness.run.snapshot.Display`."""

    def __init__(self, messages: int) -> None:
        self._messages = messages
        os.set_blocking(messages, False)
        self._room = select.poll()
        self._room.register(messages, select.POLLOUT)
        self.interruption = Interruption()
        self.has_shown_enough = False

    def update(self, now: Snapshot) -> None:
        # A command that is stopped (Ctrl-Z) reads nothing; a run that waited for it would play its faults late.
        if self._room.poll(0):
            self.send(Shown(now))

    def say(self, line: str) -> None:
        """Have a line printed."""
        self.send(Said(line))

    def obey(self, order: Stop) -> None:
        """From any thread."""
        if order.why == "interrupted":
            self.interruption.ask()
        else:
            self.has_shown_enough = True

    def send(self, message: Message) -> None:
        left = encode(message)
        while left:
            try:
                left = left[os.write(self._messages, left) :]
            except BlockingIOError:
                self._room.poll()


def main(kind: type[J], play: Callable[[J, WayOut], None]) -> None:
    """Read a job from the pipe that is named first on the command line, play it, and report to the second one."""
    if os.geteuid() != 0:
        keep_capabilities()
    orders, inside = os.fdopen(int(sys.argv[-2]), "rb"), WayOut(int(sys.argv[-1]))
    is_complete()
    job = decode(orders.readline(), kind)
    log = job.folder / _LOG
    _print_to(log)

    def listen() -> None:
        for line in orders:
            inside.obey(decode(line, Stop))

    threading.Thread(target=listen, daemon=True).start()
    try:
        play(job, inside)
    except FencepostError as error:
        inside.send(Failed.of(error))
    except BaseException as error:
        inside.send(Failed("internal", f"the run {unexpected(error)}"))
    else:
        inside.send(Finished())
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()  # half a line
        if not log.stat().st_size:
            log.unlink()


def _print_to(log: Path) -> None:
    """Send what this process prints to a log of the run: modules of the user's print, and the terminal is ours."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # the process is not known to end in an orderly way

"""Runs that are started from the browser.

Each is the command `fencepost test` or `fencepost replay` in a process of its own, so it is checked, made and cleaned
up as from the command line.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from fencepost.errors import UsageError
from fencepost.text import printable

_LOOK_EVERY_S: Final = 0.05
_NO_RUN: Final = "The command ended without a run."
_ENDS_WITHIN_S: Final = 60.0


@dataclass(slots=True)
class _Command:
    process: subprocess.Popen[bytes]
    said: IO[bytes]

    def error(self) -> str:
        """The last line on stderr."""
        self.said.seek(0)
        lines = self.said.read().decode(errors="replace").strip().splitlines()
        return printable(lines[-1]) if lines else _NO_RUN


@dataclass(slots=True)
class StartedRuns:
    """Asked by the server's thread. `results`: the folder of runs. One run at a time is started here: runs on the same
    processors disturb each other."""

    results: Path
    _runs: dict[str, _Command] = field(default_factory=dict)
    _is_starting: bool = False

    async def start(self, command: str, words: Sequence[str]) -> str:
        """The name of the run's folder, as soon as there is one. Raises UsageError with what the command says if it
        refuses, and if another run that was started here is under way."""
        if self._is_starting or any(map(self.is_under_way, list(self._runs))):
            raise UsageError("A run that was started here is under way: stop it, or wait for its end.")
        self._is_starting = True
        try:
            return await self._start(command, words)
        finally:
            self._is_starting = False

    async def _start(self, command: str, words: Sequence[str]) -> str:
        said = TemporaryFile()  # noqa: SIM115  # a pipe that is not read would hold the run up
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fencepost", command, *words, f"--results={self.results}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,  # Ctrl-C is for the server, which ends its runs one by one
        )
        started = _Command(process, said)
        try:
            while (name := _run_of(process.pid)) is None:
                if process.poll() is not None:
                    raise UsageError(started.error())
                await asyncio.sleep(_LOOK_EVERY_S)
        except asyncio.CancelledError:
            process.send_signal(signal.SIGINT)
            raise
        self._runs[name] = started
        return name

    def is_under_way(self, name: str) -> bool:
        """Whether it was started here and has not ended."""
        started = self._runs.get(name)
        return started is not None and started.process.poll() is None

    def stop(self, name: str) -> None:
        """As Ctrl-C does. Raises UsageError for a run that was not started here, or has ended."""
        if not self.is_under_way(name):
            raise UsageError("This run was not started here, or has ended. Stop it where it was started, by Ctrl-C.")
        self._runs[name].process.send_signal(signal.SIGINT)

    def end_all(self) -> None:
        """Stop all, and wait until each has taken its servers down."""
        running = [started.process for started in self._runs.values() if started.process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGINT)
        for process in running:
            with suppress(subprocess.TimeoutExpired):  # its reaper and the next sweep see to the rest
                process.wait(_ENDS_WITHIN_S)


def _run_of(pid: int) -> str | None:
    """The run that a process makes: it holds the lock of the run's state (`cluster.lifetime`). None if it makes none
    yet, or has ended."""
    with suppress(OSError):
        for opened in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                path = opened.readlink()
                if path.name == "owner.lock":
                    return path.parent.name
    return None

"""A process that goes with a run: started before its load, told what it has to know, and ended after its clients.

It is told over its standard input, since arguments can be read by every user, and ends when that is closed, which also
happens when the harness dies. Its failure is recorded and stops nothing.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import msgspec

from cluster.polling import is_readable
from fencepost.interpreter_start import running

READY_WITHIN_S: Final = 5.0
_END_WITHIN_S: Final = 3.0


class Companion:
    """A context manager that runs the module with the arguments; it calls `fencepost.interpreter_start.is_complete`.
    `told`: its first line, as JSON; it answers with a line when it is ready. `words`: the file for its own errors."""

    def __init__(
        self, module: str, arguments: Sequence[str], told: object, words: Path, environment: Mapping[str, str]
    ) -> None:
        self._module = module
        self._command = running(module, *arguments)
        self._told = msgspec.json.encode(told) + b"\n"
        self._words = words
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Returns when it is ready, or after a timeout."""
        try:
            with self._words.open("ab") as words:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=words,
                    env=dict(self._environment),
                    start_new_session=True,
                )
        except OSError as error:
            self._words.write_text(f"{self._module} cannot be started: {error}\n")
            return self
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # its own words say why it ended
            self._process.stdin.write(self._told)
            self._process.stdin.flush()
        is_readable(self._process.stdout.fileno(), READY_WITHIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        """Let it take a last look and end."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

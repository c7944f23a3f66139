"""A worker's handle on the process that makes its runs (`harness.campaign.player`)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

import msgspec

from fencepost.errors import BrokenEnvironmentError
from fencepost.interpreter_start import calling
from harness.campaign.one_run import Made, Order
from harness.run.messages import Failed, Lines, Shown, last_words, tell
from harness.run.snapshot import Snapshot

_TAKE_DOWN_S: Final = 30.0
"""How long a run has to come down when its orders end."""
_LOOK_EVERY_MS: Final = 200.0


class PlayerDiedError(BrokenEnvironmentError):
    """The process that made a run ended. The run can be made again."""


class PlayerProcess:
    """Makes runs one after the other, in a process that is started for the first one and whenever it is gone."""

    def __init__(self, command: Sequence[str] = ()) -> None:
        """`command`: by default a fresh interpreter with the `sys.path` of this one."""
        self._command = command or calling("harness.campaign.player:main")
        self._process: subprocess.Popen[bytes] | None = None
        self._printed = -1

    def play(
        self,
        order: Order,
        limit_s: float,
        shown: Callable[[Snapshot], object],
        is_called_off: Callable[[], bool] = lambda: False,
    ) -> Made:
        """Make a run. One that is not over after `limit_s` is ended, and has failed. One that is called off is taken
        down and did not count. Raises PlayerDiedError."""
        deadline_s = monotonic() + limit_s
        process, lines = self._started()
        assert process.stdin is not None
        tell(process.stdin.fileno(), order)
        while not lines.is_over:
            for line in lines.arrived(_LOOK_EVERY_MS):
                match msgspec.json.decode(line, type=Shown | Made):
                    case Shown(snapshot):
                        shown(snapshot)
                    case Made() as made:
                        return made
            if is_called_off():
                self.end()
                return Made()
            if monotonic() > deadline_s:
                self._kill()
                return Made(failure=Failed("environment", f"the run was not over after {limit_s:.0f} s"))
        words = last_words(self._printed)
        self._kill()
        raise PlayerDiedError(f"the process that made the run ended{words}")

    def end(self) -> None:
        """Take down the run under way, if there is one, and end the process."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TAKE_DOWN_S)
        self._kill()

    def _started(self) -> tuple[subprocess.Popen[bytes], Lines]:
        """The process, and what it says."""
        if self._process is None or self._process.poll() is not None:
            self._kill()
            self._printed = os.memfd_create("fencepost-player")
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                start_new_session=True,  # a Ctrl-C at the terminal is the command's alone
            )
        assert self._process.stdout is not None
        return self._process, Lines(self._process.stdout.fileno())

    def _kill(self) -> None:
        """Whatever the process had started ends with it (`cluster.namespaces`, `cluster.reaper`)."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        os.close(self._printed)

"""The command's side of a run in a sandbox: starts the process that makes the run (`harness.run.sandbox_child`), shows
what it reports, and passes on the wish to stop.

The process is a fresh interpreter with this one's `sys.path`, environment and working directory, so that the locks and
experiments of users are found there too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from cluster.lifetime import StateFolder
from cluster.live_run import write_init
from cluster.sandbox import Refusal, Sandbox, launch
from fencepost.errors import BrokenEnvironmentError
from fencepost.interpreter_start import calling
from harness.run.interruption import Interruption
from harness.run.messages import Failed, Finished, Lines, Message, Said, Shown, Stop, last_words, tell
from harness.run.snapshot import Display, Snapshot

_LOOK_EVERY_MS: Final = 50

HasShownEnough = Callable[[Snapshot], bool]
"""Asked at every snapshot whether the run has shown all that is wanted."""


def play_inside(
    module: str,
    job: msgspec.Struct,
    state: StateFolder,
    display: Display,
    say: Callable[[str], object],
    enough: HasShownEnough = lambda _: False,
) -> None:
    """Have the `main_inside` of a module play the job in a sandbox of its own, until it is over.

    Ctrl-C, SIGTERM and a closed terminal ask it to stop. Raises the FencepostError that it raises, and
    BrokenEnvironmentError if it is killed.
    """
    with Interruption().watch() as interruption, _started(module, state) as started:
        sandbox = started.sandbox
        tell(sandbox.orders, job)
        lines = Lines(sandbox.messages)
        told: set[str] = set()
        while True:
            for line in lines.arrived(_LOOK_EVERY_MS):
                match msgspec.json.decode(line, type=Message):
                    case Shown(snapshot):
                        display.update(snapshot)
                        if not told and enough(snapshot):
                            tell(sandbox.orders, Stop("enough"))
                            told.add("enough")
                    case Said(text):
                        say(text)
                    case Failed() as failed:
                        raise failed.error()
                    case Finished():
                        return
            if lines.is_over:
                status = sandbox.launcher.wait()
                said = last_words(started.printed)
                raise BrokenEnvironmentError(
                    f"the process that makes the run ended too early (exit status {status}){said}"
                )
            if interruption and "interrupted" not in told:
                tell(sandbox.orders, Stop("interrupted"))
                told.add("interrupted")


@contextmanager
def more_runs_follow() -> Iterator[None]:
    """While this is entered, the process for the next run is started when a run is over: so it is ready when the last
    one is judged."""
    _spare.is_wanted = True
    try:
        yield
    finally:
        _spare.is_wanted = False
        if (unused := _spare.take()) is not None:
            unused.end()


@contextmanager
def _started(module: str, state: StateFolder) -> Iterator[_Started]:
    """A started sandbox; afterwards it is gone, with everything in it."""
    started = _spare.take(module) or _Started.of(module, state.environment)
    try:
        write_init(state, started.sandbox.init)
        yield started
    finally:
        started.end()
        _spare.prepare(module)


class _Started(NamedTuple):
    """`printed`: a file in memory with what the process printed before it knew its job. From then on that goes to a log
    of the run."""

    sandbox: Sandbox
    printed: int

    @classmethod
    def of(cls, module: str, environment: Mapping[str, str]) -> _Started:
        printed = os.memfd_create("fencepost-run")
        sandbox = launch(calling(f"{module}:main_inside"), environment, printed)
        if isinstance(sandbox, Refusal):
            os.close(printed)
            raise BrokenEnvironmentError(
                f"this machine refuses a sandbox that it allowed a moment ago ({sandbox.what})"
            )
        return cls(sandbox, printed)

    def end(self) -> None:
        os.close(self.sandbox.orders)
        self.sandbox.launcher.wait()
        os.close(self.sandbox.messages)
        os.close(self.printed)


class _Spare:
    """A sandbox whose process waits for its job. It does not carry the mark of a run, which has no name yet; like any
    other it ends with this process."""

    def __init__(self) -> None:
        self.is_wanted = False
        self._waiting: tuple[str, _Started] | None = None

    def prepare(self, module: str) -> None:
        if self.is_wanted and self._waiting is None:
            self._waiting = module, _Started.of(module, {})

    def take(self, module: str | None = None) -> _Started | None:
        """The one for this module, or for any; None if there is none that lives."""
        if self._waiting is None:
            return None
        (its_module, started), self._waiting = self._waiting, None
        if module in (None, its_module) and started.sandbox.launcher.poll() is None:
            return started
        started.end()
        return None


_spare = _Spare()

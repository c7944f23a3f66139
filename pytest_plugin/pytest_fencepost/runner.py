"""The fixture `fencepost`: makes runs for one test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_fencepost.program import NoRunError, Program
from pytest_fencepost.result import Run
from pytest_fencepost.target import named, options_for
from pytest_fencepost.testbeds import one_place, shared_folder

_OURS = ("results", "json", "expect")
"""Options of `fencepost test` that the fixture itself sets."""


@dataclass(frozen=True)
class Session:
    """What is the same for all tests. `folder`: where commands run; `results`: where runs are kept. `overrides`:
    options from pytest's command line. `worker`: which one this is."""

    command: str
    folder: Path
    results: Path
    overrides: Mapping[str, object]
    at_once: int
    worker: int
    shows_progress: bool


@dataclass(repr=False)
class Fencepost:
    """`defaults`: options from the test's markers. `seeds`: those with which its runs begin. `properties`: what the
    reports say about the test. `runs`: those made."""

    session: Session
    defaults: Mapping[str, object]
    seeds: list[int | None]
    properties: list[tuple[str, object]]
    runs: list[Run] = field(default_factory=list)

    def run(self, lock: object = None, /, **options: object) -> Run:
        """Make a run and wait for its verdict.

        `lock`: `"package.module:Class"`, or the class or function itself, as docs/pytest.md describes. Left out, an
        option names the lock: `lock="redlock"`, `lock_command="node my_lock.mjs"`. The options are those of `fencepost
        test`, with `_` for `-`: `nemesis="partition"`, `duration="20s"`, `ttl="2s"`, `clients=5`,
        `require="lock+data"`.

        Skips the test if this machine lacks what the run needs, and fails it if there is no verdict for another reason.
        """
        __tracebackhide__ = True
        try:
            run = self._made(lock, {**self.defaults, **options})
        except NoRunError as error:
            if error.is_lacking:
                pytest.skip(f"fencepost: {error}")
            pytest.fail(f"fencepost: {error}", pytrace=False)
        self.runs.append(run)
        told = {
            "verdict": run.verdict,
            "seed": run.seed,
            "folder": run.folder,
            "page": run.picture,
            "replay": run.replay,
            "kept": run.kept,
            "story": run.story,
            "hides": "; ".join(run.hides),
        }
        self.properties += [(f"fencepost_{name}", str(value)) for name, value in told.items()]
        return run

    def _made(self, lock: object, options: Mapping[str, object]) -> Run:
        if taken := [name for name in options if name in _OURS]:
            raise NoRunError(f"{taken[0]} is not for tests to choose: a test looks at the run's verdict")
        try:
            of_lock = {} if lock is None else options_for(named(lock))
        except ValueError as error:
            raise NoRunError(str(error)) from None
        if not of_lock and not {"lock", "lock_command"} & options.keys():
            raise NoRunError('run() needs a lock: run("package.module:Class", …)')
        number = len(self.runs)
        kept = self.seeds[number] if number < len(self.seeds) else None
        wanted = {"seed": kept, **of_lock, **options, **self.session.overrides, "results": self.session.results}
        program = Program.find(self.session.command)
        with one_place(shared_folder(), self.session.at_once, self.session.worker):
            return program.test(wanted, self.session.folder, shows_progress=self.session.shows_progress)

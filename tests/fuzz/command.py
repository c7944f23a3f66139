"""The command in this process, on hostile input: what it may do, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NoReturn
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings

from cluster.sweep import Swept
from harness.campaign.play import Plan, make_plan
from harness.cli.main import run

CODES: Final = frozenset({0, 1, 2, 254, 255})
TIMES: Final = int(os.environ.get("FENCEPOST_FUZZ", "1"))
_LIMIT_S: Final = 60
_TEST_LIMIT_S: Final = 600

Test = Callable[..., None]


def fuzz(examples: int) -> Callable[[Test], Test]:
    """So many examples in the gate, always the same; FENCEPOST_FUZZ times as many elsewhere."""
    few = settings(
        max_examples=examples * TIMES,
        derandomize=TIMES == 1,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    # Not by a signal: a command's own limit is an alarm, and there is only one for a process.
    in_time = pytest.mark.timeout(_TEST_LIMIT_S * TIMES, method="thread")
    return lambda test: in_time(few(test))


@contextlib.contextmanager
def nothing_starts() -> Iterator[None]:
    """Commands do everything but what takes time: no run, no sweep, no installation, no shell."""
    stubs: dict[str, Any] = {
        "harness.session.make_run": lambda *_, **__: 0,
        "harness.replay.replay.record_and_show": _refuse,
        "harness.replay.replay.make_experiment": _refuse,
        "harness.scripts.play.make_experiment": _refuse,
        "harness.shrink.session._searched": _refuse,
        "harness.campaign.study.play": lambda *_, **__: False,
        # These ask each program a thousand times.
        "harness.campaign.study.playable": lambda grid, _: (Plan(grid, {}), {}),
        "harness.campaign.study.make_plan": lambda grid, **more: (
            Plan(grid, {}) if grid.name == "mutants" else make_plan(grid, **more)
        ),
        "harness.run.prepare.sweep": lambda *_, **__: Swept((), ()),
        "cluster.sandbox.why_not": lambda: None,
        "harness.cli.setup.install": lambda *_, **__: 0,
        "harness.cli.shell._run": lambda *_: 0,
        "harness.serve.server.serve": lambda *_: asyncio.sleep(0),
    }
    with contextlib.ExitStack() as stack:
        for name, stub in stubs.items():
            stack.enter_context(mock.patch(name, stub))
        yield


class StartedError(Exception):
    """A run would begin now: everything before it was accepted."""


def _refuse(*_: object, **__: object) -> NoReturn:
    raise StartedError


def outcome(*words: str, folder: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `fencepost WORDS` in this folder.

    Fails the test for anything undocumented: another exit code, a traceback, a character that a terminal obeys, an
    error of several lines, an error that nobody expected.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        in_folder(folder),
        _in_time(),
        nothing_starts(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = run(words)
    said, error = out.getvalue(), err.getvalue()
    begun = "StartedError" in error
    check_text(said + error)
    assert code in CODES, (code, error)
    assert len(error.splitlines()) <= 1, error
    assert begun or "failed unexpectedly" not in error, error
    assert bool(error) == (code in (254, 255)), (code, error)
    return code, said, error


def check_text(text: str) -> None:
    """It is nothing but lines of printable characters, and no traceback."""
    assert "Traceback" not in text
    for line in text.split("\n"):
        assert line.isprintable(), repr(line)


@contextlib.contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    environment = mock.patch.dict(os.environ, {"TMPDIR": str(folder)})
    with contextlib.chdir(folder), environment, mock.patch("tempfile.tempdir", str(folder)):
        yield


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    """What waits for the writer of a pipe waits forever."""

    def too_long(*_: object) -> NoReturn:
        raise AssertionError(f"it did not end within {_LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(_LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fresh(parent: Path) -> Path:
    """An empty folder."""
    return Path(tempfile.mkdtemp(dir=parent))

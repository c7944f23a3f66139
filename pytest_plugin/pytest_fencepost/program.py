"""The `fencepost` command: where it is, and one call of it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_fencepost.result import SCHEMA, Run, run_from

GRACE_S = 60
"""How long a run that was called off may take to remove what it started."""


class NoRunError(Exception):
    """There is no verdict. `is_lacking`: because this machine lacks something that the run needs, like root."""

    def __init__(self, text: str, *, is_lacking: bool = False) -> None:
        super().__init__(text)
        self.is_lacking = is_lacking


@dataclass(frozen=True)
class Program:
    """The words that start it."""

    words: Sequence[str]

    @classmethod
    def find(cls, named: str) -> Program:
        """`named`: what the user named, if anything. Else it is looked for beside this interpreter, and on PATH. Raises
        NoRunError."""
        if named:
            return cls(shlex.split(named))
        beside = Path(sys.executable).with_name("fencepost")
        found = str(beside) if beside.is_file() else shutil.which("fencepost")
        if found is None:
            raise NoRunError(
                "there is no command `fencepost`: install the wheel of fencepost in an environment of its own (with "
                "`pipx install`) and run `fencepost setup`, or name the command with --fencepost-command, with "
                "fencepost_command in pytest's ini file, or in $FENCEPOST"
            )
        return cls([found])

    def test(self, options: Mapping[str, object], folder: Path, *, shows_progress: bool) -> Run:
        """Make a run with these options of `fencepost test`, in `folder`. Raises NoRunError if there is no verdict."""
        with tempfile.TemporaryDirectory(prefix="pytest-fencepost-") as scratch:
            result, said = Path(scratch, "result.json"), Path(scratch, "stderr")
            words = [*self.words, "test", *_words(options), f"--json={result}"]
            with said.open("wb") as stderr:
                code = _call(words, folder, None if shows_progress else subprocess.DEVNULL, stderr.fileno())
            told = _read(result)
            if told is None:
                last = said.read_text(errors="replace").strip().rpartition("\n")[2].removeprefix("fencepost: ")
                raise NoRunError(last or f"`{shlex.join(self.words)}` ended with {code} and said nothing")
        return _run_in(told, folder)


def _run_in(told: Mapping[str, Any], folder: Path) -> Run:
    if told.get("schema") != SCHEMA:
        raise NoRunError(
            f"this fencepost writes results of schema {told.get('schema')}, and this pytest-fencepost reads {SCHEMA}; "
            "install versions that belong together"
        )
    if "error" in told:
        raise NoRunError(told["error"]["text"], is_lacking=told["error"]["kind"] == "lacking")
    run = run_from(told)
    if folder.resolve() == Path.cwd():
        return run
    return replace(run, replay=f"cd {shlex.quote(str(folder))} && {run.replay}")  # where its paths lead somewhere


def _words(options: Mapping[str, object]) -> list[str]:
    """`{"node_timeout": "50ms", "disks": True}` as words of the command line; None and False leave an option out, and
    each of a list gives it once more."""
    given = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    return [
        flag if value is True else f"{flag}={value}"
        for flag, values in given.items()
        for value in (values if isinstance(values, list | tuple) else [values])
        if value is not None and value is not False
    ]


def _call(words: Sequence[str], folder: Path, stdout: int | None, stderr: int) -> int:
    """The exit code. Whatever interrupts us calls the run off once, and it is given time to clean up."""
    # Python's settings are for the author's interpreter, not for the one that fencepost brings.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,  # Ctrl-C is for pytest, which passes it on
        )
    except OSError as error:
        raise NoRunError(f"`{shlex.join(words[:1])}` cannot be started: {error.strerror}") from None
    try:
        return process.wait()
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
        raise


def _read(path: Path) -> dict[str, Any] | None:
    try:
        told: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return told

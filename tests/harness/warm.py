"""A command in a process of its own that begins with fencepost imported: it is forked from one that did nothing else.

To start Python and to import the judge takes a command more of a processor than a short run does. Everything else is as
a shell does it: a session, arguments, folder, variables and files of its own, signals as by default, and the program's
entry to its end, `os._exit` included. What is about the start itself is started (`tests.harness.runs.start`).
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Final
from unittest.mock import patch

from fencepost import __main__ as program

_ROOT: Final = Path(program.__file__).parent.parent
_FOLDERS: Final = ("checkers", "cli", "report", "scripts/experiments")
_IMPORTED: Final = [
    *(__name__, "harness.scripts.play", "harness.replay.replay", "cluster.servers.redis", "pyarrow.dataset"),
    *(
        f"harness.{folder.replace('/', '.')}.{file.stem}"
        for folder in _FOLDERS
        for file in (_ROOT / "harness" / folder).glob("[!_]*.py")
    ),
]
_STDOUT: Final = 1
_STDERR: Final = 2


def _prepared() -> ForkServerContext:
    context = get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context


_CONTEXT: Final = _prepared()
_OF_A_TEST: Final = {"PYTEST_CURRENT_TEST"}
_USUAL: Final = {name: value for name, value in os.environ.items() if name not in _OF_A_TEST}


def is_usual() -> bool:
    """Whether this test left the variables of the environment as they were: modules look at some when imported."""
    return {name: value for name, value in os.environ.items() if name not in _OF_A_TEST} == _USUAL


def fencepost(
    folder: Path, arguments: tuple[str, ...], environment: Mapping[str, str], timeout_s: float
) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of one command. Raises subprocess.TimeoutExpired, and has then killed it."""
    with TemporaryDirectory() as place:
        out, err = Path(place, "out"), Path(place, "err")
        command = _CONTEXT.Process(target=_command, args=(folder, arguments, dict(environment), out, err))
        with patch.dict(sys.modules, __main__=ModuleType("__main__")):  # else the program of the tests is imported
            command.start()
        try:
            command.join(timeout_s)
            if command.exitcode is None:
                raise subprocess.TimeoutExpired(["fencepost", *arguments], timeout_s, _said(out), _said(err))
        finally:
            if command.is_alive():  # a test that was called off ends it too
                command.kill()
                command.join()
        return command.exitcode, _said(out).decode(), _said(err).decode()


def _said(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def _command(folder: Path, arguments: tuple[str, ...], environment: Mapping[str, str], out: Path, err: Path) -> None:
    gc.freeze()
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, path in enumerate((Path(os.devnull), out, err)):
        opened = os.open(path, os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(_STDOUT, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(_STDERR, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.dont_write_bytecode = False
    given = [str(folder), *environment["PYTHONPATH"].split(os.pathsep)]
    tests = str(_ROOT / "tests")
    sys.path[:] = [*given, *(each for each in sys.path if each not in given and not each.startswith(tests))]
    sys.argv = [program.__file__, *arguments]
    program.main()

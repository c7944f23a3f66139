"""What a caller sees: 1 is a violation and 0 is none, and nothing that goes wrong looks like either."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from cluster.polling import becomes_true
from fencepost.boundary import INTERRUPTED, Interrupted, exit_code_of
from fencepost.user_code import user_code
from harness.checkers.judge import judge_folder
from harness.config import RunConfig
from harness.store.manifest import write_manifest
from harness.store.run_folder import RunFolder
from tests.harness.runs import ROOT

BAD_ENDINGS = {
    "sys.exit()": "import sys; sys.exit()",
    "SystemExit('done')": "raise SystemExit('done')",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "BaseException": "raise BaseException('none of yours')",
    "GeneratorExit": "raise GeneratorExit",
    "RecursionError": "f = lambda: f(); f()",
    "an error that cannot be shown": "class E(Exception):\n    __str__ = lambda self: 1 / 0\nraise E",
}
ENDINGS_OF_THE_PROCESS = {
    "sys.exit(0)": "import sys; sys.exit(0)",
    "os._exit(0)": "import os; os._exit(0)",
    "at exit": "import atexit, os; atexit.register(lambda: os._exit(0)); raise KeyboardInterrupt",
}


def fencepost(
    *words: str, folder: Path, path: Mapping[str, str] | None = None, **given: str
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own. `path`: files below the folder `mine`, which FENCEPOST_PATH names."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder), **given}
    for name, content in (path or {}).items():
        file = folder / "mine" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    if path:
        environment["FENCEPOST_PATH"] = str(folder / "mine")
    return subprocess.run(
        [sys.executable, "-m", "fencepost", *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The error, which is one line; the traceback is in a file."""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("fencepost: ")
    assert "Traceback" not in done.stdout + done.stderr
    return lines[0]


def traceback_of(line: str) -> str:
    match = re.search(r"its traceback is in (\S+)", line)
    assert match, line
    return Path(match[1]).read_text()


def a_run(folder: Path) -> RunFolder:
    run = RunFolder.create(folder / "results" / "runs", RunConfig(seed=1, lock="redlock"))
    write_manifest(run)
    return run


@pytest.mark.parametrize("ending", BAD_ENDINGS.values(), ids=BAD_ENDINGS)
def test_whatever_code_of_the_user_raises_is_the_users_mistake_in_one_line(
    ending: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def command() -> int:
        with user_code("mine.py", "mine.py cannot be loaded"):
            exec(ending, {})
        return 0

    assert exit_code_of(command) == 254
    out, err = capfd.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert err.startswith("fencepost: mine.py cannot be loaded: ")


PRINTING = """
import os, subprocess, sys
print("VALID")
os.write(1, b"VALID\\n")
os.write(2, b"VALID\\n")
subprocess.run(["echo", "VALID"])
subprocess.Popen(["sh", "-c", "echo VALID; sleep 0.1; echo VALID"])
"""


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("nemesis/mine.py", ["test", "--nemesis", "mine"]),
        ("../mine.py", ["test", "--lock", "mine:Lock"]),
        ("../mine.py", ["compare", "--grid", "mine.py"]),
        ("../mine.py", ["script", "mine.py"]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_what_a_module_prints_while_it_is_imported_is_not_on_our_stdout(
    place: str, words: list[str], tmp_path: Path
) -> None:
    done = fencepost(*words, folder=tmp_path, path={place: PRINTING})
    assert "VALID" not in done.stdout


def test_what_user_code_prints_is_shown_with_its_name_and_ours_comes_back(capfd: pytest.CaptureFixture[str]) -> None:
    with user_code("mine.py", "mine.py cannot be loaded"):
        exec(PRINTING, {})
    os.write(1, b"ours\n")
    out, err = capfd.readouterr()
    assert out == "ours\n"
    assert set(err.splitlines()) == {"fencepost: mine.py printed: VALID"}
    assert len(err.splitlines()) >= 4


@pytest.mark.parametrize("ending", BAD_ENDINGS.values(), ids=BAD_ENDINGS)
def test_whatever_else_is_raised_is_255_and_one_line(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert exit_code_of(lambda: exec(ending, {}) or 0) == 255
    out, err = capfd.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert "Traceback" in traceback_of(err)


@pytest.mark.parametrize("ending", ENDINGS_OF_THE_PROCESS.values(), ids=ENDINGS_OF_THE_PROCESS)
def test_a_checker_cannot_end_analyze(ending: str, tmp_path: Path) -> None:
    a_run(tmp_path)
    done = fencepost("analyze", folder=tmp_path, path={"harness/checkers/mine.py": f"def check(run):\n    {ending}\n"})
    assert done.returncode == 255, done
    one_line(done)


@pytest.mark.parametrize("ending", ENDINGS_OF_THE_PROCESS.values(), ids=ENDINGS_OF_THE_PROCESS)
@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("harness/checkers/mine.py", ["analyze"]),
        ("workloads/kinds/mine.py", ["test", "--help"]),
        ("nemesis/mine.py", ["test", "--help"]),
        ("cluster/servers/mine.py", ["test", "--help"]),
        ("../mine.py", ["test", "--lock", "mine:Lock"]),
        ("../mine.py", ["compare", "--grid", "mine.py"]),
        ("../mine.py", ["script", "mine.py"]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_module_cannot_end_the_command_while_it_is_imported(
    place: str, words: list[str], ending: str, tmp_path: Path
) -> None:
    a_run(tmp_path)
    done = fencepost(*words, folder=tmp_path, path={place: ending})
    assert done.returncode == 254, done
    assert "mine" in one_line(done)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("mine.py", ["compare", "--grid", "mine.py"]),
        ("mine.py", ["test", "--cluster", "process", "--lock", "mine:Lock"]),
    ],
)
def test_what_a_module_prints_is_not_on_stdout_and_cannot_steer_a_terminal(
    module: str, words: list[str], tmp_path: Path
) -> None:
    (tmp_path / module).write_text("print('VALID \\x1b[2J')\nprint('a second line')\n")
    done = fencepost(*words, folder=tmp_path)
    assert done.returncode == 254
    assert done.stdout == ""
    assert "\x1b" not in done.stderr
    assert "mine" in done.stderr.splitlines()[0]
    assert "VALID" in done.stderr


def test_an_unexpected_error_is_one_line_and_its_traceback_is_in_a_file(tmp_path: Path) -> None:
    a_run(tmp_path)
    broken = "def check(run):\n    raise BaseException('two\\nlines \\x1b[2J')\n"
    line = one_line(done := fencepost("analyze", folder=tmp_path, path={"harness/checkers/mine.py": broken}))
    assert done.returncode == 255
    assert "BaseException" in line
    assert "\x1b" not in line
    assert "in check" in traceback_of(line)


def test_without_a_place_for_the_traceback_the_line_says_so(tmp_path: Path) -> None:
    a_run(tmp_path)
    broken = "def check(run):\n    import tempfile\n    tempfile.tempdir = '/no/such'\n    raise BaseException\n"
    line = one_line(done := fencepost("analyze", folder=tmp_path, path={"harness/checkers/mine.py": broken}))
    assert done.returncode == 255
    assert "cannot be written" in line


def test_when_nobody_reads_the_output_the_exit_code_is_no_verdict(tmp_path: Path) -> None:
    a_run(tmp_path)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "fencepost", "analyze"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=writing, stderr=subprocess.PIPE, timeout=120,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("words", [["list"], ["test", "--help"], ["analyze"]])
def test_a_full_device_is_one_line_and_no_verdict(words: list[str], tmp_path: Path) -> None:
    a_run(tmp_path)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fencepost", *words],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
        )  # fmt: skip
    assert done.returncode == 255
    assert done.stderr == "fencepost: stdout cannot be written (No space left on device); send it elsewhere\n"
    assert not list(tmp_path.glob("fencepost-traceback-*"))


def test_a_stdout_that_another_program_made_non_blocking_gets_everything(tmp_path: Path) -> None:
    whole = fencepost("test", "--help", folder=tmp_path).stdout
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4_096)
    os.set_blocking(writing, False)
    process = subprocess.Popen(
        [sys.executable, "-m", "fencepost", "test", "--help"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=writing, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(writing)
    assert becomes_true(lambda: _is_full(reading), within_s=30)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == whole
    assert (process.communicate(timeout=30)[1], process.returncode) == ("", 0)


def _is_full(pipe: int) -> bool:
    waiting = bytearray(4)
    fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return int.from_bytes(waiting, sys.byteorder) == 4_096


def test_a_closed_stdout_is_nobodys_file(tmp_path: Path) -> None:
    a_run(tmp_path)
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -m fencepost analyze >&- 2>&- <&-', sys.executable],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert judge_folder(RunFolder.open(tmp_path / "results" / "runs" / "latest"))[1].verdict == "unknown"


def test_ctrl_c_where_nothing_runs_is_130_and_one_line(tmp_path: Path) -> None:
    started, waits = tmp_path / "started", "import pathlib, time\npathlib.Path('started').touch()\ntime.sleep(60)\n"
    (tmp_path / "mine.py").write_text(waits)
    process = subprocess.Popen(
        [sys.executable, "-m", "fencepost", "compare", "--grid", "mine.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "fencepost: interrupted\n")


def test_ctrl_c_while_a_class_is_being_made_is_ctrl_c(capfd: pytest.CaptureFixture[str]) -> None:
    class Field:
        def __set_name__(self, owner: type, name: str) -> None:
            raise Interrupted

    def command() -> int:
        type("Made", (), {"field": Field()})  # up to Python 3.11 this raises RuntimeError from what was raised
        return 0

    assert exit_code_of(command) == INTERRUPTED
    assert capfd.readouterr().err == "fencepost: interrupted\n"


def test_an_error_of_the_clean_up_after_ctrl_c_is_not_hidden(capfd: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        try:
            raise Interrupted
        finally:
            raise ValueError("the clean-up failed")

    assert exit_code_of(command) == 255
    assert "the clean-up failed" in capfd.readouterr().err

"""A command that begins with fencepost imported behaves as one that a shell starts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness import runs, warm


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--version"], 0), (["list"], 0), (["explain", "nowhere"], 254), (["test", "--lock", "my:L"], 254)],
)
def test_it_ends_and_says_the_same(tmp_path: Path, words: list[str], code: int) -> None:
    ended = runs.fencepost(tmp_path, *words)
    assert ended == runs.finish(runs.start(tmp_path, *words))
    assert ended[0] == code


MINE = """
import os, sys
tests = [name for name in sys.modules if name.startswith(("pytest", "_pytest", "tests.conftest"))]
told = os.getsid(0) == os.getpid(), os.getcwd(), os.environ["TMPDIR"], sys.stdin.read(), tests
raise RuntimeError(repr(told))
"""


def test_it_has_a_session_a_folder_and_variables_of_its_own_and_nothing_of_the_tests(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    code, _, err = runs.fencepost(tmp_path, "test", "--lock", "mine:Lock")
    assert code == 254, err
    assert repr((True, str(tmp_path), str(tmp_path / "tmp"), "", [])) in err


def test_one_that_hangs_is_killed_and_told(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import time\nopen('begun', 'w')\ntime.sleep(60)\n")
    with pytest.raises(subprocess.TimeoutExpired):
        runs.fencepost(tmp_path, "test", "--lock", "mine:Lock", timeout_s=3)
    assert (tmp_path / "begun").exists()
    assert runs.processes_below(tmp_path) == []


def test_with_other_variables_the_program_itself_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    assert warm.is_usual()
    monkeypatch.setenv("FENCEPOST_PATH", "/nowhere")
    assert not warm.is_usual()

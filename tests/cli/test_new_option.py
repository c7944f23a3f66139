"""A new option is one declaration: nothing else knows it by name, and everything has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.runs import ROOT, only_run

PACKAGES = ("cluster", "fencepost", "harness", "nemesis", "workloads")
DECLARATION = """
    toy_ms: Annotated[int, Option("--toy", "what the toy does", "toys", low=1, high=60_000, unit="ms")] = 5
"""
LOCK = '''"""A toy that says what it was told."""

from workloads.locks.no_op import NoOp


class Toy(NoOp):
    def __init__(self, nodes, settings):
        super().__init__(nodes, settings)
        self.told = settings.toy_ms

    def describe(self):
        return {"toy_ms": self.told}


LOCK = Toy
'''
ADAPTER = """
import json, sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"outcome": "fail"}
    if request["do"] == "open":
        answer = {"outcome": "ok", "describe": request["settings"]}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source tree with one more declaration, and a lock that reads it."""
    tree = tmp_path_factory.mktemp("tree")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "Makefile").touch()  # a clone
    (tree / ".tools").symlink_to((ROOT / ".tools").resolve())
    options = tree / "workloads" / "options.py"
    before, head, after = options.read_text().partition("class ClientOptions(")
    options.write_text(before.rstrip() + DECLARATION + "\n\n" + head + after)
    (tree / "workloads" / "locks" / "toy.py").write_text(LOCK)
    (tree / "adapter.py").write_text(ADAPTER)
    return tree


def command(tree: Path, folder: Path, *words: str) -> tuple[int, str, str]:
    (folder / "tmp").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "fencepost", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(tree), "COLUMNS": "100", "TMPDIR": str(folder / "tmp")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )
    return done.returncode, done.stdout, done.stderr


def short(*words: str) -> list[str]:
    load = ["--cluster", "process", "--nemesis", "none", "--duration", "1s", "--recovery", "0"]
    return ["test", "--clients", "2", "--nodes", "1", *load, *words]


def test_the_help_shows_it_with_its_default(tree: Path, tmp_path: Path) -> None:
    code, out, err = command(tree, tmp_path, "test", "--help")
    assert (code, err) == (0, "")
    assert "toys:\n  --toy TIME            what the toy does (5ms)\n" in out


def test_its_bounds_are_checked_before_anything_starts(tree: Path, tmp_path: Path) -> None:
    code, out, err = command(tree, tmp_path, *short("--toy", "2m"))
    assert (code, out, err) == (254, "", "fencepost: --toy is 2m; it must be between 1ms and 1m\n")


def test_a_lock_in_a_client_process_sees_it_and_the_run_is_repeated_with_it(tree: Path, tmp_path: Path) -> None:
    code, out, err = command(tree, tmp_path, *short("--lock", "toy", "--toy", "7ms"))
    assert code in (0, 1, 2), err
    run = only_run(tmp_path)
    assert json.loads((run / "environment.json").read_text())["lock"] == {"toy_ms": 7}
    assert json.loads((run / "config.json").read_text())["toy_ms"] == 7
    replay = next(line for line in out.splitlines() if line.split()[:1] == ["replay"])
    assert "--toy 7ms" in replay
    words = replay.split()
    words = words[words.index("test") :]
    code, _, err = command(tree, tmp_path, *words, "--results", "again")
    assert code in (0, 1, 2), err
    again = next(path for path in (tmp_path / "again").iterdir() if not path.is_symlink())
    assert json.loads((again / "environment.json").read_text())["lock"] == {"toy_ms": 7}


def test_a_lock_command_is_told_it_when_it_opens(tree: Path, tmp_path: Path) -> None:
    adapter = f"{sys.executable} {tree / 'adapter.py'}"
    code, _, err = command(tree, tmp_path, *short("--lock-command", adapter, "--toy", "9ms"))
    assert code in (0, 1, 2), err
    assert json.loads((only_run(tmp_path) / "environment.json").read_text())["lock"]["toy_ms"] == 9


def test_it_is_an_axis_of_a_campaign(tree: Path, tmp_path: Path) -> None:
    axis = ["--axis", "toy=1ms,3ms", "--seeds", "1", "--", *short("--lock", "toy")[1:]]
    code, _, err = command(tree, tmp_path, "compare", *axis)
    assert code == 0, err
    runs = [path for path in (tmp_path / "results" / "runs").iterdir() if not path.is_symlink()]
    assert sorted(json.loads((run / "config.json").read_text())["toy_ms"] for run in runs) == [1, 3]

"""Help and the list of runs come at once, because they import nothing that takes long to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.checkers.judge import judge_folder
from harness.cli.main import COMMANDS
from harness.config import RunConfig
from harness.store.run_folder import RunFolder
from tests.harness.runs import ROOT

HEAVY = ("numpy", "pandas", "pyarrow", "scipy", "redis", "docker", "toxiproxy", "psutil", "jinja2", "requests")
SHOWN = "\n".join(
    [
        "import sys",
        "from fencepost.__main__ import main",
        "code = main(sys.argv[1:])",
        "print('imported:', *sorted(sys.modules))",
        "sys.exit(code)",
    ]
)


def imported_by(*words: str, folder: Path, code: int = 0) -> set[str]:
    """The modules that a command has imported when it is done, which ends with this code."""
    done = subprocess.run(
        [sys.executable, "-c", SHOWN, *words],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("imported: ")
    return set(last.split()[1:])


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in COMMANDS if name != "doctor")])
def test_help_imports_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    modules = imported_by(*words, folder=tmp_path)
    assert not modules & {*HEAVY, "rich"}


def test_the_commands_list_imports_no_command(tmp_path: Path) -> None:
    modules = imported_by("--help", folder=tmp_path)
    assert not {module for module in modules if module.startswith(("cluster.disk", "nemesis", "harness.run"))}
    assert not modules & {f"harness.cli.{name}" for name in COMMANDS}


def test_listing_runs_imports_nothing_heavy(tmp_path: Path) -> None:
    runs = tmp_path / "results" / "runs"
    RunFolder.create(runs, RunConfig(seed=1))
    judge_folder(RunFolder.create(runs, RunConfig(seed=2)))
    modules = imported_by("list", folder=tmp_path)
    assert "harness.report.listing" in modules
    assert not modules & set(HEAVY)


TABLES = {"numpy", "pandas", "pyarrow", "scipy"}


@pytest.mark.parametrize(
    "words",
    [
        ["test", "--lock", "redlok"],
        ["test", "--lock", "redlock", "--nemesis", "nonsense", "--json", "result.json"],
        ["script", "nonsense"],
        ["analyze", "nowhere"],
    ],
)
def test_bad_input_is_told_without_what_judges(words: list[str], tmp_path: Path) -> None:
    assert not imported_by(*words, folder=tmp_path, code=254) & TABLES


def test_the_process_that_plays_an_experiment_imports_nothing_that_judges() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "import sys, harness.scripts.steps; print(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    modules = set(told.stdout.split())
    assert "harness.scripts.expect" in modules
    assert not modules & TABLES

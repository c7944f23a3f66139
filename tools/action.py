"""The GitHub Action's own step (`action.yml`): makes the runs, and writes the job's summary from their results.

The inputs are in INPUT_… of the environment, run folders go into `fencepost-runs` below the current folder, and the
exit code is that of the worst run: a failure, then a violation, then a limit that was missed, then unknown.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkout import ROOT

# isort: split
from fencepost.markdown import block, code, escaped, table

RESULTS: Final = "fencepost-runs"
PLUGIN: Final = ROOT / "pytest_plugin"
_BAD_INPUT: Final = 254
_WORST_FIRST: Final = ("failed", "violation", "limit missed", "unknown", "valid")


@dataclass(frozen=True)
class Made:
    """A run that was made, or that was to be. `result`: what fencepost told of it, if anything."""

    seed: str
    code: int
    result: dict[str, Any]

    @property
    def verdict(self) -> str:
        """With what the limits add to it."""
        return self.result.get("conclusion") or "failed"

    @property
    def story(self) -> str:
        if "story" in self.result:
            return str(self.result["story"])
        return str(self.result.get("error", {}).get("text", "fencepost ended without a result; see the job's log"))


def main() -> int:
    try:
        lock = _lock(_input("LOCK_CLASS"), _input("LOCK_COMMAND"))
        more = shlex.split(_input("OPTIONS"))
    except ValueError as error:
        print(f"fencepost: {error}", file=sys.stderr)
        return _BAD_INPUT
    common = [
        *lock,
        f"--nemesis={_input('NEMESIS')}",
        f"--require={_input('REQUIRE') or 'lock'}",
        f"--duration={_input('DURATION')}",
        f"--results={RESULTS}",
        *more,
    ]
    runs = [_made(seed, common) for seed in _input("SEEDS").split()]
    if not runs:
        print("fencepost: the input `seeds` names no number", file=sys.stderr)
        return _BAD_INPUT
    worst = min(runs, key=lambda run: _WORST_FIRST.index(run.verdict))
    for run in runs:
        annotate(run)
    _append("GITHUB_STEP_SUMMARY", summary(runs))
    _append("GITHUB_OUTPUT", [f"verdict={worst.verdict}"])
    return worst.code


def _input(name: str) -> str:
    return os.environ.get(f"INPUT_{name}", "").strip()


def _lock(named: str, command: str) -> list[str]:
    """The options that choose the lock. Raises ValueError."""
    if bool(named) == bool(command):
        raise ValueError("give one of the inputs `lock-class` and `lock-command`")
    if command:
        return [f"--lock-command={command}"]
    if not all(named.partition(":")):
        raise ValueError(f"lock-class {named!r} names no class; write package.module:Class")
    path = os.pathsep.join(filter(None, (str(PLUGIN), str(Path.cwd()), os.environ.get("PYTHONPATH"))))
    words = ["env", f"PYTHONPATH={path}", _input("PYTHON") or "python3", str(PLUGIN / "pytest_fencepost/start"), named]
    return [f"--lock-command={shlex.join(words)}", f"--name={named.partition(':')[2].lstrip('_')[:40]}"]


def _made(seed: str, common: Sequence[str]) -> Made:
    program = shlex.split(os.environ.get("FENCEPOST", "")) or [str(Path(sys.executable).with_name("fencepost"))]
    with tempfile.TemporaryDirectory() as scratch:
        told = Path(scratch, "result.json")
        exit_code = subprocess.call([*program, "test", *common, f"--seed={seed}", f"--json={told}"])
        return Made(seed, exit_code, json.loads(told.read_bytes()) if told.exists() else {})


def summary(runs: Sequence[Made]) -> list[str]:
    """Markdown: a row for each run, and how to look at those that are not valid."""
    rows = [(run.verdict, code(run.seed), run.result.get("kept", ""), _first_line(run.story)) for run in runs]
    lines = ["### fencepost", "", *table(("verdict", "seed", "promises", "what was found"), rows), ""]
    for run in runs:
        if run.verdict in ("valid", "failed"):
            continue
        lines += [f"#### Seed {escaped(run.seed)}", "", *[f"{escaped(line)}\n" for line in run.story.splitlines()]]
        if diagram := run.result.get("diagram"):
            lines += [*block(str(diagram)), ""]
        lines += [
            "The job's artifact has the folder of the run: `report.html` in it is the picture. To make it again:",
            "",
        ]
        lines += [*block(f"fencepost replay {shlex.quote(Path(run.result['folder']).name)}"), ""]
    return lines


def annotate(run: Made) -> None:
    """Tell the story of a run that is not valid at the job's check, and so in the pull request: a workflow command of
    GitHub's, on stdout."""
    if run.verdict != "valid":
        title = _in_command(f"fencepost: {run.verdict}, seed {run.seed}").replace(":", "%3A").replace(",", "%2C")
        print(f"::error title={title}::{_in_command(run.story)}", flush=True)


def _in_command(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _append(name: str, lines: Sequence[str]) -> None:
    """Add lines to the file that the environment names; outside of GitHub there may be none."""
    if path := os.environ.get(name):
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())

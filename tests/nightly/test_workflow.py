"""The nightly job tests every foreign lock that there is, and asks for the list itself."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import yaml

from fencepost.setup.machine import tools_folder
from workloads.languages.base import language_of
from workloads.registry import foreign_locks

ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_foreign_lock_is_installed_tested_and_played(tmp_path: Path) -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())["jobs"]
    foreign = jobs["foreign"]
    told = re.fullmatch(
        r"\$\{\{ fromJSON\(needs\.([\w-]+)\.outputs\.(\w+)\) \}\}", foreign["strategy"]["matrix"]["lock"]
    )
    assert told, "a list in the workflow would go stale"
    lists, output = told.groups()
    assert foreign["needs"] == lists
    [listing] = [step["run"] for step in jobs[lists]["steps"] if step.get("id") == "list"]
    assert jobs[lists]["outputs"][output] == f"${{{{ steps.list.outputs.{output} }}}}"

    written = tmp_path / "output"
    environment = os.environ | {"GITHUB_OUTPUT": str(written), "FENCEPOST_PATH": ""}
    environment = {name: value for name, value in environment.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    subprocess.run(["bash", "-e", "-c", listing], cwd=ROOT, env=environment, check=True, timeout=60)
    name, _, names = written.read_text().partition("=")
    assert name == output
    folders = (ROOT / "workloads/locks/foreign").glob("*/lock.toml")
    left_out = {path.parent.name.replace("_", "-") for path in folders} ^ set(json.loads(names))
    locks = {lock.name: lock for lock in foreign_locks()}
    cannot = {name for name, lock in locks.items() if language_of(lock).missing(tools_folder()) is not None}
    assert left_out == cannot, "but for the languages that this machine cannot have"
    assert "redlock-py" not in left_out

    [played] = [step["run"] for step in foreign["steps"] if "run" in step]
    lock = "redsync"
    words = shlex.split(re.sub(r"\$\{\{ .*? \}\}", "7", played.replace("${{ matrix.lock }}", lock)))
    done = subprocess.run(
        [words[0], "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    for command in ("fencepost setup", "pytest tests/locks", "fencepost test"):
        assert re.search(rf"{command} .*\b{lock}\b", done.stdout), command


def test_everything_that_the_night_runs_is_a_target_of_make() -> None:
    """So that anybody can make a night's failure again on their own machine."""
    jobs = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())["jobs"]
    said = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = {
        word[1] for line in said if (word := re.fullmatch(r"(?:sudo env \S+ )?make ([\w-]+|\$\{\{.*)(?: .*)?", line))
    }
    assert len(said) >= len(jobs)
    prepared = re.compile(r"sudo git config --system --add safe\.directory")
    assert [
        line for line in said if not re.match(r"(sudo env \"PATH=\$PATH\" )?make ", line) and not prepared.match(line)
    ] == []
    declared = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {target for target in targets if not target.startswith("$")} <= declared
    wanted = {"nightly", "many-clients", "foreign", "fuzz", "fuzz-judge", "signals", "tampered", "survey", "claims"}
    assert wanted | {"surroundings", "engines", "no-blame", "no-blame-standard"} <= targets

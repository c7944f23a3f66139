"""The GitHub Action: what its step does, run here as GitHub runs it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
JOBS = [
    pytest.param(job, id=f"{path.stem}-{name}")
    for path in sorted((ROOT / ".github/workflows").glob("*.yml"))
    for name, job in yaml.safe_load(path.read_text())["jobs"].items()
]
FAKE = """
import json, os, sys
from pathlib import Path
options = dict(word.removeprefix("--").partition("=")[::2] for word in sys.argv[2:])
with open("calls", "a") as calls:
    calls.write(json.dumps(options) + "\\n")
result, code = json.loads(os.environ["ANSWERS"])[options["seed"]]
if result:
    Path(options["json"]).write_text(json.dumps(result))
sys.exit(code)
"""


KEPT = "exclusion BROKEN · lease kept"


def result(verdict: str, story: str, conclusion: str | None = None) -> dict[str, Any]:
    folder = "/w/fencepost-runs/20261231T235959Z-mine-7"
    told = {"schema": 2, "verdict": verdict, "kept": KEPT, "story": story, "folder": folder}
    return told | {"conclusion": conclusion or verdict}


VALID = (result("valid", "VALID — no overlap"), 0)
VIOLATION = (result("violation", "VIOLATION — the lock is to blame\nc3 and c7 met."), 1)
UNKNOWN = (result("unknown", "UNKNOWN — nobody acquired the lock"), 2)
MISSED = (result("valid", "LIMIT MISSED — acquire p99 was 312 ms, limit < 200 ms", "limit missed"), 1)
BROKEN = ({"schema": 2, "verdict": None, "error": {"kind": "environment", "text": "no redis-server"}}, 255)
SILENT = ({}, 255)


def act(folder: Path, answers: dict[str, Any], **inputs: str) -> tuple[int, str, str, str]:
    """Exit code, summary, output, stderr; what it says on stdout is left in a file."""
    (folder / "fake.py").write_text(FAKE)
    defaults = {"LOCK_COMMAND": "node lock.mjs", "NEMESIS": "partition", "SEEDS": " ".join(answers), "DURATION": "5s"}
    environment = {f"INPUT_{name}": value for name, value in (defaults | inputs).items()} | {
        "FENCEPOST": shlex.join([sys.executable, str(folder / "fake.py")]),
        "ANSWERS": json.dumps(answers),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_OUTPUT": str(folder / "output"),
        "PYTHONPATH": "/authors/path",
    }
    done = subprocess.run(
        [sys.executable, ROOT / "tools/action.py"],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    (folder / "stdout").write_text(done.stdout)
    written = [folder / "summary.md", folder / "output"]
    return done.returncode, *(path.read_text() if path.exists() else "" for path in written), done.stderr


def calls(folder: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


@pytest.mark.parametrize(
    ("answers", "code", "verdict"),
    [
        ([VALID, VALID], 0, "valid"),
        ([VALID, UNKNOWN], 2, "unknown"),
        ([UNKNOWN, VIOLATION, VALID], 1, "violation"),
        ([UNKNOWN, MISSED, VALID], 1, "limit missed"),
        ([MISSED, VIOLATION], 1, "violation"),
        ([VIOLATION, BROKEN], 255, "failed"),
        ([SILENT, VALID], 255, "failed"),
    ],
)
def test_the_worst_run_decides_and_all_are_in_the_summary(
    answers: list[Any], code: int, verdict: str, tmp_path: Path
) -> None:
    done, summary, output, _ = act(tmp_path, {str(seed): answer for seed, answer in enumerate(answers)})
    assert (done, output) == (code, f"verdict={verdict}\n")
    rows = [
        line for line in summary.splitlines() if re.match(r"\| (valid|violation|limit missed|unknown|failed) \|", line)
    ]
    assert len(rows) == len(answers)


def test_the_summary_tells_the_story_of_a_violation_and_how_to_see_it_again(tmp_path: Path) -> None:
    _, summary, _, _ = act(tmp_path, {"7": VIOLATION, "8": VALID})
    assert f"| violation | `7` | {KEPT} | VIOLATION — the lock is to blame |" in summary
    assert "c3 and c7 met." in summary
    assert "fencepost replay 20261231T235959Z-mine-7" in summary
    assert "Seed 8" not in summary


def test_the_summary_shows_the_diagram_of_a_violation(tmp_path: Path) -> None:
    told, code = VIOLATION
    _, summary, _, _ = act(tmp_path, {"7": (told | {"diagram": "c3  c7 | n1\n █ ──▶ `x`"}, code)})
    assert "```\nc3  c7 | n1\n █ ──▶ `x`\n```\n" in summary


def test_runs_that_are_not_valid_annotate_the_pull_request(tmp_path: Path) -> None:
    act(tmp_path, {"7": (result("violation", "100 % of it: bad\n::set-output name=x::y"), 1), "8": VALID, "9": SILENT})
    commands = [line for line in (tmp_path / "stdout").read_text().splitlines() if line.startswith("::")]
    assert commands == [
        "::error title=fencepost%3A violation%2C seed 7::100 %25 of it: bad%0A::set-output name=x::y",
        "::error title=fencepost%3A failed%2C seed 9::fencepost ended without a result; see the job's log",
    ]


def test_what_a_lock_says_is_no_markup(tmp_path: Path) -> None:
    _, summary, _, _ = act(tmp_path, {"7": (result("violation", "<img src=x>|**bold**\n[a](b)"), 1)})
    assert "<img" not in summary
    assert "**bold**" not in summary
    assert "[a](b)" not in summary


def test_a_command_is_passed_on_with_the_other_inputs(tmp_path: Path) -> None:
    assert act(tmp_path, {"7": VALID}, REQUIRE="lock+data", OPTIONS="--ttl=2s '--name=my lock'")[0] == 0
    (call,) = calls(tmp_path)
    assert call.pop("json")
    assert call == {
        "lock-command": "node lock.mjs",
        "nemesis": "partition",
        "require": "lock+data",
        "duration": "5s",
        "results": "fencepost-runs",
        "ttl": "2s",
        "name": "my lock",
        "seed": "7",
    }


def test_no_finding_may_blame_the_lock_unless_the_input_says_otherwise() -> None:
    assert ACTION["inputs"]["require"]["default"] == "lock"


def test_a_class_runs_under_the_author_s_interpreter_and_path(tmp_path: Path) -> None:
    act(tmp_path, {"7": VALID}, LOCK_COMMAND="", LOCK_CLASS="my_pkg.locks:MyLock", PYTHON="python3.13")
    (call,) = calls(tmp_path)
    env, path, python, start, target = shlex.split(call["lock-command"])
    assert (env, python, target, call["name"]) == ("env", "python3.13", "my_pkg.locks:MyLock", "MyLock")
    assert path == f"PYTHONPATH={ROOT / 'pytest_plugin'}:{tmp_path}:/authors/path"
    assert (Path(start) / "__main__.py").is_file()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"LOCK_COMMAND": ""}, "give one of the inputs `lock-class` and `lock-command`"),
        ({"LOCK_CLASS": "a:B"}, "give one of the inputs `lock-class` and `lock-command`"),
        ({"LOCK_COMMAND": "", "LOCK_CLASS": "a"}, "lock-class 'a' names no class; write package.module:Class"),
        ({"SEEDS": " "}, "the input `seeds` names no number"),
        ({"OPTIONS": "'"}, "No closing quotation"),
    ],
)
def test_bad_inputs_start_nothing(inputs: dict[str, str], message: str, tmp_path: Path) -> None:
    code, summary, _, said = act(tmp_path, {"7": VALID}, **inputs)
    assert (code, summary, said) == (254, "", f"fencepost: {message}\n")
    assert not (tmp_path / "calls").exists()


def test_every_input_reaches_the_step_and_none_is_pasted_into_a_shell() -> None:
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("id") == "runs"]
    read = set(re.findall(r'_input\([\'"](\w+)', (ROOT / "tools/action.py").read_text()))
    assert {f"INPUT_{name}" for name in read} == step["env"].keys()
    given = {re.fullmatch(r"\$\{\{ inputs\.([a-z-]+) \}\}", value)[1] for value in step["env"].values()}  # type: ignore[index]
    assert given | {"artifact"} == ACTION["inputs"].keys()
    assert "${{" not in "".join(step.get("run", "") for step in ACTION["runs"]["steps"])


def test_two_legs_of_a_matrix_upload_under_names_of_their_own() -> None:
    """GitHub refuses a second artifact of the same name in a workflow's run."""
    default = ACTION["inputs"]["artifact"]["default"]
    assert {"github.job", "strategy.job-index"} <= set(re.findall(r"\$\{\{ ([\w.-]+) \}\}", default))


@pytest.mark.parametrize("job", JOBS)
def test_a_job_with_a_matrix_names_its_artifacts_by_it(job: dict[str, Any]) -> None:
    if "matrix" in job.get("strategy", {}):
        names = [step["with"]["name"] for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
        assert [name for name in names if "matrix." not in name and "strategy.job-index" not in name] == []


@pytest.mark.parametrize("job", JOBS)
def test_a_job_that_works_as_root_has_git_trust_the_checkout_first(job: dict[str, Any]) -> None:
    """Otherwise git refuses it, because it belongs to another user."""
    trusted = False
    for step in job["steps"]:
        command = step.get("run", "")
        trusted = trusted or command == 'sudo git config --system --add safe.directory "$PWD"'
        assert trusted or "sudo" not in command, command


@pytest.mark.parametrize("job", JOBS)
def test_a_job_names_no_image_that_is_not_tried_elsewhere(job: dict[str, Any]) -> None:
    """The servers in containers are those that set-up brought."""
    assert not {"container", "services"} & job.keys()
    assert not [step for step in job["steps"] if str(step.get("uses", "")).startswith("docker://")]

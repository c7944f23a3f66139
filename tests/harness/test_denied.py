"""Locks and the password of a run: the documented example logs in; one that does not is told so; and none prints it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent

import pytest

import fencepost
from fencepost.history import Denied
from harness.checkers.denied_requests import Figures
from harness.store.run_folder import RunFolder
from tests.harness import runs
from tests.harness.test_closed import UNSHARED
from tests.test_pages import blocks

CLOSED = [
    pytest.param(("process", UNSHARED), marks=pytest.mark.needs("root"), id="no-namespaces"),
    pytest.param(("docker", []), marks=pytest.mark.needs("engine"), id="containers"),
]
WHERE = [pytest.param(("process", []), marks=pytest.mark.needs("sandbox"), id="namespaces"), *CLOSED]
Where = tuple[str, list[str]]


def played(folder: Path, where: Where, command: str) -> tuple[int, str]:
    """The exit code and what was said of a short run of this lock."""
    backend, before = where
    lock = ["--lock-command", command, "--nemesis", "none", "--clients", "2", "--duration", "2s", "--recovery", "0s"]
    code, out, err = runs.finish(runs.start(folder, "test", "--cluster", backend, *lock, before=before))
    return code, " ".join((out + err).split())


@pytest.fixture
def example() -> str:
    return blocks("lock-protocol.md", "javascript")[-1]


@pytest.mark.needs("node")
@pytest.mark.parametrize("where", WHERE)
def test_the_documented_example_acquires_wherever_a_run_is_made(tmp_path: Path, where: Where, example: str) -> None:
    (tmp_path / "my_lock.mjs").write_text(example)
    code, said = played(tmp_path, where, f"node {tmp_path / 'my_lock.mjs'}")
    assert code == 0, said
    assert re.search(r"sections [1-9]", said), said


@pytest.mark.needs("node")
@pytest.mark.parametrize("where", CLOSED)
def test_a_lock_that_does_not_log_in_is_told_so(tmp_path: Path, where: Where, example: str) -> None:
    forgetful = example.replace(", node.password && (await ask('AUTH', node.password))", "").replace("+PONG", "-NOAUTH")
    forgetful = re.sub(r"^ .*-NOAUTH.*\n", "", forgetful, flags=re.MULTILINE)
    assert "password" not in forgetful
    assert "PING" not in forgetful
    (tmp_path / "my_lock.mjs").write_text(forgetful)
    code, said = played(tmp_path, where, f"node {tmp_path / 'my_lock.mjs'}")
    assert code == 2, said
    assert "UNKNOWN" in said
    assert "NOAUTH" in said
    assert "it must log in as the default user with the password of `open`" in said
    folder = RunFolder.open(runs.only_run(tmp_path))
    (denied,) = folder.read_denied()
    assert denied == Denied("n1", "NOAUTH", denied.times)
    verdict = fencepost.load(folder.path).verdict
    assert verdict.of(Figures) == Figures({"NOAUTH": denied.times})
    assert not [finding for finding in verdict.findings if finding.blame == "lock"]


# Keeps the request for the test, and says it to whoever listens.
TALKATIVE = """
import json, os, sys
line = sys.stdin.readline()
mine = f"{sys.argv[1]}.{os.getpid()}"
open(mine, "w").write(line)
os.replace(mine, sys.argv[1])
said = "x" * int(sys.argv[2]) + line
sys.stderr.write(said + "\\n")
sys.stderr.flush()
if sys.argv[3] == "as its answer":
    print(said, flush=True)
elif sys.argv[3] == "as its error":
    print(json.dumps({"outcome": "fail", "error": said}), flush=True)
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("where", "how"),
    [
        *(pytest.param(*CLOSED[0].values, how, marks=CLOSED[0].marks) for how in ("as its answer", "as its error")),
        *(pytest.param(*each.values, "before it dies", marks=each.marks, id=str(each.id)) for each in CLOSED),
    ],
)
def test_no_error_and_no_log_contains_the_password_that_a_lock_quotes(tmp_path: Path, where: Where, how: str) -> None:
    (tmp_path / "talkative.py").write_text(dedent(TALKATIVE))
    kept = tmp_path / "opened.json"
    before_password = len('{"do":"open","protocol":1,"nodes":[{"host":"127.0.0.1","port":26001,"url":"redis://:')
    # Texts are cut off after 200 characters, here within the password.
    for padding in (0, 180 - before_password):
        code, said = played(tmp_path, where, f"python3 {tmp_path}/talkative.py {kept} {padding} '{how}'")
        assert code == 255, said
        password = json.loads(kept.read_text())["nodes"][0]["password"]
        for shown in (password, password[:8]):
            assert shown not in said
            for path in (tmp_path / "results").rglob("*"):
                assert not path.is_file() or shown.encode() not in path.read_bytes(), path

"""What is brought from elsewhere is named by what it contains, not by a name that may mean something else tomorrow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workloads.registry import foreign_locks

ROOT = Path(__file__).resolve().parent.parent
JARS = sorted((ROOT / "fencepost/setup").glob("*.jars"))
WORKFLOWS = [ROOT / "action.yml", *sorted((ROOT / ".github/workflows").glob("*.yml"))]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_is_named_by_a_commit(workflow: Path) -> None:
    """But for that of this repository."""
    used = re.findall(r"uses:\s*(?!\./)(\S+)(.*)", workflow.read_text())
    assert used
    assert [(name, note) for name, note in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name)] == []
    assert [name for name, note in used if not re.fullmatch(r" # v\d+(\.\d+)*", note)] == [], "the release, for people"


FIRST_ON_NODE_24 = {"checkout": 5, "setup-python": 6, "cache": 5, "upload-artifact": 6}
"""The first major of each action that runs on Node 24, as its action.yml says; runners have removed Node 20."""


def test_every_action_is_one_release_everywhere_and_runs_on_a_node_that_runners_have() -> None:
    places = [*WORKFLOWS, *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md"), *ROOT.glob("pytest_plugin/*.md")]
    pattern = re.compile(r"uses:\s*actions/([\w-]+)[\w/-]*@(\w+) # v(\d+)")
    named = {place: pattern.findall(place.read_text()) for place in places}
    assert named[ROOT / "docs/github-action.md"]
    used = {each for found in named.values() for each in found}
    assert {name for name, _, _ in used} == FIRST_ON_NODE_24.keys()
    assert len(used) == len(FIRST_ON_NODE_24), "one commit of each"
    assert [each for each in used if int(each[2]) < FIRST_ON_NODE_24[each[0]]] == []


def test_what_a_foreign_lock_is_made_from_has_checksums() -> None:
    """Their own tools check them: pip, npm, go, cargo, and `fencepost.setup.jars`. Those of Debian are in an index that
    Debian signs, so their versions are enough."""
    marks = {
        "python": ("requirements.txt", r"--hash=sha256:[0-9a-f]{64}"),
        "node": ("package-lock.json", r'"integrity": "sha512-'),
        "go": ("go.sum", r" h1:\S{43}="),
        "rust": ("crates.lock", r'checksum = "[0-9a-f]{64}"'),
        "java": ("jars.txt", r" [0-9a-f]{64}$"),
        "php": ("debian.txt", r"\A(\S+=\d+\.\d+\.\*\n)+\Z"),
    }
    seen = set()
    for lock in foreign_locks():
        if lock.packages_path is None:
            continue
        name, mark = marks[lock.language]
        assert re.search(mark, (lock.source / name).read_text(), re.MULTILINE), lock.name
        seen.add(lock.language)
    assert seen == set(marks)


@pytest.mark.parametrize("jars", JARS, ids=lambda path: path.stem)
def test_the_jars_of_a_server_have_checksums_and_no_address(jars: Path) -> None:
    lines = [line for line in jars.read_text().splitlines() if not line.startswith("#")]
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.]+ [0-9a-f]{64}", line)] == []


@pytest.mark.parametrize(
    ("folder", "module"),
    [
        ("fencepost/setup/toxiproxy", ("github.com/Shopify/toxiproxy/v2", "v2.12.0")),
        ("fencepost/setup/etcd", ("go.etcd.io/etcd/server/v3", "v3.7.3")),
        ("tools/actionlint", ("github.com/rhysd/actionlint", "v1.7.12")),
    ],
)
def test_what_is_built_with_go_is_built_from_modules_with_checksums(folder: str, module: tuple[str, str]) -> None:
    sums = (ROOT / folder / "go.sum").read_text()
    required = re.findall(r"^(?:\t|require )([\w./-]+) (v\S+)", (ROOT / folder / "go.mod").read_text(), re.MULTILINE)
    assert module in required
    assert [each for each in required if not re.search(rf"^{re.escape(' '.join(each))} h1:", sums, re.MULTILINE)] == []

"""A lock in each language is added from outside the source tree: a folder, `fencepost setup --lock`, and a run."""

from __future__ import annotations

import json
import tomllib
from html import unescape
from pathlib import Path

import pytest

from fencepost.extensions import VARIABLE
from fencepost.setup.machine import tools_folder
from tests.harness import runs
from tests.harness.second_tries import spared
from workloads.languages.base import language_names
from workloads.manifest import FILE, name_of

TOYS = runs.ROOT / "tests" / "toys"
LANGUAGES = {
    path.parent: str(tomllib.loads(path.read_text())["language"])
    for path in sorted((TOYS / "workloads" / "locks" / "foreign").glob(f"*/{FILE}"))
}
NEEDS = {"go": "lock:redsync", "java": "lock:redisson", "node": "lock:redlock-node", "php": "php", "rust": "rust"}
"""What shows that a language's toolchain is there, or was brought, and that its packages can be downloaded."""

ADDED = [
    pytest.param(folder, id=language, marks=[pytest.mark.needs(NEEDS[language])] if language in NEEDS else [])
    for folder, language in LANGUAGES.items()
]


def test_there_is_a_toy_in_every_language() -> None:
    assert sorted(LANGUAGES.values()) == list(language_names())


@pytest.mark.timeout(600)  # it compiles, and what it compiles may not be in the cache yet
@pytest.mark.parametrize("lock", ADDED)
def test_a_lock_is_added_without_any_edit_installed_and_played(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools").mkdir()
    for shared in ("bin", "cache", "toolchains", "pip"):  # only its installation is new
        if (there := (tools_folder() / shared).resolve()).exists():
            (tmp_path / "tools" / shared).symlink_to(there)
    monkeypatch.setenv("FENCEPOST_TOOLS", str(tmp_path / "tools"))
    name = name_of(lock)
    monkeypatch.setenv(VARIABLE, str(TOYS))
    given = runs.short_run("--lock", name, "--nodes", "1", "--nemesis", "none", "--hold", "0")
    missing = f"fencepost: the lock {name} is not installed: run `fencepost setup --lock {name}`\n"
    assert runs.fencepost(tmp_path, *given) == (254, "", missing)
    code, out, err = runs.fencepost(tmp_path, "setup", "--lock", name, timeout_s=600)
    assert (code, err) == (0, ""), out
    code, out, run = spared(tmp_path, given)
    assert code == 0, out
    assert len(run.sections) >= 50
    manifest = tomllib.loads((lock / FILE).read_text())
    recorded = json.loads((run.path / "environment.json").read_text())["manifest"]
    told = ("language", "library", "summary", "settings", "configured")
    assert [recorded[key] for key in told] == [manifest.get(key, {}) for key in told]
    page = unescape((run.path / "report.html").read_text())
    for reason in manifest.get("configured", {}).values():
        assert reason in page, "the report says how it is configured, and why"


def test_the_documents_show_a_lock_of_the_source_tree() -> None:
    document = (runs.ROOT / "docs" / "foreign-locks.md").read_text()
    lock = runs.ROOT / "workloads" / "locks" / "foreign" / "redislock"
    assert f"```go\n{(lock / 'adapter.go').read_text()}```" in document
    assert f"```toml\n{(lock / FILE).read_text()}```" in document

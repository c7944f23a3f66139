"""The plugin in a pytest of its own, with a program that stands for `fencepost`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PLUGIN = ROOT / "pytest_plugin"
"""A distribution of its own, which is not installed here."""
sys.path.insert(0, str(PLUGIN))
OVERLAP = {
    "kind": "overlap",
    "blame": "lock",
    "text": "3 pairs of clients were inside at the same time",
    "breaks": True,
    "promise": "exclusion",
    "count": 3,
    "first_ms": 2310.4,
    "why": "c3 and c7 met.",
}
STORIES = {
    "valid": "VALID — no overlap blamed on the lock in 812 sections",
    "violation": "VIOLATION — the lock is to blame: 3 pairs of clients were inside at the same time\nc3 and c7 met.",
    "unknown": "UNKNOWN — nobody acquired the lock",
}
DIAGRAM = "          c3  c7        n1\n  2.31 s  │   ├── SET ──▶█"
LOST = "24 of 137 acknowledged updates were lost"


@dataclass
class Fake:
    """Says what the program is to answer, and how it was called."""

    pytester: pytest.Pytester
    folder: Path

    def judges(self, verdict: str, *, hides: str = "") -> None:
        self.answers(
            {
                "schema": 2,
                "verdict": verdict,
                "conclusion": verdict,
                "require": "lock",
                "promises": [{"promise": "data", "outcome": "broken" if hides else "kept", "decides": False}],
                "kept": "data broken" if hides else "data kept",
                "story": f"{STORIES[verdict]}, but {hides}" if hides else STORIES[verdict],
                "findings": [OVERLAP] if verdict == "violation" else [],
                "unknown": ["nobody acquired the lock"] if verdict == "unknown" else [],
                "hides": [hides] if hides else [],
                "lock": "MyLock",
                "nemesis": "partition",
                "replay": "fencepost test --schedule schedule.json",
                "a field of a later version": 1,
            }
            | ({"diagram": DIAGRAM} if verdict == "violation" else {})
        )

    def answers(self, result: Mapping[str, object]) -> None:
        (self.folder / "result.json").write_text(json.dumps(result))

    def says(self, text: str, code: int) -> None:
        (self.folder / "result.json").unlink(missing_ok=True)
        (self.folder / "say").write_text(text)
        (self.folder / "code").write_text(str(code))

    @property
    def calls(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]

    @property
    def runs(self) -> list[Path]:
        """The run folders that are left."""
        return sorted((self.pytester.path / "fencepost-runs").glob("run-*"))

    def test(self, code: str, *arguments: str) -> pytest.RunResult:
        """What pytest makes of this test."""
        self.pytester.makepyfile(test_lock=code)
        plugins = ("-p", "pytest_fencepost.plugin", "-p", "no:hypothesispytest")  # the second one is slow to import
        return self.pytester.runpytest_inprocess(*plugins, *arguments)


@pytest.fixture
def fake(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Fake:
    folder = tmp_path_factory.mktemp("fake")
    monkeypatch.setenv("FAKE", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setenv("FENCEPOST", shlex.join([sys.executable, str(Path(__file__).with_name("fake_fencepost.py"))]))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    fake = Fake(pytester, folder)
    fake.judges("valid")
    return fake

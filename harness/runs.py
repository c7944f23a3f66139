"""The runs that are kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fencepost.errors import UsageError
from harness.store import RESULTS, RunFolder


@dataclass(frozen=True, slots=True)
class RunListed:
    """A line of `fencepost list`. `when`: the run's start, in UTC. `verdict`: its word, or `unjudged`, or `damaged`."""

    name: str
    path: Path
    when: datetime
    verdict: str


def list_runs(results: Path = RESULTS) -> tuple[RunListed, ...]:
    """The runs in `results`, oldest first; what is no run folder is left out. Empty if there is no such folder."""
    runs = []
    for path in sorted(results.iterdir()) if results.is_dir() else ():
        if path.is_symlink() or not (path / "config.json").is_file():
            continue
        try:
            judged = RunFolder(path).read_verdict()
            word: str = judged.verdict if judged else "unjudged"
        except UsageError:
            word = "damaged"
        runs.append(RunListed(path.name, path, _when(path), word))
    return tuple(sorted(runs, key=lambda run: run.when))


def _when(path: Path) -> datetime:
    try:
        return datetime.strptime(path.name.partition("-")[0], "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        return datetime.fromtimestamp((path / "config.json").stat().st_mtime, UTC)

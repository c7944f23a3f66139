"""`fencepost list`: many runs beside each other, a line each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich import box
from rich.table import Table

from fencepost.errors import UsageError
from fencepost.text import count
from harness.config import RESULTS
from harness.report.wording import figure
from harness.store.run_folder import RunFolder

_CAPTION = "overlaps: blamed on the lock / on a client that outlived its lease / undecided; lost: updates"


def render_listing(runs: Iterable[RunListed]) -> Table:
    """One row a run: what was tested and what came out. A run that was not judged, or cannot be read, shows only so."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=_CAPTION, caption_justify="left")
    table.add_column("begun (UTC)", no_wrap=True)
    table.add_column("lock, nemesis, fencing", overflow="fold", min_width=18)
    for title in ("sections", "overlaps", "lost"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True, min_width=9)
    for run in runs:
        table.add_row(f"{run.when:%m-%d %H:%M}", *_cells(run), run.verdict)
    return table


def _cells(run: RunListed) -> list[str]:
    folder = RunFolder(run.path)
    try:
        config, verdict = folder.read_config(), folder.read_verdict()
    except UsageError:
        return [run.name, *[""] * 3]
    nemeses = "+".join(part.partition(":")[0] for part in config.nemesis.split("+"))
    what = f"{config.lock_command or config.lock}, {nemeses}, {config.fencing}"
    if verdict is None:
        return [what, *[""] * 3]
    overlaps = [count(figure(verdict, "exclusion", "overlaps", blame)) for blame in ("lock", "client", "undecided")]
    return [
        what,
        count(figure(verdict, "exclusion", "sections")),
        "/".join(overlaps),
        count(figure(verdict, "counter", "lost")),
    ]


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

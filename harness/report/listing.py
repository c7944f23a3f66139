"""`fencepost list`: many runs beside each other, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from rich import box
from rich.table import Table

from fencepost.errors import UsageError
from fencepost.files import UnreadableError, kind_of
from fencepost.text import printable
from harness.config import RunConfig
from harness.figures import Cell
from harness.limits import LimitOutcome
from harness.promises import LOCK
from harness.store.binding import UnfitVerdictError
from harness.store.manifest import RunManifest, broke_off, changed_since_judged, check_manifest
from harness.store.run_folder import RunFolder, short_names
from harness.verdict import Finding, hidden

_OUTDATED: Final = "outdated"
_DAMAGED: Final = "damaged"
_UNREADABLE: Final = "unreadable"
_MOST_CELLS: Final = 64
"""That the checkers of one run may offer."""
_CHANGED: Final = "changed"
_LEGENDS: Final = {
    "unjudged": "unjudged: no verdict yet; `fencepost analyze RUN` judges it",
    _OUTDATED: "outdated: judged by an older fencepost; `fencepost analyze RUN` judges it anew",
    _CHANGED: "changed: verdict.json does not fit the record; `fencepost analyze RUN` judges it anew",
    _DAMAGED: "damaged: its files are not what the run left; `fencepost analyze RUN` names one",
    _UNREADABLE: "unreadable: this user may not read its files",
}


@dataclass(frozen=True, slots=True)
class RunListed:
    """A line of `fencepost list`. `when`: the run's start, in UTC. `verdict`: its word, or `unjudged`, `outdated` (an
    older fencepost judged it, which measured otherwise), `changed` (since it was judged), `damaged` or `unreadable` (by
    this user). `config`: None if it cannot be read. `cells`: what its checkers offer. `says`: the headline of a
    violation; or which limits were not met, why the verdict is unknown, and what its word hides
    (`harness.verdict.hidden`); empty if there is nothing to say. `beside`: what the verdict alone would hide, data that
    were lost and limits. `short`: as much of the name as other commands need."""

    name: str
    path: Path
    when: datetime
    verdict: str
    config: RunConfig | None = None
    cells: tuple[Cell, ...] = ()
    says: str = ""
    beside: tuple[str, ...] = ()
    short: str = ""

    @property
    def word(self) -> str:
        """`valid, data lost`, `violation, limit missed`."""
        return ", ".join((self.verdict, *self.beside))


class _ListedVerdict(msgspec.Struct):
    """As much of `verdict.json` as a list shows. `listed`: the cells, in order."""

    verdict: str
    require: str = LOCK
    listed: tuple[Cell, ...] = ()
    findings: tuple[Finding, ...] = ()
    unknown: tuple[str, ...] = ()
    limits: tuple[LimitOutcome, ...] = ()
    headline: str = ""

    @property
    def says(self) -> str:
        if self.verdict == "violation":
            first = next((found.text for found in self.findings if found.decides(self.require)), "")
            return self.headline or first
        limits = [str(limit) for limit in self.limits if limit.outcome != "met"]
        return "; ".join([*limits, *self.unknown, *(found.text for found in hidden(self.findings, self.require))])

    @property
    def beside(self) -> tuple[str, ...]:
        is_lost = self.verdict == "valid" and any(found.breaks == "data" for found in self.findings)
        limits = {f"limit {limit.outcome}": None for limit in self.limits if limit.outcome != "met"}
        return (*(["data lost"] if is_lost else []), *limits)


def render_listing(runs: Sequence[RunListed]) -> Table:
    """One row a run: the beginning of its name, by which other commands know it (and which tells when it began, in
    UTC), what was tested and the result. Of a run that was not judged, or cannot be read, only that."""
    cells = sorted((cell for run in runs for cell in run.cells), key=lambda cell: cell.order)
    columns = list(dict.fromkeys(cell.column for cell in cells))
    legends = [cell.legend for cell in cells if cell.legend] + [_LEGENDS.get(run.verdict, "") for run in runs]
    caption = "; ".join(dict.fromkeys(filter(None, legends)))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=caption or None, caption_justify="left")
    table.add_column("run", no_wrap=True)
    table.add_column("lock, nemesis, workload", overflow="fold", min_width=18)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True, min_width=9)
    for run in runs:
        texts = {cell.column: cell.text for cell in run.cells}
        table.add_row(
            printable(run.short or run.name), _tested(run), *(texts.get(column, "") for column in columns), run.word
        )
    return table


def _tested(run: RunListed) -> str:
    config = run.config
    if config is None:
        return ""
    nemeses = "+".join(part.partition(":")[0] for part in config.nemesis.split("+"))
    tested = [printable(config.lock_name), nemeses, printable(config.workload)]
    return ", ".join(tested if config.fencing == "none" else [*tested, f"fencing {config.fencing}"])


def list_runs(results: Path) -> tuple[RunListed, ...]:
    """The runs in `results`, oldest first; what is no run folder is left out. Empty if there is no such folder."""
    folders = run_folders(results)
    short = short_names([path.name for path in folders])
    runs = [replace(listed(path), short=short[path.name]) for path in folders]
    return tuple(sorted(runs, key=lambda run: run.when))


def run_folders(results: Path) -> list[Path]:
    """What looks like a run's folder, also if it cannot be read. Raises UsageError for a file."""
    kind = kind_of(results)
    if kind in ("file", "other"):
        raise UsageError(f"{results} is no folder; name a folder of runs")
    if kind != "folder":
        return []
    try:
        paths = sorted(path for path in results.iterdir() if not path.is_symlink())
    except OSError as error:
        raise UsageError(f"{results} cannot be read ({error.strerror}); check its permissions") from None
    return [path for path in paths if _has_config(path)]


def _has_config(path: Path) -> bool:
    try:
        return kind_of(path / "config.json") is not None or (path / "config.json").is_symlink()
    except UsageError:
        return True


def listed(path: Path) -> RunListed:
    """Whatever is wrong with one folder does not keep the others from being listed."""
    folder, config, word = RunFolder(path), None, _DAMAGED
    cells: tuple[Cell, ...] = ()
    says, beside = "", tuple[str, ...]()
    try:
        config = folder.read_config()
        manifest = folder.read_manifest(RunManifest)
        _check_record(folder, manifest)
        judged = folder.read_verdict(_ListedVerdict)
        word = _word(folder, manifest, judged)
        if judged is not None and word == judged.verdict:
            cells, says, beside = judged.listed, judged.says, judged.beside
    except UnfitVerdictError:
        word = _CHANGED
    except UnreadableError:
        word = _UNREADABLE
    except UsageError:
        word = _DAMAGED
    if len(cells) > _MOST_CELLS:
        word, cells, says, beside = _DAMAGED, (), "", ()
    return RunListed(path.name, path, begun_at(path), word, config, cells, says, beside)


def _check_record(folder: RunFolder, manifest: RunManifest | None) -> None:
    """Raises UsageError for a damaged folder: a verdict that it got before says nothing of what is there now."""
    if manifest is not None:
        check_manifest(folder, manifest, at_a_glance=True)
    else:
        broke_off(folder)


def _word(folder: RunFolder, manifest: RunManifest | None, judged: _ListedVerdict | None) -> str:
    if judged is None:
        return _OUTDATED if folder.is_outdated() else "unjudged"
    return _CHANGED if manifest is None and changed_since_judged(folder) else judged.verdict


def begun_at(path: Path) -> datetime:
    """The run's start, in UTC, as its folder's name says it."""
    try:
        return datetime.strptime(path.name.partition("-")[0], "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        try:
            return datetime.fromtimestamp(path.lstat().st_mtime, UTC)
        except (OSError, OverflowError, ValueError):
            return datetime.fromtimestamp(0, UTC)

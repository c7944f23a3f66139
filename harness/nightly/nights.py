"""What is kept of each night, in `results/nightly/`:

nights.jsonl      a Night, a line each; the trend is drawn from it
2026-11-22/       the night's campaign: its grid and a line for every run
index.html        tonight's verdicts, what changed, and the trend
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Final, Literal

import msgspec

from fencepost.files import kind_of, write_whole
from harness.campaign.folder import RunLine
from harness.campaign.grid import Grid
from harness.store.append_log import read_lines

Kind = Literal["library", "correct", "control"]
"""`correct`: a lock of ours that must not be blamed. `control`: one that is broken on purpose and must be."""
_FILE: Final = "nights.jsonl"


class LockNight(msgspec.Struct, frozen=True, kw_only=True):
    """A lock on a kind of cluster, in one night. `runs`: valid or a violation; `violations`: of these;
    `blamed`: of these, those with a finding that blames the lock. `sections_per_s`: the mean of the runs.
    `detected_ms`: from the start of a run to its first such finding, the median. None where there is nothing to
    tell."""

    lock: str
    cluster: str
    kind: Kind
    runs: int
    violations: int
    blamed: int
    sections_per_s: float | None = None
    detected_ms: float | None = None

    @property
    def is_as_it_must_be(self) -> bool:
        """A control was caught in every run, of which there is one at least; a correct lock was never blamed."""
        if self.kind == "control":
            return 0 < self.runs == self.violations == self.blamed
        return self.kind == "library" or not self.blamed


class Failing(msgspec.Struct, frozen=True):
    """A run with a violation, which is played first the next night. Controls have none."""

    lock: str
    cluster: str
    seed: int


class Night(msgspec.Struct, frozen=True, kw_only=True):
    """`date`: in UTC. `failing`: those of the night, newest last. `missing`: how many runs were asked for and not
    made."""

    date: str
    revision: str
    first_seed: int
    played: tuple[LockNight, ...]
    failing: tuple[Failing, ...] = ()
    missing: int = 0

    @property
    def colour(self) -> Literal["red", "unfinished", "green"]:
        """Red as soon as a control was not caught, or a correct lock blamed."""
        if not all(played.is_as_it_must_be for played in self.played):
            return "red"
        return "unfinished" if self.missing else "green"


def read_nights(folder: Path) -> list[Night]:
    """By date, the oldest first. Raises UsageError for a file that cannot be read."""
    log = folder / _FILE
    pieces = read_lines(log, Night) if kind_of(log) is not None else ()
    return sorted((night for piece in pieces for night in piece), key=lambda night: night.date)


def keep_night(folder: Path, night: Night) -> list[Night]:
    """Write it in the place of an earlier one of its date; returns all nights."""
    others = [other for other in read_nights(folder) if other.date != night.date]
    nights = sorted([*others, night], key=lambda each: each.date)
    write_whole(folder / _FILE, b"".join(msgspec.json.encode(each) + b"\n" for each in nights))
    return nights


def played_of(grid: Grid, lines: Sequence[RunLine]) -> tuple[LockNight, ...]:
    """A row for each lock and cluster of the grid that has a run, in its order."""
    by_place: dict[tuple[str, str, Kind], list[RunLine]] = {_place(grid, cell): [] for cell in grid.cells}
    for line in lines:
        if line.cell in grid.cells and line.error is None:
            by_place[_place(grid, line.cell)].append(line)
    return tuple(_played(*place, some) for place, some in by_place.items() if some)


def failing_of(grid: Grid, lines: Sequence[RunLine]) -> tuple[Failing, ...]:
    found = []
    for line in lines:
        if line.verdict == "violation" and line.cell in grid.cells:
            lock, cluster, kind = _place(grid, line.cell)
            own = grid.cells[line.cell][1].seed
            if kind != "control":
                found.append(Failing(lock, cluster, line.seed if own is None else own))
    return tuple(dict.fromkeys(found))


def _place(grid: Grid, cell: str) -> tuple[str, str, Kind]:
    at = grid.at(cell)
    return at["lock"], at["cluster"], msgspec.convert(at["kind"], Kind)


def _played(lock: str, cluster: str, kind: Kind, lines: Sequence[RunLine]) -> LockNight:
    lines = [line for line in lines if line.verdict in ("valid", "violation")]
    figures = [line.figures for line in lines if line.figures is not None]
    first_ms = [min(times) for each in figures if (times := [b.at_ms for b in each.blamed if b.at_ms is not None])]
    rates = [each.sections / each.load_s for each in figures if each.load_s > 0]
    return LockNight(
        lock=lock,
        cluster=cluster,
        kind=kind,
        runs=len(lines),
        violations=sum(line.verdict == "violation" for line in lines),
        blamed=sum(bool(each.blamed) for each in figures),
        sections_per_s=fmean(rates) if rates else None,
        detected_ms=median(first_ms) if first_ms else None,
    )


def changes(nights: Sequence[Night]) -> list[str]:
    """What is new, a sentence each: of the last night, against the last one before it in which the lock was played."""
    if len(nights) < 2:
        return []
    tonight = nights[-1]
    said = [text for played in tonight.played if (text := _change(played, before(nights, played)))]
    if tonight.revision != nights[-2].revision:
        said.append(f"fencepost itself has changed, from {nights[-2].revision or '?'} to {tonight.revision or '?'}.")
    return said


def before(nights: Sequence[Night], played: LockNight) -> LockNight | None:
    """The same lock on the same cluster in the last night before that has it."""
    for night in reversed(nights[:-1]):
        for other in night.played:
            if (other.lock, other.cluster) == (played.lock, played.cluster):
                return other
    return None


def _change(now: LockNight, then: LockNight | None) -> str:
    where = f"{now.lock} on {now.cluster}"
    if then is None:
        return f"{where} was never played before."
    if now.violations and not then.violations:
        return f"{where} has a violation, and had none."
    if then.violations and not now.violations:
        return f"{where} has no violation, and had one."
    return ""

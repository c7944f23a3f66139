"""`fencepost list --findings`: what several runs found together, a line for each kind: how often, and how soon."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import msgspec
from rich import box
from rich.console import Group
from rich.table import Table

from fencepost.text import MISSING, plural, printable
from harness.report.listing import RunListed
from harness.store.run_folder import RunFolder
from harness.verdict import Blame, Finding

_IS_JUDGED: Final = frozenset({"valid", "violation", "unknown"})
_BLAMES: Final[tuple[Blame, ...]] = ("lock", "client", "undecided", "resource", "harness")


class _ListedFindings(msgspec.Struct, frozen=True):
    """As much of `verdict.json` as is needed here."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class FoundInRuns:
    """One kind of finding with one blame. `runs`: how many have it; `count`: how many there are in all of them;
    `first_ms`: of each run that tells it, when the first one happened; `locks`: the locks under test in these runs."""

    kind: str
    blame: Blame
    runs: int
    count: int
    first_ms: tuple[float, ...]
    locks: tuple[str, ...]


def found_in(runs: Sequence[RunListed]) -> tuple[int, tuple[FoundInRuns, ...]]:
    """How many of these runs have a verdict that counts, and what was found in them: first what the lock is to blame
    for, and of this what most runs have."""
    judged = [run for run in runs if run.verdict in _IS_JUDGED]
    found: dict[tuple[Blame, str], list[tuple[str, Finding]]] = {}
    for run in judged:
        folder = RunFolder(run.path)
        lock, verdict = folder.read_config().lock_name, folder.read_verdict(_ListedFindings)
        for finding in verdict.findings if verdict else ():
            found.setdefault((finding.blame, finding.kind), []).append((lock, finding))
    rows = [
        FoundInRuns(
            kind=kind,
            blame=blame,
            runs=len(each),
            count=sum(finding.count for _, finding in each),
            first_ms=tuple(sorted(finding.at_ms for _, finding in each if finding.at_ms is not None)),
            locks=tuple(dict.fromkeys(lock for lock, _ in each)),
        )
        for (blame, kind), each in found.items()
    ]
    return len(judged), tuple(sorted(rows, key=lambda row: (_BLAMES.index(row.blame), -row.runs, row.kind)))


def render_findings(runs: Sequence[RunListed]) -> Group | str:
    """The table, and whose findings they are if the runs are of several locks; a sentence if there is nothing."""
    judged, rows = found_in(runs)
    if not rows:
        return f"nothing was found in {plural(judged, 'run')}"
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("finding", "to blame"):
        table.add_column(column, no_wrap=True)
    for column in ("runs", "in all", "first after", "soonest"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            printable(row.kind),
            row.blame,
            f"{row.runs} of {judged}",
            f"{row.count:,}",
            *(_seconds(row.first_ms, pick) for pick in (median, min)),
        )
    table.caption = (
        "first after: from the start of the load to the first one, the median of the runs; soonest: the shortest"
    )
    table.caption_justify = "left"
    return Group(table, *_of_locks(rows))


def _of_locks(rows: Sequence[FoundInRuns]) -> Iterator[Table]:
    """A table of its own, because names are long; nothing for a single lock."""
    if len({lock for row in rows for lock in row.locks}) < 2:
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("finding", "to blame"):
        table.add_column(column, no_wrap=True)
    table.add_column("found in runs of", overflow="fold")
    for row in rows:
        table.add_row(printable(row.kind), row.blame, ", ".join(map(printable, row.locks)))
    yield table


def _seconds(times_ms: Sequence[float], pick: Callable[[Sequence[float]], float]) -> str:
    return f"{pick(times_ms) / 1e3:.1f} s" if times_ms else MISSING

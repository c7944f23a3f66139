"""Compare two runs: which settings are the same, which differ, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fencepost.errors import UsageError
from fencepost.text import printable
from harness.figures import Cell
from harness.report.html import render
from harness.serve.index import JUDGED, RunSummary, summary_of
from harness.serve.pages import address
from harness.store.run_folder import RunFolder
from harness.verdict import Finding

Rows = Sequence[tuple[str, str, str]]
"""A name, and what each of the two runs has."""


class _Judged(msgspec.Struct):
    findings: tuple[Finding, ...] = ()
    listed: tuple[Cell, ...] = ()


@dataclass(frozen=True, slots=True)
class _Side:
    """`asked`: its configuration; empty if that cannot be read. `figures`: what `fencepost list` shows of it,
    `legends` what their names do not say, and `findings` each text and who is to blame."""

    summary: RunSummary
    asked: Mapping[str, str]
    figures: Mapping[str, str]
    legends: Sequence[str]
    findings: Sequence[tuple[str, str]]


def two_runs_page(root: str, first: Path, second: Path) -> str:
    """`root`: what every address begins with."""
    sides = [_side(first), _side(second)]
    asked = _rows(sides[0].asked, sides[1].asked)
    return render(
        "two_runs.html.j2",
        root=root,
        sides=[(side.summary, address(root, side.summary.name), side.findings) for side in sides],
        different=[row for row in asked if row[1] != row[2]],
        alike=[row for row in asked if row[1] == row[2]],
        figures=_rows(sides[0].figures, sides[1].figures),
        legends=[*dict.fromkeys((*sides[0].legends, *sides[1].legends))],
    )


def _side(path: Path) -> _Side:
    summary, folder = summary_of(path), RunFolder(path)
    try:
        asked = {name: _plain(value) for name, value in msgspec.to_builtins(folder.read_config()).items()}
        judged = (folder.read_verdict(_Judged) if summary.verdict in JUDGED else None) or _Judged()
    except UsageError:
        return _Side(summary, {}, {}, (), ())
    figures = {cell.column: cell.text for cell in judged.listed}
    legends = [cell.legend for cell in judged.listed if cell.legend]
    return _Side(
        summary, asked, figures, legends, [(printable(finding.text), finding.blame) for finding in judged.findings]
    )


def _rows(first: Mapping[str, str], second: Mapping[str, str]) -> Rows:
    return [(name, first.get(name, ""), second.get(name, "")) for name in dict.fromkeys((*first, *second))]


def _plain(value: object) -> str:
    return printable(value if isinstance(value, str) else msgspec.json.encode(value).decode())

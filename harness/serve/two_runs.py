"""Compare two runs: which settings are the same, which differ, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.errors import UsageError
from fencepost.options import Declared, declared
from fencepost.text import MISSING, count, printable
from harness.checkers.judge import recorded_verdict
from harness.config import RunConfig
from harness.report.checker_output import tiles
from harness.report.html import render
from harness.report.wording import promise_outcomes
from harness.serve.index import JUDGED, RunSummary, summary_of
from harness.serve.pages import address
from harness.store.run_folder import RunFolder
from harness.verdict import ordered

Rows = Sequence[tuple[str, str, str]]
"""A name, and what each of the two runs has."""


@dataclass(frozen=True, slots=True)
class _Side:
    """`asked`: its settings, by the names of their options; empty if they cannot be read. `figures`: the tiles of its
    page, `promises` how each came out, `findings` each text and who is to blame, `kinds` how many of each kind."""

    summary: RunSummary
    asked: Mapping[str, str] = field(default_factory=dict)
    promises: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[tuple[str, str]] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)


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
        promises=_rows(sides[0].promises, sides[1].promises),
        figures=_rows(sides[0].figures, sides[1].figures),
        kinds=_rows(sides[0].kinds, sides[1].kinds, "0"),
    )


def _side(path: Path) -> _Side:
    summary, folder = summary_of(path), RunFolder(path)
    try:
        asked = settings_in_words(folder.read_config())
        verdict = recorded_verdict(folder) if summary.verdict in JUDGED else None
    except UsageError:
        return _Side(summary)
    if verdict is None:
        return _Side(summary, asked)
    found = ordered(verdict)
    counts = Counter[str]()
    for finding in found:
        counts[f"{printable(finding.kind.replace('-', ' '))} ({finding.blame})"] += finding.count
    return _Side(
        summary,
        asked,
        promises={name: came_out for name, came_out, _ in promise_outcomes(verdict)},
        figures={
            printable(tile.name): f"{tile.value} ({tile.note})" if tile.note else tile.value for tile in tiles(verdict)
        },
        findings=[(printable(finding.text), finding.blame) for finding in found],
        kinds={name: count(number) for name, number in counts.items()},
    )


def _rows(first: Mapping[str, str], second: Mapping[str, str], missing: str = "") -> Rows:
    return [(name, first.get(name, missing), second.get(name, missing)) for name in dict.fromkeys((*first, *second))]


def settings_in_words(config: RunConfig) -> Mapping[str, str]:
    """Each setting by the name of its option, as the command line takes it."""
    return {
        each.flag.removeprefix("--"): printable(_plain(each, getattr(config, each.field)))
        for each in declared(RunConfig)
    }


def _plain(option: Declared, value: Any) -> str:
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if option.repeats:
        return ", ".join(map(option.text, value)) or "none"
    return option.text(value)

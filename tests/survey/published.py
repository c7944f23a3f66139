"""What is asked of a published finding: does its run still show it, and is each figure of its text one of its data?"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cluster.lifetime import temporary_folder
from harness.campaign.grid import Grid
from harness.checkers.judge import judge_folder
from harness.store.archive import unpack
from harness.studies.findings.evidence import with_block
from harness.studies.findings.study import RUNS, Replayed
from harness.studies.findings.table import TIGHT
from harness.survey.findings import Finding
from harness.survey.promises import surveyed_as

WHY_AWAITED: Final = "The run of this finding is awaited: the one that was archived has no record of the links."
"""The first line of such a text."""
_NOT_MEASURED: Final = re.compile(
    r"```.*?```"  # a block of code
    r"|^ {4}.*?$"  # an indented one
    r"|`[^`]*`"  # code within a line
    r"|\(\d+(?:-\d+)?(?:,[^()]*)?\)"  # lines of a source file
    r"|#\d+"  # an issue
    r"|\b(?:19|20)\d\d\b"  # a year
    r"|\bv\d+(?:\.\d+)*\b|\b\d+\.\d+\.\d+(?:-[\w.]+)?\b",  # a version
    re.DOTALL | re.MULTILINE,
)
_FIGURE: Final = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
_WORD: Final = r"\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty)\b"
_IN_WORDS: Final = re.compile(rf"{_WORD}(?: to {_WORD})? (?:seconds|milliseconds|runs)|{_WORD} of \d+")
"""Figures that are measured and spelled out."""


def disagreements(finding: Finding, folder: Path) -> Iterator[str]:
    """Judge the run of a finding again: what it shows otherwise than the finding says. A finding whose run is awaited
    must say so."""
    if finding.about.is_awaited:
        if finding.body.strip().partition("\n")[0] != WHY_AWAITED:
            yield "the first line below its title does not say that its run is awaited"
        return
    parcel = (folder / finding.about.run).read_bytes()
    with tarfile.open(folder / finding.about.run) as tar:
        name = tar.getnames()[0].partition("/")[0]
    with TemporaryDirectory(prefix="fencepost-finding-", dir=temporary_folder()) as scratch:
        _, verdict = judge_folder(unpack(parcel, name, Path(scratch)))
    if verdict.verdict != finding.about.verdict:
        yield f"the verdict is {verdict.verdict}, not {finding.about.verdict}"
    blamed = {each.kind for each in verdict.findings if each.blame == "lock"}
    if finding.about.finding not in blamed:
        yield f"the lock is blamed for {', '.join(sorted(blamed)) or 'nothing'}, not for {finding.about.finding}"


def strange_figures(text: str, fields: Iterable[str]) -> list[str]:
    """The figures of a text that are none of these fields. Code, lines of sources, issues and versions are no figures.
    `fields`: texts that hold the data."""
    known = {number for field in fields for number in _FIGURE.findall(field)}
    told = _NOT_MEASURED.sub("", with_block(text, ""))
    return [number for number in _FIGURE.findall(told) if number not in known] + _IN_WORDS.findall(told)


def unshown(finding: Finding, found: Sequence[Replayed], grid: Grid) -> list[tuple[str, str]]:
    """The subjects and promises for which the replays with tight settings do not show, in each run, what breaks that
    promise of that subject."""
    pairs = [(name, promise) for name in finding.about.subjects for promise in finding.about.promises]
    mine = [one for one in found if (one.finding, one.settings) == (finding.name, TIGHT)]
    shown = {(one.lock, promise) for one in mine for promise in _broken_in_each(one, grid)}
    return [pair for pair in pairs if finding.about.explains(*pair) and pair not in shown]


def _broken_in_each(one: Replayed, grid: Grid) -> set[str]:
    """The promises that every run of this replay breaks."""
    nemesis = grid.cells[one.cell][1].options["nemesis"]
    outage = "minority" if nemesis.startswith("crash:targets=one,") else "hung" if "one-node" in nemesis else "free"
    runs = [{blamed.kind for blamed in line.figures.blamed} for line in one.lines if line.figures]
    said = [{outage if (of := surveyed_as(kind)) == "way in" else of or "" for kind in kinds} for kinds in runs]
    return set.intersection(*said) if len(said) >= RUNS else set()

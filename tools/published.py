"""Draw every published page again from its record, or say which ones differ from what is drawn now.

    python tools/published.py            rewrites them
    python tools/published.py --check    changes nothing; exit code 1, and a line for each file that differs

A record is a folder below `results/` with a `campaign.json`. No run is made, and nothing needs to be installed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from math import isclose
from pathlib import Path
from typing import Final

import msgspec
from checkout import ROOT

# isort: split
from fencepost.files import write_whole
from harness.campaign.aggregate import summaries
from harness.campaign.document import StudyDocument
from harness.campaign.folder import CampaignFolder, read_campaign, read_run_lines
from harness.campaign.forms import forms_of
from harness.campaign.grid import GRIDS, load_grid
from harness.campaign.page import document_of as report_of
from harness.campaign.provenance import date_of
from harness.campaign.study import Played
from harness.claims.grid import chosen
from harness.claims.page import document_of as claims_of
from harness.claims.session import settle_all as settle_claims
from harness.mutants.page import document_of as mutants_of
from harness.mutants.table import rows_of
from harness.options import parse_run
from harness.studies.findings.evidence import block, with_block
from harness.studies.findings.study import document_of as replays_of
from harness.studies.findings.study import replayed
from harness.studies.systems.page import document_of as systems_of
from harness.studies.systems.settle import settle as settle_systems
from harness.survey.findings import FOLDER, read_finding, read_findings
from harness.survey.page import document_of as survey_of
from harness.survey.session import REPLAYS, replayed_kinds
from harness.survey.session import settle_all as settle_survey
from harness.survey.subjects import chosen as chosen_subjects
from harness.survey.wording import unmaintained

RESULTS: Final = ROOT / "results"
_LONG_NUMBER: Final = re.compile(rb"-?\d+\.\d{9,}(?:e-?\d+)?")


def _survey(played: Played) -> StudyDocument:
    findings = read_findings(played.path / FOLDER)
    return survey_of(findings, played, settle_survey(findings, replayed_kinds(played.path), played))


def _claims(played: Played) -> StudyDocument:
    repeats = min(part.seeds for part in played.campaign.grid.parts)
    return claims_of(played, settle_claims(chosen(()), repeats, played.lines))


def _mutants(played: Played) -> StudyDocument:
    return mutants_of(played, rows_of(played.lines))


def _replays(played: Played) -> StudyDocument:
    return replays_of(played, replayed(played.campaign.grid, played.lines))


def _systems(played: Played) -> StudyDocument:
    return systems_of(played, settle_systems(played))


def _report(played: Played) -> StudyDocument:
    return report_of(played, summaries(played.campaign.grid, played.lines))


_DRAWN_BY: Final[Mapping[str, Callable[[Played], StudyDocument]]] = {
    "survey": _survey,
    "claims": _claims,
    "mutants": _mutants,
    "findings": _replays,
    "systems": _systems,
}
"""By the name of the record's grid; all others are reports of `fencepost compare`."""


def records(results: Path = RESULTS) -> list[Path]:
    """The folders of all published records."""
    return sorted(file.parent for file in results.rglob("campaign.json") if "quick" not in file.parts)


def drawn(record: Path) -> Mapping[str, bytes]:
    """Every form of the page of a record, by file name, in today's words."""
    campaign = read_campaign(record)
    timelines = CampaignFolder(record, campaign, -1).all_timelines()
    grid = campaign.grid
    shipped = grid.name.replace("-", "_")
    if (GRIDS / f"{shipped}.py").exists():
        grid = grid.worded_as(load_grid(shipped, quick=False))
        campaign = msgspec.structs.replace(campaign, grid=grid)
    cells = [name for name, (_, cell) in grid.cells.items() if not cell.script]
    configs = {name: parse_run(grid.words(name, grid.first_seed)) for name in cells}
    played = Played(record, campaign, read_run_lines(record), configs, timelines, {}, is_complete=True)
    forms = forms_of(_DRAWN_BY.get(grid.name, _report)(played))
    return {name: form.encode() if isinstance(form, str) else form for name, form in forms.items()}


def texts(results: Path = RESULTS) -> Iterator[tuple[Path, str]]:
    """The text of each finding, with what the replays measured."""
    record = results / "survey" / REPLAYS
    campaign = read_campaign(record)
    lines = read_run_lines(record)
    found, asked = replayed(campaign.grid, lines), max(date_of(line.folder) for line in lines)
    for file in sorted((results / "survey" / FOLDER).glob("*.md")):
        own = [one for one in found if one.finding == file.stem]
        old = unmaintained(chosen_subjects(read_finding(file).about.subjects, quick=False), asked)
        yield file, with_block(file.read_text(), block(own, campaign, old))


def differing(record: Path, made: Mapping[str, bytes]) -> Iterator[str]:
    """The files of a record that are not as they are drawn now."""
    for name, content in made.items():
        file = record / name
        if not file.exists() or not is_same(file.read_bytes(), content):
            yield name


def is_same(kept: bytes, made: bytes) -> bool:
    """Whether they are equal but for the last digits of long decimal numbers, which differ between processors."""
    if kept == made:
        return True
    if _LONG_NUMBER.sub(b"#", kept) != _LONG_NUMBER.sub(b"#", made):
        return False
    pairs = zip(_LONG_NUMBER.findall(kept), _LONG_NUMBER.findall(made), strict=True)
    return all(isclose(float(a), float(b), rel_tol=1e-9) for a, b in pairs)


def main() -> int:
    if sys.argv[1:] == ["--check"]:
        found = [str(file.relative_to(ROOT)) for file, text in texts() if file.read_text() != text]
        found += [
            f"{record.relative_to(ROOT)}/{name}" for record in records() for name in differing(record, drawn(record))
        ]
        print("\n".join(found) or "every published page is as its record says")
        return 1 if found else 0
    for file, text in texts():
        write_whole(file, text)
    for record in records():
        made = drawn(record)
        for name in differing(record, made):
            write_whole(record / name, made[name])
        print(record.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())

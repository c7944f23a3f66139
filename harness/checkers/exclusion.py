"""Were two clients inside at the same time, and who is to blame? The rule is in `harness.history.overlaps`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from fencepost.text import bound, count, milliseconds, of_sections, plural
from harness.explain.kinds import Example, FindingKind
from harness.explain.meeting import met
from harness.figures import Cell, CheckerFigures, Row, Tile, Tone
from harness.history.groups import columns_of
from harness.history.overlaps import BLAMES, OverlapBlame, count_overlaps, overlapping_pairs
from harness.history.parts_that_fail import AT_FAULT, IN_WORDS, PARTS, Part
from harness.history.recorded import Recorded
from harness.history.responsible_component import failing_part
from harness.verdict import Answer, Finding

_WORDS: Final[dict[OverlapBlame, str]] = {
    "lock": "both clients still held valid leases",
    "client": "one client had outlived its lease",
    "undecided": "the record allows both readings",
}
_OPEN_ENDED_WORDS: Final[dict[OverlapBlame, str]] = {
    **_WORDS,
    "lock": "the first client held it all along, as the lock said later or its entry on the nodes shows",
    "undecided": "no time was promised, and the session of the first client may have ended",
}

MOST_TOLD_APART: Final = 1_000
MOST_LISTED: Final = 100_000
"""Overlaps are counted exactly, however many there are; the nodes are asked about the first of them only."""


class Figures(CheckerFigures, frozen=True):
    """`overlaps`: pairs of sections by blame; `overlapping_pairs`: all of them. `longest_overlap_ms`: 0 without any.
    `lock_by_part`: of the first `MOST_TOLD_APART` pairs blamed on the lock, which part of it failed; None without
    any."""

    sections: int
    overlaps: dict[OverlapBlame, int]
    overlapping_pairs: int
    longest_overlap_ms: float
    lock_by_part: dict[Part, int] | None = None

    def rows(self) -> Iterator[Row]:
        """`lock 0 of 1,234 sections (95 % upper bound for this run 0.30 %) · client 3 · undecided 0; longest 12 ms`."""
        longest = f"; longest {milliseconds(self.longest_overlap_ms)}" if self.longest_overlap_ms else ""
        yield Row("overlaps", blames_in_words(self.overlaps, self.sections) + longest, order=20)
        if self.lock_by_part:
            yield Row("failed", _parts_in_words(self.lock_by_part), order=20)

    def totals(self) -> Mapping[str, int]:
        return {f"overlaps, {IN_WORDS[part]}": number for part, number in (self.lock_by_part or {}).items() if number}

    def tiles(self) -> Iterator[Tile]:
        yield from blame_tiles("Overlaps", self.overlaps, self.sections)
        if self.longest_overlap_ms:
            yield Tile("Longest overlap", milliseconds(self.longest_overlap_ms), "two clients inside at once", order=20)

    def cells(self) -> Iterator[Cell]:
        yield Cell("sections", count(self.sections), order=10)
        yield Cell(
            "overlaps",
            "/".join(count(self.overlaps[blame]) for blame in BLAMES),
            legend="overlaps: blamed on the lock / on a client that outlived its lease / undecided",
            order=20,
        )

    @property
    def have_blame(self) -> bool:
        """Whether there is anything to blame."""
        return self.overlapping_pairs > 0

    @property
    def blame_line(self) -> str:
        """`Overlaps: 0 blamed on the lock, 3 on a client that outlived its lease, 1 undecided.`"""
        return blame_line("Overlaps", self.overlaps)


Blamed = Mapping[OverlapBlame, int]
"""How many of them are blamed on whom."""


def blames_in_words(counts: Blamed, sections: int) -> str:
    """`lock 0 of 1,234 sections (95 % upper bound for this run 0.30 %) · client 3 · undecided 0`"""
    lock, client, undecided = (counts[blame] for blame in BLAMES)
    return f"lock {of_sections(lock, sections)} · client {count(client)} · undecided {count(undecided)}"


def blame_line(what: str, counts: Blamed) -> str:
    lock, client, undecided = (count(counts[blame]) for blame in BLAMES)
    return f"{what}: {lock} blamed on the lock, {client} on a client that outlived its lease, {undecided} undecided."


def blame_tiles(what: str, counts: Blamed, sections: int) -> Iterator[Tile]:
    for blame in BLAMES:
        tone: Tone = "bad" if blame == "lock" else "warn"
        number = counts[blame]
        note = f"of {plural(sections, 'section')}" if number else bound(sections) if sections else ""
        whose = blame if blame == "undecided" else f"{blame} to blame"
        yield Tile(f"{what}, {whose}", count(number), note, tone if number else "", order=20)


def check(run: Recorded) -> Answer:
    kinds = count_overlaps(run.sections, run.sections_by_key)
    by_part = _by_part(run) if "lock" in kinds else None
    words = _OPEN_ENDED_WORDS if run.is_open_ended else _WORDS
    findings = []
    for blame, kind in kinds.items():
        noun = "pair of sections" if kind.count == 1 else "pairs of sections"
        text = f"{kind.count:,} {noun} overlapped, by up to {milliseconds(kind.longest_ns / 1e6)}; {words[blame]}"
        if blame == "lock" and by_part is not None:
            text += f" ({_parts_in_words(by_part)})"
        pairs = dict.fromkeys([*kind.first, kind.longest])
        findings.append(
            OVERLAP.found(
                blame=blame,
                text=text,
                count=kind.count,
                examples=tuple(example_of(run, blame, *pair) for pair in pairs),
            )
        )
    figures = Figures(
        sections=len(run.sections),
        overlaps={blame: kinds[blame].count if blame in kinds else 0 for blame in BLAMES},
        overlapping_pairs=sum(kind.count for kind in kinds.values()),
        longest_overlap_ms=max((kind.longest_ns for kind in kinds.values()), default=0) / 1e6,
        lock_by_part=by_part,
    )
    return Answer(figures, tuple(findings))


def _by_part(run: Recorded) -> dict[Part, int] | None:
    """Of the first pairs blamed on the lock, how often each part of it failed; None where the record shows none."""
    if run.backing is None or not run.backing.owners.are_shown:
        return None
    pairs = overlapping_pairs(run.sections, MOST_LISTED)
    until = np.minimum(*columns_of(run.sections, "end_ns", "deadline_min_ns"))
    start = run.sections["start_ns"].to_numpy(np.int64)
    counts = Counter(
        failing_part(run.backing, (a, b), int(start[b]), int(min(until[a], until[b])))
        for place in pairs.blamed("lock")[:MOST_TOLD_APART].tolist()
        for a, b in [(int(pairs.earlier[place]), int(pairs.later[place]))]
    )
    return {part: counts[part] for part in PARTS}


def _parts_in_words(by_part: Mapping[Part, int]) -> str:
    """`library at fault: 1, server lost the key: 3`."""
    return ", ".join(f"{AT_FAULT[part]}: {number:,}" for part, number in by_part.items() if number)


_MEASURED_TO: Final[dict[OverlapBlame, str | None]] = {
    "lock": "deadline_min_ns",
    "client": None,
    "undecided": "deadline_max_ns",
}
"""An overlap lasts no longer than the leases, unless a client outlived its own."""


def example_of(run: Recorded, blame: OverlapBlame, earlier: int, later: int) -> dict[str, object]:
    """The pair of these positions in the sections' table, as an example of a finding."""
    a, b = run.sections.iloc[earlier], run.sections.iloc[later]
    ends = [name for name in ("end_ns", _MEASURED_TO[blame]) if name is not None]
    until_ns = min(side[name] for side in (a, b) for name in ends)
    result: dict[str, object] = {
        "key": str(a.key),
        "at_ms": run.at_ms(b.start_ns),
        "overlap_ms": float(until_ns - b.start_ns) / 1e6,
        "earlier": side_of(run, a),
        "later": side_of(run, b),
    }
    if blame != "lock":
        deadline = "deadline_max_ns" if blame == "client" else "deadline_min_ns"
        late = [
            who
            for who, side in (("earlier", a), ("later", b))
            if side[deadline] < b.start_ns or (blame == "client" and has_lapsed(side, b.start_ns))
        ]
        result["outlived" if blame == "client" else "may_have_outlived"] = late
    return result


def side_of(run: Recorded, section: pd.Series) -> dict[str, object]:
    """A row of the sections' table, as examples of findings show it."""
    return {
        "client": str(section.client),
        "life": int(section.life),
        "section": int(section.section),
        "start_ms": run.at_ms(section.start_ns),
        "end_ms": run.at_ms(section.end_ns),
        "ended": str(section.ended),
        "deadline_min_ms": run.at_ms(section.deadline_min_ns),
        "deadline_max_ms": run.at_ms(section.deadline_max_ns),
    }


def has_lapsed(section: pd.Series, at_ns: int) -> bool:
    """Whether its client certainly had no lease then, although it got an extension later."""
    return bool(section.get("lapsed_from_ns", 0) < at_ns < section.get("lapsed_to_ns", 0))


def _some(run: Recorded, finding: Finding, limit: int) -> Sequence[Example]:
    """The first ones, and the longest."""
    first, longest = finding.examples[:limit], finding.examples[-1:]
    if len(finding.examples) < min(limit + 1, finding.count):
        pairs = overlapping_pairs(run.sections)
        blame = next(blame for blame in BLAMES if blame == finding.blame)
        places = pairs.blamed(blame)[:limit].tolist()
        first = tuple(example_of(run, blame, int(pairs.earlier[place]), int(pairs.later[place])) for place in places)
    return [*first, *(example for example in longest if example not in first)]


OVERLAP: Final = FindingKind("overlap", "exclusion", met, _some, surveyed="exclusive")

"""From the runs on record to an answer: is a promise kept, broken, or is that not known?

Evidence that is missing is never a kept promise: a run that was aborted, whose verdict is unknown, or in which the
promise was not put to the test, counts for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from fencepost.text import listed
from harness.campaign import wording
from harness.campaign.folder import RunLine
from harness.campaign.grid import Grid
from harness.campaign.measure import Blamed
from harness.campaign.statistics import Rate, rate
from harness.survey.findings import Finding
from harness.survey.grid import FAULT_NAMED, Fault
from harness.survey.promises import ENOUGH, PROMISES, Evidence, Promise, is_the_servers, surveyed_as
from harness.survey.subjects import Library, Subject, library_of, tells_deadline

Answer = Literal["kept", "broken", "unknown", "inapplicable"]
SIGNS: Final[Mapping[Answer, str]] = {"kept": "✓", "broken": "✗", "unknown": "?", "inapplicable": "—"}
MOST_RUNS: Final = 5
"""So many of the runs that broke a promise are named where people read; survey.json has them all."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A run that breaks a promise, and the findings that do."""

    line: RunLine
    fault: Fault
    findings: tuple[Blamed, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """A promise of a subject. `why`: in a few words; `brief`: in three or four, for a table, of what is not known.
    `rate`: of the runs in which it was tested, the share that broke it."""

    promise: Promise
    answer: Answer
    why: str
    rate: Rate
    broken: tuple[Broken, ...] = ()
    brief: str = ""

    @property
    def by_fault(self) -> dict[str, int]:
        """How many runs broke it under each fault, the most first."""
        return dict(Counter(each.fault.name for each in self.broken).most_common())

    @property
    def kinds(self) -> dict[str, int]:
        """In how many runs each kind of finding broke it, the most first."""
        return _runs_by_kind(each.findings for each in self.broken)

    def always_has(self, kind: str) -> bool:
        """Whether the lock was blamed for this in every run that broke the promise, and so that may come of it."""
        blamed = [each.line.figures.blamed if each.line.figures else () for each in self.broken]
        return all(any(one.kind == kind for one in of_run) for of_run in blamed)


@dataclass(frozen=True, slots=True)
class Row:
    """A subject with its promises. `library`: what its lock's manifest says. `runs`: finished; `broke_off`: of those
    that are to be made again. `others`: in how many runs the lock was blamed for something that belongs to no promise,
    by kind. `clocks`: in how many runs two were inside because a server's clock was wrong, of those with such faults.
    `cannot`: why no run of it can be made here."""

    subject: Subject
    library: Library
    settled: tuple[Settled, ...]
    runs: int
    planned: int
    broke_off: int
    others: Mapping[str, int]
    clocks: Rate
    cannot: str = ""

    @property
    def is_blamed(self) -> bool:
        return any(each.answer == "broken" for each in self.settled)

    @property
    def is_as_it_must_be(self) -> bool | None:
        """Of a control; None of a library, without runs, and of a broken lock that had too few to show it."""
        if self.subject.role == "library" or not self.runs:
            return None
        if self.subject.role == "broken":
            return self.is_blamed or (False if self.runs >= ENOUGH else None)
        return all(each.promise.name in self.subject.known_broken for each in self.settled if each.answer == "broken")


def rows_of(
    subjects: Sequence[Subject], grid: Grid, lines: Sequence[RunLine], cannot: Mapping[str, str] | None = None
) -> list[Row]:
    """A row for each subject. `cannot`: why nothing of it can be played here, by name."""
    subject_of = {name: cell.at["subject"] for name, (_, cell) in grid.cells.items()}
    own = {each.name: [line for line in lines if subject_of.get(line.cell) == each.name] for each in subjects}
    return [_row(each, grid, own[each.name], (cannot or {}).get(each.name, "")) for each in subjects]


def beside(row: Row, findings: Sequence[Finding], replayed: Mapping[str, str] | None = None) -> Row:
    """The row beside what was published. A promise that a finding shows broken is not kept, whether or not the survey's
    own runs met that; nor is one that a replay of a finding broke (`replayed`: by each kind of finding for which the
    lock was blamed there, with which settings). What no finding explains is no accusation: the judge's word alone does
    not say where in the library the mistake is."""
    by_replay = replayed or {}
    tells = tells_deadline(row.subject.lock)

    def settled(each: Settled) -> Settled:
        about = [f for f in findings if f.about.explains(row.subject.name, each.promise.name)]
        titles = [f.title for f in about]
        if each.answer == "kept" and titles:
            why = f"{each.why}, but a finding shows it broken: {'; '.join(titles)}"
            return replace(each, answer="unknown", why=why, brief="see its finding")
        if each.answer == "kept" and (kinds := sorted(k for k in by_replay if each.promise.would_break(k, tells))):
            shown = listed([f"{kind} ({by_replay[kind]})" for kind in kinds])
            why = f"{each.why}, but a replay of a finding shows it broken: {shown}"
            return replace(each, answer="unknown", why=why, brief="a replay broke it")
        if each.answer == "broken" and not explaining(row, each, findings) and row.subject.role == "library":
            brief = f"{each.rate.events} of {each.rate.trials}, unexplained"
            return replace(each, answer="unknown", why=f"{each.why}; the cause was not found yet", brief=brief)
        return each

    return replace(row, settled=tuple(map(settled, row.settled)))


def explaining(row: Row, settled: Settled, findings: Sequence[Finding]) -> list[Finding]:
    """Those that say why the runs of this row broke the promise: each is about it, and about a kind of finding that
    broke it, or that every such run has."""
    return [
        each
        for each in findings
        if each.about.explains(row.subject.name, settled.promise.name)
        and (each.about.finding in settled.kinds or settled.always_has(each.about.finding))
    ]


def libraries_first(rows: Sequence[Row]) -> list[Row]:
    """The rows as a table shows them, with the controls at its end."""
    return sorted(rows, key=lambda row: row.subject.role != "library")


def asked(rows: Sequence[Row]) -> list[Promise]:
    """The promises that can be asked of any of these: a lock on one server has no minority of them to lose."""
    return [each for each in PROMISES if any(each.cannot(row.subject, ()) is None for row in rows)]


def _runs_by_kind(findings: Iterable[Sequence[Blamed]]) -> dict[str, int]:
    """In how many runs each kind of finding is, the most first. `findings`: those of each run."""
    return dict(Counter(kind for of_run in findings for kind in dict.fromkeys(f.kind for f in of_run)).most_common())


def _row(subject: Subject, grid: Grid, lines: Sequence[RunLine], cannot: str) -> Row:
    evidence = list(_evidence(grid, lines))
    others = _runs_by_kind(each.figures.blamed for each in evidence)
    clocks = [each for each in evidence if each.fault.sets_clocks and each.is_fault_in_force]
    return Row(
        subject=subject,
        library=library_of(subject),
        settled=tuple(settle(promise, subject, evidence, cannot) for promise in PROMISES),
        runs=sum(line.error is None for line in lines),
        planned=sum(part.seeds for part, cell in grid.cells.values() if cell.at["subject"] == subject.name),
        broke_off=sum(line.error is not None for line in lines),
        others={kind: runs for kind, runs in others.items() if surveyed_as(kind) is None},
        clocks=rate(sum(map(is_the_servers, clocks)), len(clocks)),
        cannot=cannot,
    )


def _evidence(grid: Grid, lines: Iterable[RunLine]) -> Iterator[Evidence]:
    """The runs that were judged with their stakes; older records have none, and show nothing."""
    for line in lines:
        if line.error is None and line.figures is not None and line.figures.stakes is not None:
            at = grid.at(line.cell)
            tells = tells_deadline(grid.cells[line.cell][1].options["lock"])
            yield Evidence(line, FAULT_NAMED[at["fault"]], line.figures, line.figures.stakes, tells)


def settle(promise: Promise, subject: Subject, evidence: Sequence[Evidence], cannot: str = "") -> Settled:
    """Apply the rule of the promise to the runs of a subject."""
    found = [(each, tuple(promise.broken_by(each))) for each in evidence]
    broken = tuple(Broken(each.line, each.fault, findings) for each, findings in found if findings)
    at_stake = [each for each, findings in found if findings or (_counts(each) and promise.at_stake(each))]
    seen = rate(len(broken), len(at_stake))
    if broken:
        return Settled(promise, "broken", f"broken in {wording.counted(seen)}", seen, broken)
    doubts = [doubt for each in at_stake if (doubt := promise.doubt(each))]
    if reason := promise.cannot(subject, evidence):
        return Settled(promise, "inapplicable", reason, seen)
    if unknown := _why_unknown(evidence, len(at_stake), doubts, cannot):
        why, brief = unknown
        return Settled(promise, "unknown", why, seen, brief=brief)
    return Settled(promise, "kept", f"broken in {wording.counted(seen)}", seen)


def _why_unknown(
    judged: Sequence[Evidence], at_stake: int, doubts: Sequence[str], cannot: str
) -> tuple[str, str] | None:
    """In a few words, and in three or four; None if the promise is kept."""
    if not judged:
        return f"not played: {cannot}" if cannot else "not played yet", "not played"
    if doubts:
        return f"not clear in {len(doubts)} of {at_stake}: {doubts[0]}", f"not clear in {len(doubts)} of {at_stake}"
    if not at_stake:
        return "never tested", "never tested"
    if at_stake < ENOUGH:
        return f"tested in {at_stake} of {len(judged)} runs only, never broken", f"{at_stake} of {ENOUGH} runs needed"
    return None


def _counts(evidence: Evidence) -> bool:
    """Wrong clocks do not count: no lock of this kind survives them."""
    return evidence.line.verdict in ("valid", "violation") and not evidence.fault.sets_clocks

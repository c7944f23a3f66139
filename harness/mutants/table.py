"""The table: one row per lock, one column per kind of fault, and in each cell how many runs caught it, and how soon."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

import msgspec
from msgspec.structs import replace

from fencepost.text import MISSING, plural
from harness.campaign.document import DataTable
from harness.campaign.folder import RunLine
from harness.campaign.measure import Blamed
from harness.mutants.explained import NamedCauses, said_of
from harness.mutants.grid import LIMIT_MS, NEMESES
from workloads.mutants import CONTROLS, MUTANTS, NO_FAULT, PLAIN, STANDARD, UNAIMED, Conditions, Mutant


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One lock under one kind of fault. `caught`: the runs with any finding that blames the lock; `named`: those with
    a finding that names the mutant; `times_ms`: from the start of a run to the first such finding. `kinds`: how many
    runs had each kind of finding; `others`: how many had one that does not name it."""

    runs: int
    caught: int
    named: int
    times_ms: tuple[float, ...]
    median_ms: float | None
    kinds: dict[str, int]
    others: dict[str, int] = {}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One lock. `finding`: the kind that names it, None for a correct lock; `also`: others that may name it. `text`:
    the verdict's text about it. `source`: where a real library made the mistake, if that is known. `said`: how the
    finding was explained; None if it never was."""

    name: str
    line: str
    conditions: str
    finding: str | None
    source: str
    fields: dict[str, Field]
    text: str | None
    said: NamedCauses | None = None
    also: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """A correct lock was never blamed; a mutant was named within the limit, in every run under the standard
        faults."""
        if self.finding is None:
            return not any(field.caught for field in self.fields.values())
        field = self.fields.get(STANDARD)
        if field is None or field.median_ms is None:
            return False
        return field.named == field.runs and field.median_ms <= LIMIT_MS

    @property
    def others(self) -> dict[str, int]:
        """The findings that blame the lock and do not name it, and the number of runs with each, the most frequent
        first."""
        total = sum((Counter(field.others) for field in self.fields.values()), Counter[str]())
        return dict(total.most_common())


def rows_of(lines: Sequence[RunLine]) -> list[Row]:
    """The rows recorded so far: mutants in the order of their declaration, then the correct locks."""
    by_cell: dict[str, list[RunLine]] = {}
    for line in lines:
        if line.error is None:
            by_cell.setdefault(line.cell, []).append(line)
    rows = [_row(mutant.name, mutant.conditions, mutant, by_cell) for mutant in MUTANTS.values()]
    rows += [_row(name, conditions, None, by_cell) for name, (_, conditions) in CONTROLS.items()]
    return [row for row in rows if row.fields]


def _row(name: str, conditions: Conditions, mutant: Mutant | None, by_cell: Mapping[str, list[RunLine]]) -> Row:
    played = {nemesis: lines for nemesis in NEMESES if (lines := by_cell.get(f"{name} · {nemesis}"))}
    fields = {nemesis: _field(lines, mutant) for nemesis, lines in played.items()}
    every = [line for lines in played.values() for line in lines]
    moments = [moment for line in every for moment in _moments(_blamed(line), mutant)]
    row = Row(
        name=name, line="nothing is wrong", conditions=conditions.name, finding=None, source="", fields=fields,
        text=min(moments)[1] if moments else None,
    )  # fmt: skip
    if mutant is None:
        return row
    return replace(
        row, line=mutant.line, finding=mutant.finding, source=mutant.source, said=said_of(mutant, every),
        also=tuple(mutant.also),
    )  # fmt: skip


def _field(lines: Sequence[RunLine], mutant: Mutant | None) -> Field:
    blamed = [_blamed(line) for line in lines]
    named = [moments for found in blamed if (moments := _moments(found, mutant))]
    soonest = tuple(moments[0][0] for moments in named)
    return Field(
        runs=len(lines),
        caught=sum(map(bool, blamed)),
        named=len(named),
        times_ms=soonest,
        median_ms=median(soonest) if soonest else None,
        kinds=dict(Counter(item.kind for found in blamed for item in found)),
        others=dict(Counter(item.kind for found in blamed for item in found if not _names(mutant, item))),
    )


def _blamed(line: RunLine) -> Sequence[Blamed]:
    return line.figures.blamed if line.figures else ()


def _moments(found: Sequence[Blamed], mutant: Mutant | None) -> list[tuple[float, str]]:
    """When each matching finding happened, and its text."""
    return sorted((item.at_ms or 0.0, item.text) for item in found if _names(mutant, item))


def _names(mutant: Mutant | None, item: Blamed) -> bool:
    """For a correct lock any finding matches."""
    return mutant is None or mutant.is_named_by(item.kind, item.cause)


def in_words(rows: Sequence[Row]) -> DataTable:
    """`3 of 3, 1.2 s`; `(2 of 3)` if only other findings blame the lock; a dash if nothing was found."""
    columns = [nemesis for nemesis in NEMESES if any(nemesis in row.fields for row in rows)]
    head = ("lock", "wrong line", "settings", *columns)
    body = [(row.name, row.line, row.conditions, *(_words(row, nemesis) for nemesis in columns)) for row in rows]
    mutants = [row for row in rows if row.finding is not None]
    if len(mutants) > 1:
        sums = {"all mutants": mutants, "mutants that show only under faults": _hidden(rows)}
        body += [(name, "", "", *(_of_all(some, kind) for kind in columns)) for name, some in sums.items() if some]
    return DataTable(head, body, "said")


def _of_all(rows: Sequence[Row], nemesis: str) -> str:
    """`41 of 42, 2.3 s`: the rate of a kind of fault, and its median time over all runs."""
    fields = [field for row in rows if (field := row.fields.get(nemesis))]
    runs, named = sum(field.runs for field in fields), sum(field.named for field in fields)
    if (middle_ms := _middle_ms(rows, nemesis)) is None:
        return ""
    return f"{named} of {runs}, {f'{middle_ms / 1e3:.1f} s' if math.isfinite(middle_ms) else MISSING}"


def _middle_ms(rows: Sequence[Row], nemesis: str) -> float | None:
    """The median time over all runs under a kind of fault, None if there are none. A run that did not name its mutant
    counts as longer than any other, so that missing one never makes a median better."""
    fields = [field for row in rows if (field := row.fields.get(nemesis))]
    times = [at for field in fields for at in (*field.times_ms, *[math.inf] * (field.runs - field.named))]
    return median(times) if times else None


def _words(row: Row, nemesis: str) -> str:
    field = row.fields.get(nemesis)
    if field is None:
        return ""
    if row.finding is None:
        return f"BLAMED {field.caught} of {field.runs}" if field.caught else "never blamed"
    if field.named:
        assert field.median_ms is not None
        return f"{field.named} of {field.runs}, {field.median_ms / 1e3:.1f} s"
    return f"({field.caught} of {field.runs})" if field.caught else MISSING


def conclusion(rows: Sequence[Row]) -> str:
    """One sentence: whether every lock was judged correctly."""
    played = [row for row in rows if row.finding is not None and STANDARD in row.fields]
    missed = [row.name for row in played if not row.is_right]
    wronged = [row.name for row in rows if row.finding is None and not row.is_right]
    mutants = sum(row.finding is not None for row in rows)
    said = []
    if missed:
        said.append(f"NOT found within {LIMIT_MS // 1000} s: {', '.join(missed)}.")
    elif played:
        all_played = f"All {len(played)} mutants were" if len(played) > 1 else "The mutant was"
        said.append(f"{all_played} found and named within {LIMIT_MS // 1000} s.")
    if mutants > len(played):
        unplayed = mutants - len(played)
        said.append(f"Not played under the standard faults: {unplayed} of {plural(mutants, 'mutant')}.")
    if wronged:
        said.append(f"A correct lock was BLAMED: {', '.join(wronged)}.")
    elif len(rows) > mutants:
        said.append("No correct lock was blamed.")
    return " ".join(said) or "No run is finished yet."


def comparison(rows: Sequence[Row]) -> str:
    """How much sooner the standard faults find a mutant than the plain nemeses do, and than they would without aim,
    over the mutants that met both; empty if none did. A mutant that showed without any fault says nothing about faults
    and does not count."""
    hidden = _hidden(rows)
    compared = hidden or [row for row in rows if row.finding is not None]
    whose = "Their" if hidden else "The"
    said = [
        _compared(compared, kind, f"{whose} median time", name)
        for kind, name in ((PLAIN, "plain nemeses"), (UNAIMED, "same faults without aim"))
    ]
    if hidden and any(said):
        tried = sum(row.finding is not None and NO_FAULT in row.fields for row in rows)
        said.insert(0, f"{len(hidden)} of {plural(tried, 'mutant')} showed only under faults.")
    return " ".join(filter(None, said))


def _hidden(rows: Sequence[Row]) -> list[Row]:
    """The mutants that were played without any fault and did not show."""
    return [row for row in rows if row.finding and (field := row.fields.get(NO_FAULT)) and not field.named]


def _compared(mutants: Sequence[Row], kind: str, what: str, name: str) -> str:
    both = [row for row in mutants if {STANDARD, kind} <= row.fields.keys()]
    soon_ms, late_ms = _middle_ms(both, STANDARD), _middle_ms(both, kind)
    if soon_ms is None or late_ms is None or not math.isfinite(soon_ms):
        return ""
    begin = f"{what} to the finding is {soon_ms / 1e3:.1f} s under the standard faults"
    if math.isfinite(late_ms):
        return f"{begin} and {late_ms / 1e3:.1f} s under the {name}: {late_ms / soon_ms:.1f} times as long."
    return (
        f"{begin}. The {name} miss the mutant within {LIMIT_MS // 1000} s in half of the runs or more, so "
        f"theirs is more than {LIMIT_MS / soon_ms:.0f} times as long."
    )

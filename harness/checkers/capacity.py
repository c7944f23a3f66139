"""Were more clients inside at the same time than a semaphore has permits, and who is to blame? The rule is in
`harness.history.capacity`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from fencepost.text import bound, count, milliseconds, of_sections, plural
from harness.checkers.exclusion import side_of
from harness.figures import Cell, CheckerFigures, Row, Tile, Tone
from harness.history.capacity import Excess, count_crowding, open_with
from harness.history.overlaps import BLAMES, OverlapBlame
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding

ONLY_IF_NAMED: Final = True

_WORDS: Final[dict[OverlapBlame, str]] = {
    "lock": "all of them were within the validity that their lock had told them",
    "client": "at least one of them had outlived its validity",
    "undecided": "the record allows both readings",
}
_TILES: Final[tuple[tuple[OverlapBlame, str, Tone], ...]] = (
    ("lock", "Beyond the permits, lock to blame", "bad"),
    ("client", "Beyond the permits, client to blame", "warn"),
    ("undecided", "Beyond the permits, undecided", "warn"),
)
_FIRST: Final = 3


class Figures(CheckerFigures, frozen=True):
    """`most_inside`: the largest number of clients inside one key at once. `beyond`: by blame, the sections at whose
    start more clients than permits were inside. `longest_beyond_ms`: the longest time for which that lasted; 0 if it
    never happened."""

    permits: int
    sections: int
    most_inside: int
    beyond: dict[OverlapBlame, int]
    longest_beyond_ms: float

    def rows(self) -> Iterator[Row]:
        """`2 permits, at most 3 inside for up to 12 ms: lock 1 of 1,234 sections (…) · client 0 · undecided 0`."""
        lock, client, undecided = (self.beyond[blame] for blame in BLAMES)
        longest = f" for up to {milliseconds(self.longest_beyond_ms)}" if self.have_blame else ""
        yield Row(
            "capacity",
            f"{plural(self.permits, 'permit')}, at most {count(self.most_inside)} inside at once; more than the "
            f"permits{longest}: lock {of_sections(lock, self.sections)} · client {count(client)} · undecided "
            f"{count(undecided)}",
            order=20,
        )

    def tiles(self) -> Iterator[Tile]:
        yield Tile(
            "Inside at once",
            count(self.most_inside),
            f"of {plural(self.permits, 'permit')}",
            "warn" if self.most_inside > self.permits else "",
            order=20,
        )
        for blame, name, tone in _TILES:
            beyond = self.beyond[blame]
            note = f"of {plural(self.sections, 'section')}" if beyond else bound(self.sections) if self.sections else ""
            yield Tile(name, count(beyond), note, tone if beyond else "", order=20)

    def cells(self) -> Iterator[Cell]:
        yield Cell("sections", count(self.sections), order=10)
        yield Cell("inside", f"{count(self.most_inside)}/{count(self.permits)}", "inside: most at once / permits", 20)
        yield Cell(
            "beyond",
            "/".join(count(self.beyond[blame]) for blame in BLAMES),
            legend="beyond: entries beyond the permits, blamed on the lock / on a client that outlived its lease / "
            "undecided",
            order=21,
        )

    @property
    def have_blame(self) -> bool:
        """Whether there is anything to blame anybody for."""
        return any(self.beyond.values())

    @property
    def blame_line(self) -> str:
        """`Entries beyond the permits: 0 blamed on the lock, 3 on a client that outlived its lease, 1 undecided.`"""
        lock, client, undecided = (count(self.beyond[blame]) for blame in BLAMES)
        return (
            f"Entries beyond the permits: {lock} blamed on the lock, {client} on a client that outlived its lease, "
            f"{undecided} undecided."
        )


def check(run: Recorded) -> Answer:
    permits = run.config.permits
    crowding = count_crowding(run.sections, permits, run.sections_by_key)
    findings = []
    were = "client was" if permits == 1 else "clients were"
    for blame, excess in crowding.excess.items():
        number, most = len(excess.rows), int(excess.inside.max())
        times = "once" if number == 1 else f"{number} times"
        text = f"{times} a client entered and more than {permits} {were} inside, up to {most} at once; {_WORDS[blame]}"
        examples = tuple(
            _example(run, blame, int(excess.rows[place]), int(excess.inside[place])) for place in _shown(excess)
        )
        at_ms = run.at_ms(run.sections["start_ns"].iloc[int(excess.rows.min())])
        findings.append(Finding("over-capacity", blame, text, number, examples, at_ms))
    figures = Figures(
        permits=permits,
        sections=len(run.sections),
        most_inside=crowding.most,
        beyond={blame: len(crowding.excess[blame].rows) if blame in crowding.excess else 0 for blame in BLAMES},
        longest_beyond_ms=crowding.longest_ns / 1e6,
    )
    return Answer(figures, tuple(findings))


def _shown(excess: Excess) -> list[int]:
    """The places of the first entries and of the most crowded one."""
    return list(dict.fromkeys([*range(min(_FIRST, len(excess.rows))), int(np.argmax(excess.inside))]))


def _example(run: Recorded, blame: OverlapBlame, row: int, inside: int) -> dict[str, object]:
    """One entry beyond the permits, as an example of a finding. `others`: the sections that were open then, those that
    count for this blame."""
    sections = run.sections.iloc[open_with(run.sections, row, blame)]
    entered = sections.iloc[-1]
    result: dict[str, object] = {
        "key": str(entered.key),
        "at_ms": run.at_ms(entered.start_ns),
        "inside": inside,
        "permits": run.config.permits,
        "entered": side_of(run, entered),
        "others": tuple(side_of(run, other) for _, other in sections.iloc[:-1].iterrows()),
    }
    if blame != "lock":
        deadline = sections["deadline_max_ns" if blame == "client" else "deadline_min_ns"]
        late = sections[(deadline < entered.start_ns).to_numpy(np.bool_)]
        result["outlived" if blame == "client" else "may_have_outlived"] = tuple(late["client"].astype(str))
    return result

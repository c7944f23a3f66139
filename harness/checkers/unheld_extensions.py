"""Was an extension granted although too few nodes still had the key?

A majority of the nodes must prolong the key. Each of these had the client's value then, so at some time between the
request and the answer. If certainly fewer nodes than a majority had it, the lock counted something else. Why the others
no longer had it does not matter here: an extension asks again, so a node that forgot is no excuse.

Nothing is said of locks that renew by themselves: they may answer without asking.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fencepost.text import count, plural
from harness.figures import KeyFigures, Row
from harness.history.backing import Backing
from harness.history.key_owners import rows_of
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding


class Figures(KeyFigures, frozen=True):
    """`extensions`: granted ones, of sections whose values are known. `unheld`: those that too few nodes can have
    granted."""

    extensions: int
    unheld: int

    def rows(self) -> Iterator[Row]:
        if self.unheld:
            text = f"{count(self.unheld)} of {plural(self.extensions, 'extension')} granted without a majority"
            yield Row("unheld", text, order=86)


class _Granted(NamedTuple):
    """An extension of a section, by its place."""

    section: int
    asked_ns: int
    answered_ns: int


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or the lock renews by itself."""
    backing = run.backing
    if backing is None or run.config.renewal_ms is not None:
        return Answer()
    granted = list(_granted(run, backing))
    unheld = [one for one in granted if not backing.may_have_been_held(*one)]
    figures = Figures(len(granted), len(unheld))
    return Answer(figures, (_finding(run, backing, granted, unheld),) if unheld else ())


def _granted(run: Recorded, backing: Backing) -> Iterator[_Granted]:
    places = {of: place for place, of in enumerate(rows_of(run.sections, "client", "life", "section"))}
    ops = run.ops[((run.ops["f"] == "extend") & (run.ops["outcome"] == "ok")).to_numpy(bool)]
    for *of, asked_ns, answered_ns in rows_of(ops, "client", "life", "section", "invoke_ns", "complete_ns"):
        place = places.get(tuple(of))
        if place is not None and place in backing.owners.values:
            yield _Granted(place, asked_ns, answered_ns)


def _finding(run: Recorded, backing: Backing, granted: list[_Granted], unheld: list[_Granted]) -> Finding:
    text = (
        f"{count(len(unheld))} of {plural(len(granted), 'extension')} {'was' if len(unheld) == 1 else 'were'} granted "
        "although certainly no majority of the nodes had the client's value at any time while the lock asked them"
    )
    examples = []
    for one in sorted(unheld, key=lambda one: one.answered_ns)[:3]:
        section = run.sections.iloc[one.section]
        examples.append(
            {
                "client": str(section.client),
                "section": int(section.section),
                "key": str(section.key),
                "at_ms": run.at_ms(one.answered_ns),
                "held_by": tuple(backing.possible_holders(*one)),
            }
        )
    return Finding("extension-without-majority", "lock", text, ("lease",), len(unheld), tuple(examples))

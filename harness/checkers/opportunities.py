"""How often did a node outage matter? A crash can break a lock only if the lock depends on that node's memory.

An *opportunity* is an outage of nodes that a lock depended on: a majority held its key, and without these nodes no
majority did. The rate of violations per opportunity can be compared between runs that crash nodes at random and runs
that hunt; the rate per crash cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from fencepost.history import lock_key
from fencepost.text import bound, count, milliseconds, out_of
from harness.figures import CheckerFigures, Row, Tile
from harness.history.capacity import pairs_beyond
from harness.history.recorded import Recorded
from harness.verdict import Answer

_HUNT: Final = "hunt"


class Figures(CheckerFigures, frozen=True):
    """`crashes`: times at which nodes went down, in whatever way; `opportunities`: the ones that hit a held key.
    `violations`: crashes after which a client was let in although others held the lock, by the lock's fault;
    `violated_opportunities`: the opportunities among them, for a key that was hit. `first_violation_ms`: when the
    first overlap by the lock's fault began; None if there was none."""

    crashes: int
    opportunities: int
    violations: int
    violated_opportunities: int
    first_violation_ms: float | None

    def rows(self) -> Iterator[Row]:
        """`violations at 3 of 17 opportunities and after 3 of 21 crashes; the first after 1.9 s`."""
        per_opportunity = out_of(self.violated_opportunities, self.opportunities, "opportunity", "opportunities")
        per_crash = out_of(self.violations, self.crashes, "crash", "crashes")
        first = self.first_violation_ms
        after = "" if first is None else f"; the first after {milliseconds(first)}"
        yield Row("exposure", f"violations at {per_opportunity} and after {per_crash}{after}", order=30)

    def tiles(self) -> Iterator[Tile]:
        violated = self.violated_opportunities
        note = f"of {self.opportunities:,}: a node went down on which a lock depended"
        if not violated and self.opportunities:
            note += f"; {bound(self.opportunities)}"
        yield Tile("Opportunities that broke the lock", count(violated), note, "bad" if violated else "", order=70)


def check(run: Recorded) -> Answer:
    """No figures where no node went down and no hunt was on."""
    injected = [event for event in run.faults if event.event == "injected"]
    crashes = sorted((e for e in injected if e.keys_at_stake is not None), key=lambda event: event.began_ns)
    hunted = any(event.nemesis == _HUNT for event in injected)
    if not crashes and not hunted:
        return Answer()
    began = np.array([event.began_ns for event in crashes], np.int64)
    pairs = pairs_beyond(run.sections, run.permits)
    violated: set[int] = set()
    at_stake: set[int] = set()
    first_ns: int | None = None
    for position in pairs.blamed("lock").tolist():
        a, b = run.sections.iloc[int(pairs.earlier[position])], run.sections.iloc[int(pairs.later[position])]
        if first_ns is None:  # the pairs are in the order in which they began
            first_ns = int(b.start_ns)
        # The last outage between the first client's request and the second client's entry. Going down takes a moment,
        # in which a node may still grant what it is about to forget.
        last = int(np.searchsorted(began, b.start_ns, side="left")) - 1
        if last < 0 or crashes[last].done_ns < a.asked_ns:
            continue
        violated.add(last)
        if str(a.key) in map(lock_key, crashes[last].keys_at_stake or ()):
            at_stake.add(last)
    figures = Figures(
        crashes=len(crashes),
        opportunities=sum(bool(event.keys_at_stake) for event in crashes),
        violations=len(violated),
        violated_opportunities=len(at_stake),
        first_violation_ms=None if first_ns is None else run.at_ms(first_ns),
    )
    unknown = ("the hunt found no opportunity to take a node down",) if hunted and not crashes else ()
    return Answer(figures, unknown=unknown)

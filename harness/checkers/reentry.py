"""Could a client that holds the lock acquire it again (`--reenter`)?

A lock that is not re-entrant refuses while the lease lasts, which does no harm; after that it may grant the lock anew.
If it is re-entrant, the client is inside until its last release; that an earlier one let another client in shows
as an overlap.
"""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.text import count
from harness.figures import CheckerFigures, Row
from harness.history.recorded import Recorded
from harness.verdict import Answer


class Figures(CheckerFigures, frozen=True):
    """How many times a client acquired the lock that it held, was refused, or was not told."""

    granted: int
    refused: int
    unknown: int

    def rows(self) -> Iterator[Row]:
        """`120 acquires by the holder granted, 3 refused`."""
        text = f"{count(self.granted)} acquires by the holder granted, {count(self.refused)} refused"
        yield Row("reenter", text + (f", {count(self.unknown)} unknown" if self.unknown else ""), order=59)


def check(run: Recorded) -> Answer:
    """No figures where no client tried."""
    outcomes = run.ops.loc[run.ops["f"] == "reenter", "outcome"].astype(str).tolist()
    if not outcomes:
        return Answer()
    return Answer(Figures(outcomes.count("ok"), outcomes.count("fail"), outcomes.count("info")))

"""A toy checker: which client entered the most sections?"""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.text import plural
from harness.figures import CheckerFigures, Row
from harness.history.recorded import Recorded
from harness.verdict import Answer


class Figures(CheckerFigures, frozen=True):
    """`client`: the one with the most sections. `sections`: how many it had."""

    client: str
    sections: int

    def rows(self) -> Iterable[Row]:
        yield Row("busiest", f"{self.client} with {plural(self.sections, 'section')}")


def check(run: Recorded) -> Answer:
    if run.sections.empty:
        return Answer()
    counts = run.sections["client"].astype(str).value_counts()
    return Answer(Figures(str(counts.index[0]), int(counts.iloc[0])))

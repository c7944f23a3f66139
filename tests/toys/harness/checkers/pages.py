"""A toy checker for one workload: were all signatures kept?"""

from __future__ import annotations

from collections.abc import Iterable

from harness.figures import CheckerFigures, Row
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding

ONLY_IF_NAMED = True


class Figures(CheckerFigures, frozen=True):
    signed: int
    kept: int

    def rows(self) -> Iterable[Row]:
        yield Row("book", f"{self.kept} of {self.signed} signatures kept")


def check(run: Recorded) -> Answer:
    signed = int(((run.ops["f"] == "sign") & (run.ops["outcome"] == "ok")).sum())
    kept = sum((run.final_values or {}).values())
    missing = signed - kept
    findings = (
        (Finding("signature-lost", "resource", f"{missing} signatures are gone", promise="data"),)
        if missing > 0
        else ()
    )
    return Answer(Figures(signed, kept), findings)

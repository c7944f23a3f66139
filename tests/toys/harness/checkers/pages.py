"""A toy checker for one workload: were all signatures kept?"""

from __future__ import annotations

from collections.abc import Iterable

from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.figures import CheckerFigures, Row
from harness.history.recorded import Recorded
from harness.verdict import Answer

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
    findings = (LOST.found("resource", f"{missing} signatures are gone", missing, [{}]),) if missing > 0 else ()
    return Answer(Figures(signed, kept), findings)


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    return Told(f"The book of {run.config.workload} has fewer pages than guests were told of.")


LOST = FindingKind("signature-lost", "data", _told)

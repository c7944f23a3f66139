"""What is already found in runs that are under way, by the checkers whose findings stay whatever comes.

Judging takes the processor from the run that is watched, so it takes a tenth of one processor at most, however many
pages are open.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

from fencepost.errors import FencepostError
from harness.store.run_folder import RunFolder
from harness.verdict import Finding

_SHARE: Final = 0.1
_LOOK_EVERY_S: Final = 1.0


@dataclass(slots=True)
class _SoFar:
    findings: Sequence[Finding] = ()
    job: Future[Sequence[Finding]] | None = None
    next_s: float = 0.0


class FindingsSoFar:
    """Asked by the server's thread; `judge` runs beside it."""

    def __init__(self, judge: ThreadPoolExecutor) -> None:
        self._judge = judge
        self._known: dict[Path, _SoFar] = {}
        self._free_s = 0.0

    def latest(self, run: Path) -> Sequence[Finding]:
        """What the last look found, at once; a new look begins if it is time for one."""
        known = self._known.setdefault(run, _SoFar())
        if known.job is not None and known.job.done():
            known.findings = known.job.result()
            known.job = None
        if known.job is None and monotonic() >= max(known.next_s, self._free_s):
            known.job = self._judge.submit(self._look, run, known)
        return known.findings

    def forget(self, run: Path) -> None:
        self._known.pop(run, None)

    def _look(self, run: Path, known: _SoFar) -> Sequence[Finding]:
        # Judging imports pandas, which takes a second; a server whose live pages are never opened does without.
        from harness.checkers.judge import judge_so_far

        began = monotonic()
        try:
            _, verdict = judge_so_far(RunFolder(run))
        except FencepostError:  # a file that is being written; the next look reads it
            return known.findings
        finally:
            ended = monotonic()
            self._free_s = ended + (ended - began) * (1 / _SHARE - 1)
            known.next_s = ended + _LOOK_EVERY_S
        return verdict.findings

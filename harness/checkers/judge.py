"""From the answers of all checkers to one verdict.

A run is a violation if any finding breaks what was required; else unknown if a checker cannot vouch for it or it did
not reach its end; else valid. So an interrupted run can convict a lock, and never acquits one.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Literal

from fencepost.errors import FencepostError, InternalError
from harness.checkers import checkers
from harness.config import RunConfig
from harness.history.recorded import Recorded
from harness.store.run_folder import RunFolder
from harness.store.section_table import QUESTIONS, read_table
from harness.store.tables import load_recorded, write_history
from harness.verdict import Answer, Verdict

_SEEN_EARLY: Final = ("early_loss", "exclusion", "lease_validity", "refused_alone")
"""The checkers that need no end of the run."""
_CODES: Final[dict[str, int]] = {"valid": 0, "violation": 1, "unknown": 2}


def judge(run: Recorded, questions: Collection[str] | None = None) -> Verdict:
    """The verdict of the recorded run under its own `require`, by all checkers or by those that are named.

    Raises InternalError, naming it, if a checker fails.
    """
    answers: dict[str, Answer] = {}
    for name, check in checkers().items():
        if questions is not None and name not in questions:
            continue
        try:
            answers[name] = check(run)
        except FencepostError:
            raise
        except Exception as error:
            raise InternalError(f"the checker {name} failed on this history: {error!r}; please report it") from error
    findings = tuple(finding for answer in answers.values() for finding in answer.findings)
    unknown = tuple(dict.fromkeys(reason for answer in answers.values() for reason in answer.unknown)) + _cut_short(run)
    word: Literal["valid", "violation", "unknown"] = "valid"
    if any(run.config.require in finding.breaks for finding in findings):
        word = "violation"
    elif unknown:
        word = "unknown"
    return Verdict(
        verdict=word,
        require=run.config.require,
        findings=findings,
        unknown=unknown,
        figures={name: answer.figures for name, answer in answers.items()},
    )


def judge_folder(folder: RunFolder) -> tuple[Recorded, Verdict]:
    """Judge a run's folder, and leave history.parquet and verdict.json in it."""
    run = load_recorded(folder)
    with ThreadPoolExecutor(1) as beside:
        written = beside.submit(write_history, folder, run.ops)
        verdict = judge(run)
        written.result()
    folder.write_verdict(verdict)
    return run, verdict


def blamed_so_far(folder: RunFolder) -> frozenset[str]:
    """The kinds of what a run that is still on shows already, and the lock is to blame for."""
    verdict = judge(load_recorded(folder), _SEEN_EARLY)
    return frozenset(finding.kind for finding in verdict.findings if finding.blame == "lock")


def judge_table(path: Path, config: RunConfig) -> Verdict:
    """Judge a table of sections (`harness.store.section_table`), as far as a table goes."""
    return judge(read_table(path, config), QUESTIONS)


def exit_code(verdict: Verdict, *, expect_violation: bool = False) -> int:
    """0 valid, 1 violation, 2 unknown. With `expect_violation`: 0 if one was found, 1 if not, 2 unknown."""
    if expect_violation and verdict.verdict != "unknown":
        return 0 if verdict.verdict == "violation" else 1
    return _CODES[verdict.verdict]


def _cut_short(run: Recorded) -> tuple[str, ...]:
    if run.timeline.interrupted:
        return ("the run was interrupted",)
    if run.timeline.end_ns is None:
        return ("the run was cut short: it has no end on record",)
    return ()

"""Combines the answers of all checkers into one verdict.

A run is a violation if any finding breaks what was required; otherwise unknown if a checker cannot vouch for it or it
did not reach its end; otherwise valid. So an interrupted run can convict a lock but never acquit one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import asdict, replace

from fencepost.errors import FencepostError, InternalError, UsageError
from fencepost.memory import spare_memory
from harness.checkers import checkers, checkers_of
from harness.checkers.lent_nodes import without_blame
from harness.figures import Cell
from harness.history.recorded import Recorded
from harness.limits import LimitOutcome, judge_limit
from harness.promises import PROMISES, Promise
from harness.store.run_folder import RunFolder
from harness.store.tables import load_recorded, write_history
from harness.verdict import EXIT_CODES, Answer, Finding, Outcome, Verdict, Word, conclusion_of, outcome_of
from workloads.kinds import find_workload

_NEED_THE_END: Final = frozenset(
    [
        "contention",
        "counter",
        "coverage",
        "disturbance",
        "evidence",
        "faults",
        "fencing",
        "ledger",
        "link_use",
        "liveness",
        "opportunities",
        "partial_starvation",
        "phases",
        "register",
        "taken_for_good",
        "updates",
    ]
)
"""The checkers whose findings mean nothing, or may go away again, while the run is still on."""
_NEED_ALL_CHECKERS: Final[frozenset[Promise]] = frozenset(["lease", "liveness"])
"""The promises that are not shown to be kept where some checkers were not asked."""


def judge(run: Recorded, questions: Collection[str] | None = None) -> Verdict:
    """The verdict of the recorded run under its own `require`, by all checkers of its workload, or by
    those of them that are named.

    Raises InternalError, naming it, if a checker fails.
    """
    answers = _ask(run, questions)
    found = [replace(finding, checker=name) for name, answer in answers.items() for finding in answer.findings]
    findings = without_blame(found, run)
    cut_short = _cut_short(run)
    unknown = tuple(dict.fromkeys(reason for answer in answers.values() for reason in answer.unknown)) + cut_short
    word: Word = "valid"
    if any(finding.decides(run.config.require) for finding in findings):
        word = "violation"
    elif unknown:
        word = "unknown"
    figures = {name: answer.figures for name, answer in answers.items() if answer.figures is not None}
    untested = {promise for answer in answers.values() for promise in answer.untested}
    if questions is not None:
        untested |= _NEED_ALL_CHECKERS
    promises = tuple(_outcomes(run, findings, PROMISES if unknown else untested))
    cells = [*(cell for own in figures.values() for cell in own.cells()), *map(_cell, promises)]
    return Verdict(
        verdict=word,
        require=run.config.require,
        findings=findings,
        unknown=unknown,
        figures=figures,
        listed=tuple(sorted(cells, key=lambda cell: cell.order)),
        promises=promises,
        # More of the run would have changed its figures.
        limits=tuple(judge_limit(limit, {} if cut_short else figures) for limit in run.config.limits),
    )


def _ask(run: Recorded, questions: Collection[str] | None) -> dict[str, Answer]:
    """What each checker, by its name, answers."""
    answers: dict[str, Answer] = {}
    for name, checker in checkers_of(run.config.workload).items():
        if questions is not None and name not in questions:
            continue
        try:
            answers[name] = checker.check(run)
        except FencepostError:
            raise
        except Exception as error:
            raise InternalError(f"the checker {name} failed on this history: {error!r}; please report it") from error
        for finding in answers[name].findings:
            if finding.promise is None:
                raise InternalError(
                    f"the checker {name} found a {finding.kind!r}, which belongs to no promise: name it in "
                    "its FindingKind, or in the Finding"
                )
    return answers


def _outcomes(run: Recorded, findings: Sequence[Finding], unshown: Collection[Promise]) -> Iterator[Outcome]:
    """`unshown`: the promises of which it is not known that they were kept, if nothing shows them broken."""
    for promise in PROMISES:
        if promise != "data" or find_workload(run.config.workload).guards_data:
            yield outcome_of(promise, findings, run.config.require, is_shown=promise not in unshown)


def _cell(outcome: Outcome) -> Cell:
    """`BROKEN` in capital letters if it decides."""
    text = outcome.outcome.upper() if outcome.decides else outcome.outcome
    return Cell(outcome.promise, text, legend="" if text != "broken" else "broken: a promise that was not required")


def judge_folder(folder: RunFolder) -> tuple[Recorded, Verdict]:
    """Judge a run's folder, and leave history.parquet and verdict.json in it."""
    spare_memory()
    run = load_recorded(folder)
    write_history(folder, run.ops)
    verdict = judge(run)
    folder.write_verdict(verdict)
    return run, verdict


def recorded_verdict(folder: RunFolder) -> Verdict | None:
    """The verdict in a run's folder; None if this version of fencepost has not judged it yet. Figures of a checker that
    is no longer there are left out. Raises UsageError for a damaged one."""
    written = folder.read_verdict(_Written)
    if written is None:
        return None
    known = checkers()
    try:
        figures = {
            name: msgspec.json.decode(own, type=known[name].figures)
            for name, own in written.figures.items()
            if name in known
        }
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{folder.path / 'verdict.json'} is not what fencepost writes there: {' '.join(str(error).split())}; "
            f"`fencepost analyze {folder.path}` writes it anew"
        ) from error
    return Verdict(**(asdict(written) | {"figures": figures}))


class _Written(msgspec.Struct, frozen=True):
    """`verdict.json`, whose figures only their checkers can read."""

    verdict: Word
    require: str
    findings: tuple[Finding, ...]
    unknown: tuple[str, ...]
    figures: dict[str, msgspec.Raw]
    listed: tuple[Cell, ...]
    promises: tuple[Outcome, ...]
    limits: tuple[LimitOutcome, ...] = ()
    headline: str = ""


def judge_so_far(folder: RunFolder) -> tuple[Recorded, Verdict]:
    """Judge a run while it is still on, by the checkers whose findings stay whatever comes; nothing is written."""
    run = load_recorded(folder, is_over=False)
    return run, judge(run, checkers().keys() - _NEED_THE_END)


def exit_code(verdict: Verdict, *, expect_violation: bool = False) -> int:
    """0 valid, 1 violation or a limit missed, 2 unknown. With `expect_violation`, finding one is what 0 means, and
    finding none 1."""
    word = verdict.verdict
    if expect_violation and word != "unknown":
        word = "valid" if word == "violation" else "violation"
    return EXIT_CODES[conclusion_of(word, verdict.limits)]


def _cut_short(run: Recorded) -> tuple[str, ...]:
    if run.doubts:
        return run.doubts
    if run.timeline.interrupted:
        return ("the run was interrupted",)
    if run.timeline.end_ns is None:
        return ("the run was cut short: it has no end on record",)
    if run.timeline.healed_ns is None:
        why = run.timeline.unhealed or "it is not on record why"
        return (f"not everything was healed in time when the load was over: {why}",)
    return ()

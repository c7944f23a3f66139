"""The explanations of a run's findings, each from the checker that found it."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.text import listed, printable
from harness.checkers.kinds import kind_of
from harness.explain.evidence import Evidence, gather
from harness.explain.examples import Case, case_of
from harness.explain.explanation import Explained, Explanation
from harness.explain.kinds import Example, Told
from harness.explain.replies import Span
from harness.explain.words import was
from harness.history.fault_windows import Window, windows
from harness.history.recorded import Recorded
from harness.verdict import Finding, Verdict, ordered


def explain(run: Recorded, verdict: Verdict, limit: int | None = None) -> tuple[Explained, ...]:
    """Explain all findings, whatever `--require` says: for each the first `limit` examples and the longest overlap;
    without a limit the examples in the finding, where there is more to say than the finding says itself.

    Reads what the witness saw, and what went over the links. Raises UsageError for a damaged record.
    """
    found = [f for f in ordered(verdict) if limit is not None or f.breaks or kind_of(f).tell]
    cases = [
        [case for e in _some(run, f, limit) if (case := case_of(run, f, e)).named or f.breaks or kind_of(f).tell]
        for f in found
    ]
    evidence = gather(run, spans_of(run, [case for of in cases for case in of]))
    return tuple(
        Explained(finding, tuple(_explained(run, evidence, case) for case in of))
        for finding, of in zip(found, cases, strict=True)
    )


def _some(run: Recorded, finding: Finding, limit: int | None) -> Sequence[Example]:
    if limit is None:
        return finding.examples
    some = kind_of(finding).some
    return finding.examples[:limit] if some is None else some(run, finding, limit)


def tell(run: Recorded, evidence: Evidence, case: Case) -> Told:
    """What happened, as text."""
    says = kind_of(case.finding).tell
    return Told(f"{printable(case.finding.text).rstrip('.')}.") if says is None else says(run, evidence, case)


def spans_of(run: Recorded, cases: Sequence[Case]) -> list[Span]:
    """The times that matter for the cases: from one TTL earlier, as what a deleting client had asked before shows
    whether the key was its own."""
    ttl_ns = round(run.lease_ms * 1_000_000)
    return [Span(s.key, s.from_ns - ttl_ns, s.to_ns) for case in cases if (s := case.span) is not None]


def _explained(run: Recorded, evidence: Evidence, case: Case) -> Explanation:
    told = tell(run, evidence, case)
    around, others = _around(run, case)
    pair, sentence = told.pair or case.sides, told.sentence + _misled(run, case)
    return Explanation(case, sentence, told.because, case.sides, told.parts, pair, around, others, told.cause)


def _misled(run: Recorded, case: Case) -> str:
    """` The clock of c1 was wrong meanwhile.`; empty if no clock of its clients was. A lock may measure by it."""
    clients = [
        side.client for side in case.sides if run.wrong_clocks.mislead(side.client, side.asked_from_ns, side.end_ns)
    ]
    if not clients:
        return ""
    return f" The {'clock' if len(clients) == 1 else 'clocks'} of {listed(clients)} {was(clients)} wrong meanwhile."


def _around(run: Recorded, case: Case) -> tuple[tuple[Window, ...], int]:
    """The faults that were active from the first request for the sections of the case to the end of the sections."""
    span = case.span
    if span is None:
        return (), 0
    clients = {side.client for side in case.sides}
    in_force = [
        window
        for window in windows(run.faults)
        if window.event.began_ns <= span.to_ns and (window.to_ns is None or window.to_ns >= span.from_ns)
        if _hits(window, None)
    ]
    near = tuple(window for window in in_force if _hits(window, clients))
    return near, len(in_force) - len(near)


def _hits(window: Window, clients: Sequence[str] | set[str] | None) -> bool:
    """Whether the fault hit a node or one of these clients; None: any client. A fault that only watches hits
    nothing."""
    hit = window.event.hit_clients
    return bool(window.event.hit_nodes) or bool(hit if clients is None else hit.intersection(clients))

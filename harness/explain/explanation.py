"""The explanations of a run's findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.text import listed
from harness.explain.cases import Case, Side, case_of, examples
from harness.explain.causes import Cause, how_vague
from harness.explain.evidence import Evidence, gather
from harness.explain.nodes import NodePart
from harness.explain.phrases import was
from harness.explain.replies import Span
from harness.explain.sentences import is_told, tell
from harness.history.fault_windows import Window, windows
from harness.history.recorded import Recorded
from harness.verdict import Finding, Verdict, ordered


@dataclass(frozen=True, slots=True)
class Explanation:
    """One example of a finding, explained. `cause`: what the sentence names as the cause. `sides`: its sections, in the
    order of their start. `parts`: each node's part in the meeting of two of them, if known; `pair`: those two.
    `because`: how both came to be inside, if the finding is about something else. `faults`: the active faults around
    it that hit a node or one of the clients; `others`: the number of other active faults."""

    case: Case
    sentence: str
    because: str = ""
    sides: tuple[Side, ...] = ()
    parts: tuple[NodePart, ...] = ()
    pair: tuple[Side, ...] = ()
    faults: tuple[Window, ...] = ()
    others: int = 0
    cause: Cause | None = None

    @property
    def names(self) -> tuple[tuple[str, int], ...]:
        """Its sections, by client and number."""
        return tuple((side.client, side.section) for side in self.sides)


@dataclass(frozen=True, slots=True)
class Explained:
    """A finding and the explanations of some of its examples, in order."""

    finding: Finding
    explanations: tuple[Explanation, ...]

    @property
    def clearest(self) -> Explanation | None:
        """The first one that says most about the cause; None if there is none."""
        return min(self.explanations, key=lambda each: how_vague(each.cause), default=None)


def clearest_of(finding: Finding, explained: Sequence[Explained]) -> Explanation | None:
    """The clearest explanation of a finding, None if it was not explained."""
    return next((one.clearest for one in explained if one.finding is finding), None)


def explain(run: Recorded, verdict: Verdict, limit: int | None = None) -> tuple[Explained, ...]:
    """Explain all findings, whatever `--require` says: for each the first `limit` examples and the longest overlap;
    without a limit the examples in the finding, where there is more to say than the finding says itself.

    Reads what the witness saw, and what went over the links. Raises UsageError for a damaged record.
    """
    found = [f for f in ordered(verdict) if limit is not None or f.breaks or is_told(f.kind)]
    shown = [finding.examples if limit is None else examples(run, finding, limit) for finding in found]
    cases = [
        [case for e in some if (case := case_of(run, finding, e)).named or is_told(finding.kind) or finding.breaks]
        for finding, some in zip(found, shown, strict=True)
    ]
    evidence = gather(run, spans_of(run, [case for of in cases for case in of]))
    return tuple(
        Explained(finding, tuple(_explained(run, evidence, case) for case in of))
        for finding, of in zip(found, cases, strict=True)
    )


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

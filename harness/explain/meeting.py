"""How two clients came to be inside at the same time, for findings that are about two sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from harness.explain.by_count import by_count
from harness.explain.causes import Cause, of_loss
from harness.explain.evidence import Evidence
from harness.explain.examples import Case, Side
from harness.explain.expired_waiting import expired_waiting
from harness.explain.kinds import Told
from harness.explain.let_in import late_release, let_in, why_let_in
from harness.explain.looked_first import looked_first, read_as_own, set_over, took_nothing
from harness.explain.nodes import NodePart, parts
from harness.explain.overlap import NOT_RECORDED, by_client, by_lock, granted_on_errors, too_few, undecided, weak_sides
from harness.explain.renewals import renewals_ended
from harness.explain.same_value import same_value, task_release
from harness.explain.server_changes import by_failover, by_session
from harness.explain.taken_entry import entry_taken
from harness.explain.words import at
from harness.history.recorded import Recorded

UNRECORDED: Final = "One of the two sections was not recorded, so it is unknown how this happened."


def met(run: Recorded, evidence: Evidence, case: Case) -> Told:
    """Of two sections that overlapped."""
    if len(case.sides) < 2:
        return Told(UNRECORDED)
    earlier, later = case.sides
    if run.is_open_ended:
        return _of_sessions(run, evidence, case, earlier, later)
    found = parts(run, evidence, earlier, later)
    cause = _cause(run, evidence, found, earlier, later) if case.finding.blame == "lock" else None
    text = _because(run, evidence, found, case, earlier, later)
    if cause in ("too few nodes", "unknown") and (
        gone := list(filter(None, map(partial(expired_waiting, run), case.sides)))
    ):
        return Told(f"{text} {' '.join(gone)}", parts=found, cause="expired waiting")
    if cause in ("too few nodes", "unknown") and (shared := same_value(run, earlier, later)):
        return Told(shared, parts=found, cause="shared value")
    if cause in ("too few nodes", "unknown"):
        for inside, entered in ((earlier, later), (later, earlier)):
            if read := read_as_own(run, evidence.wire, entered, inside):
                return Told(read, parts=found, cause="read as own")
    if cause == "too few nodes" and any(
        granted_on_errors(found, said) for said in ([p.earlier for p in found], [p.later for p in found])
    ):
        cause = "granted on errors"
    known = text.removesuffix(NOT_RECORDED).rstrip()
    if cause in ("overwritten", "unknown"):
        for inside, entered in ((earlier, later), (later, earlier)):
            if looked := looked_first(run, evidence.wire, [inside], entered):
                return Told(f"{known} {looked.text}", parts=found, cause=looked.cause)
    if cause == "unknown" and (over := set_over(run, earlier, later)):
        return Told(f"{known} {over}", parts=found, cause="overwritten")
    if cause == "unknown" and (nothing := took_nothing(run, evidence.wire, (later, earlier))):
        return Told(f"{known} {nothing}", parts=found, cause="took nothing" if len(run.nodes) == 1 else "too few nodes")
    if cause == "unknown" and evidence.wire is not None:
        cause = why_let_in(run, evidence.wire, earlier, later)
    if cause == "unknown" and run.backing is not None:
        losses = [of_loss(run.backing.cause(stretch)) for _, stretch in weak_sides(run, earlier, later)]
        cause = next(iter(losses), cause)
    return Told(text, parts=found, cause=cause)


def _of_sessions(run: Recorded, evidence: Evidence, case: Case, earlier: Side, later: Side) -> Told:
    """Of a lock that promises no time: what its session, or the nodes, tell."""
    text, cause = by_session(run, earlier, later)
    if case.finding.blame != "lock":
        return Told(text)
    if cause == "unknown" and evidence.wire is not None and (let := let_in(run, evidence.wire, earlier, later)):
        return Told(f"{text} {let}", cause=why_let_in(run, evidence.wire, earlier, later))
    return Told(text, cause=cause)


def _cause(run: Recorded, evidence: Evidence, found: Sequence[NodePart], earlier: Side, later: Side) -> Cause:
    if by_failover(run, found, earlier, later):
        return "failover"
    if task_release(run, earlier, later):
        return "another task's release"
    taken = entry_taken(run, evidence.wire, [earlier], later)
    if taken is not None and not run.is_exclusive:
        return taken.cause
    cause = cause_of(found, are_too_few=bool(too_few(run, found, earlier, later)))
    expired = (part.first for part in found if part.loss is not None and part.loss.how == "expired")
    if cause == "expired":
        of_renewals = {side and renewals_ended(run, side, later.start_ns)[1] for side in expired}
        cause = (of_renewals.pop() or cause) if len(of_renewals) == 1 else cause
    if cause == "unknown" and taken is not None:
        return taken.cause
    if cause == "unknown" and by_count(run, earlier, later):
        return "count alone"
    if cause == "unknown" and evidence.wire is not None and late_release(run, evidence.wire, earlier, later):
        return "late release"
    return cause


def cause_of(parts: Sequence[NodePart], *, are_too_few: bool) -> Cause:
    """How a second client came to be inside: what most of the nodes that granted it to both had lost the key by."""
    if are_too_few:
        return "too few nodes"
    causes = Counter(part.loss.cause for part in parts if part.loss is not None and part.loss.cause != "unknown")
    return causes.most_common(1)[0][0] if causes else "unknown"


def _because(
    run: Recorded, evidence: Evidence, found: Sequence[NodePart], case: Case, earlier: Side, later: Side
) -> str:
    if run.is_open_ended:
        return by_session(run, earlier, later)[0]
    match case.finding.blame:
        case "lock":
            return by_lock(run, evidence, found, earlier, later)
        case "client":
            return by_client(run, earlier, later)
    return undecided(run, found, earlier, later)


def together(run: Recorded, evidence: Evidence, case: Case, sentence: str) -> Told:
    """The sentence of a finding about writes, and how both clients came to be inside at the same time, if they were."""
    if len(case.sides) < 2:
        return Told(sentence, UNRECORDED)
    earlier, later = case.sides
    if later.start_ns > earlier.end_ns:
        left, came = at(run, earlier.end_ns), at(run, later.start_ns)
        return Told(
            sentence,
            f"The two were not inside at the same time: {earlier.client} left at {left}, {later.client} entered at "
            f"{came}.",
        )
    if case.finding.blame not in ("lock", "client", "undecided"):
        return Told(sentence)
    found = parts(run, evidence, earlier, later)
    return Told(sentence, f"Both were inside: {_because(run, evidence, found, case, earlier, later)}", found)

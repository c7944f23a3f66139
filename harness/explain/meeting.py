"""How two clients came to be inside at the same time, for findings that are about two sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from harness.explain.causes import Cause, Reason, of_loss
from harness.explain.evidence import Evidence
from harness.explain.examples import Case, Side
from harness.explain.expiries import expired_waiting
from harness.explain.kinds import Told
from harness.explain.let_in import let_in, why_let_in
from harness.explain.looked_first import (
    asked_nothing,
    looked_first,
    overwriter_looked,
    read_as_own,
    read_own_old,
    set_over,
    took_nothing,
)
from harness.explain.nodes import NodePart, parts
from harness.explain.overlap import NOT_RECORDED, by_client, by_lock, undecided, weak_sides
from harness.explain.same_value import same_value
from harness.explain.server_changes import by_session
from harness.explain.taken_entry import entry_taken
from harness.explain.wire_requests import WireRequests
from harness.explain.woken_early import woken_early
from harness.explain.words import at
from harness.history.recorded import Recorded

_FEW: Final = ("too few nodes", "granted when refused")
UNRECORDED: Final = "One of the two sections was not recorded, so it is unknown how this happened."


def met(run: Recorded, evidence: Evidence, case: Case) -> Told:
    """Of two sections that overlapped."""
    if len(case.sides) < 2:
        return Told(UNRECORDED)
    earlier, later = case.sides
    if run.is_open_ended:
        text, cause = _of_sessions(run, evidence, case, earlier, later)
        return Told(text, cause=cause)
    found = parts(run, evidence, earlier, later)
    text, cause = _because(run, evidence, found, case, earlier, later)
    if cause is None:
        return Told(text, parts=found)
    first = Reason(text, cause)
    told = next(_closer(run, evidence.wire, first, found, earlier, later), first)
    return Told(told.text, parts=found, cause=told.cause)


def _closer(
    run: Recorded,
    wire: WireRequests | None,
    first: Reason,
    found: Sequence[NodePart],
    earlier: Side,
    later: Side,
) -> Iterator[Reason]:
    """What the requests show beyond the first reason, most telling first."""
    if first.cause in (*_FEW, "granted on errors", "unknown"):
        yield from _without_majority(run, wire, first, earlier, later)
    if first.cause in (*_FEW, "overwritten", "unknown") and (early := woken_early(run, wire, earlier, later)):
        yield early
    known = first.text.removesuffix(NOT_RECORDED).rstrip()
    if first.cause in ("overwritten", "unknown"):
        for inside, entered in ((earlier, later), (later, earlier)):
            if looked := looked_first(run, wire, [inside], entered):
                yield Reason(f"{known} {looked.text}", looked.cause)
        for change in (part.loss.change for part in found if part.loss is not None):
            if change is not None and (looked := overwriter_looked(run, wire, change)):
                yield Reason(f"{known} {looked.text}", looked.cause)
    if first.cause != "unknown":
        return
    if over := set_over(run, earlier, later):
        yield Reason(f"{known} {over}", "overwritten")
    if nothing := took_nothing(run, wire, (later, earlier)):
        yield Reason(f"{known} {nothing}", "took nothing" if len(run.nodes) == 1 else "too few nodes")
    if wire is not None and (let := why_let_in(run, wire, earlier, later)) != "unknown":
        yield Reason(first.text, let)
    if run.backing is not None:
        yield from (Reason(first.text, of_loss(run.backing.cause(weak))) for _, weak in weak_sides(run, earlier, later))


def _without_majority(
    run: Recorded, wire: WireRequests | None, first: Reason, earlier: Side, later: Side
) -> Iterator[Reason]:
    """Why a client was inside that too few nodes had let in, or none that is known."""
    if gone := " ".join(filter(None, (expired_waiting(run, side) for side in (earlier, later)))):
        yield Reason(f"{first.text} {gone}", "expired waiting")
    if shared := same_value(run, earlier, later):
        yield Reason(shared, "shared value")
    for inside, entered in ((earlier, later), (later, earlier)):
        if read := read_as_own(run, wire, entered, inside):
            yield Reason(read, "read as own")
        if old := read_own_old(run, wire, entered):
            yield Reason(old, "own old key")
    if unasked := asked_nothing(run, wire, (later, earlier)):
        yield Reason(unasked, "granted unasked")


def _of_sessions(run: Recorded, evidence: Evidence, case: Case, earlier: Side, later: Side) -> tuple[str, Cause | None]:
    """Of a lock that promises no time: what its session, or the nodes, tell. The cause if it is the lock's doing."""
    is_locks = case.finding.blame == "lock"
    if is_locks and (taken := entry_taken(run, evidence.wire, [earlier], later)):
        return f"{taken.text} So {later.client} could enter.", taken.cause
    text, cause = by_session(run, earlier, later)
    if not is_locks or cause != "unknown" or evidence.wire is None:
        return text, cause if is_locks else None
    let = let_in(run, evidence.wire, earlier, later)
    return f"{text} {let}".rstrip(), why_let_in(run, evidence.wire, earlier, later) if let else cause


def _because(
    run: Recorded, evidence: Evidence, found: Sequence[NodePart], case: Case, earlier: Side, later: Side
) -> tuple[str, Cause | None]:
    """How both came to be inside, and the cause if it is the lock's doing."""
    match case.finding.blame:
        case "lock":
            return by_lock(run, evidence, found, earlier, later)
        case "client":
            return by_client(run, earlier, later), None
    return undecided(run, found, earlier, later), None


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
    if run.is_open_ended:
        because, _ = _of_sessions(run, evidence, case, earlier, later)
    else:
        because, _ = _because(run, evidence, found, case, earlier, later)
    return Told(sentence, f"Both were inside: {because}", found)

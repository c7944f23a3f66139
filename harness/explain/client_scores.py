"""Members that clients rank by times of their own: who comes later may be the first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fencepost.text import printable
from harness.explain.evidence import Evidence
from harness.explain.examples import Side
from harness.explain.wire_requests import WireRequest

_RANKS = ("ZRANK", "ZREVRANK")
_CLOCK_DIGITS = 10
"""How many digits a time since 1970 has, in seconds and in smaller units."""


def earlier_score(evidence: Evidence, sides: Sequence[Side]) -> str | None:
    """`Their ranks come from times that the clients themselves named: n1 carried out c7's EVAL after c2's, but c7 named
    17, and c2 20, so that c7 comes first.` None if no later request of these, on a node, named an earlier time."""
    added = sorted((one for side in sides for one in _added(evidence, side)), key=lambda one: one[0])
    for place, (_, late, later) in reversed(list(enumerate(added))):
        for _, early, earlier in added[:place]:
            named = _ranks(earlier, later)
            if earlier.node != later.node or named is None or named[1] >= named[0]:
                continue
            (before, _), (after, _) = named
            told = f"{late.client} named {after:,}, and {early.client} {before:,}, so that {late.client} comes first"
            if before == after:
                told = f"both named {after:,}, and the member of {late.client} comes first in the alphabet"
            return (
                f"Their ranks come from times that the clients themselves named: {later.node} carried out "
                f"{late.client}'s {printable(later.command)} after {early.client}'s, but {told}."
            )
    return None


def _added(evidence: Evidence, side: Side) -> list[tuple[int, Side, WireRequest]]:
    """The requests that let the side's acquire in by the rank of a member that they added, with the node's order."""
    ledger, wire = evidence.ledger, evidence.wire
    if ledger is None or wire is None:
        return []
    rows = ledger.rows
    is_its = (rows["task"] == side.client) & (rows["section"] == side.section) & (rows["life"] == side.life)
    is_added = (rows["did"].astype(str).str.upper() == "ZADD") & (rows["f"] == "acquire") & rows["is_in_call"]
    found = {}
    for row in np.flatnonzero((is_its & is_added).to_numpy(bool)).tolist():
        request = wire.at(int(rows["request"].iloc[row]))
        if request is not None and not request.is_refused and any(rank in request.script.upper() for rank in _RANKS):
            found[request.node] = (int(rows["event"].iloc[row]), side, request)
    return list(found.values())


def _ranks(one: WireRequest, other: WireRequest) -> tuple[tuple[int, str], tuple[int, str]] | None:
    """By which time and member each of two requests of the same script is ranked: the first word of both that is a
    time, and the first other one that differs. None if they name no such words."""
    if one.words[:2] != other.words[:2] or len(one.words) != len(other.words):
        return None
    pairs = list(zip(one.words[2:], other.words[2:], strict=True))
    times = next(((int(a), int(b)) for a, b in pairs if _is_time(a) and _is_time(b)), None)
    members = next(((a, b) for a, b in pairs if a != b and not (_is_time(a) and _is_time(b))), None)
    if times is None or members is None:
        return None
    return (times[0], members[0]), (times[1], members[1])


def _is_time(word: str) -> bool:
    return word.isdecimal() and len(word) >= _CLOCK_DIGITS

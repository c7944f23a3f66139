"""How a semaphore admitted too many clients: a permit was given back that no client had taken, or clients were ranked
by timestamps of their own.

A release may lower a count below zero, or put a permit back twice; an acquire may refill the stock while clients have
what was in it. With timestamps of their own, a client that comes later may be ranked first.

What granted acquires do to a key, and what releases do, are opposites: a pop and a push, say. Where less is left taken
than the clients inside took, a request gave what nothing had taken: the first one, for what it gave stays there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from fencepost.text import printable
from harness.explain.causes import Cause, Reason
from harness.explain.evidence import Evidence
from harness.explain.examples import Side
from harness.explain.requests import changes_where, client_of, how_sent
from harness.explain.wire_requests import WireRequest
from harness.explain.words import at
from harness.history.commands import ADD, POP
from harness.history.groups import rows_of
from harness.history.key_changes import ENDINGS
from harness.history.ledger import Change
from harness.history.never_given_back import opposites
from harness.history.places_in_keys import places_in_keys
from harness.history.recorded import Recorded

RENEWALS: Final = ("held", "extend")
"""The calls in which a lock may renew a lease."""


def below_zero(run: Recorded, entered: Side) -> Change | None:
    """The last release that left a count below zero which the client's acquire changed then; None if there is none, or
    the count began anew since."""
    if run.ledger is None:
        return None
    rows = run.ledger.rows
    is_key = rows["key"].isin(rows["key"][entered.made(rows, "acquire")].unique())
    low: dict[tuple[str, str], Change | None] = {}
    for change in changes_where(run.ledger, is_key & (rows["at_ns"] <= entered.start_ns)):
        place = (change["node"], change["key"])
        if change["what"] in ENDINGS:
            low[place] = None
        if change["f"] == "release" and str(change["value"]).startswith("-") and str(change["value"])[1:].isdecimal():
            low[place] = change
    return max(filter(None, low.values()), key=lambda change: int(change["at_ns"]), default=None)


def place_expired(run: Recorded, entered: Side) -> Reason | None:
    """`the key k1:count had expired at +718.7 ms, with the place of c1, which had a lease until +1,370.6 ms.` The
    last one before the section, of a key that the section's acquire changed, if that client was still inside, or its
    release had taken a place of the new key; None without any. Whether that client's renewal took a place again."""
    ledger = run.ledger
    if ledger is None:
        return None
    keys = {str(key) for key in ledger.rows["key"][entered.made(ledger.rows, "acquire")].unique()}
    sections = list(rows_of(run.sections, "client", "deadline_min_ns", "end_ns"))
    found = [
        (place, client, deadline_ns)
        for place in places_in_keys(run, ledger)
        for client, deadline_ns, end_ns in [sections[place.section]]
        if place.key in keys and place.until_ns < min(deadline_ns, entered.start_ns)
        if place.left_ns <= entered.start_ns or entered.start_ns < end_ns
    ]
    if not found:
        return None
    place, client, deadline_ns = max(found, key=lambda one: one[0].until_ns)
    who = printable(client)
    text = (
        f"the key {printable(place.key)} had expired at {at(run, place.until_ns)}, with the place of {who}, which "
        f"had a lease until {at(run, deadline_ns)}"
    )
    if place.left_ns <= entered.start_ns:
        gave = f"; at {at(run, place.left_ns)} its release took one out of the new key instead."
        return Reason(f"{text}{gave}", "expired")
    again = taken_again(run, run.sections.iloc[place.section], place.key, place.until_ns)
    return Reason(f"{text}. {again}", "set by an extension") if again else Reason(f"{text}.", "expired")


def taken_again(run: Recorded, section: Any, key: str, since_ns: int) -> str:
    """`A renewal of c2 took a place again: during its check whether it still holds the lock it sent EVALSHA to n1 …`.
    Empty if none did since then, in this section."""
    ledger = run.ledger
    if ledger is None:
        return ""
    rows = ledger.rows
    own = (rows["task"] == section.client) & (rows["section"] == section.section) & (rows["life"] == section.life)
    own &= (rows["key"] == key) & rows["f"].isin(RENEWALS) & rows["did"].isin(ADD) & (rows["at_ns"] > since_ns)
    for change in changes_where(ledger, own)[:1]:
        return f"A renewal of {printable(str(section.client))} took a place again: {how_sent(run, change)}."
    return ""


def given_unasked(run: Recorded, entered: Side) -> Change | None:
    """The first request before the section after which more permits were there than the clients inside had left, of a
    key that the section's acquire took from; None if there is none, or the key began anew since."""
    if run.ledger is None:
        return None
    rows = run.ledger.rows
    own = entered.made(rows, "acquire")
    done_ns = rows["from_node_ns"].where(rows["from_node_ns"] >= 0, rows["at_ns"])
    known = rows["key"].isin(rows["key"][own].unique()) & (done_ns <= entered.start_ns)
    found = [
        row
        for (_, key), some in rows[known.to_numpy(bool)].groupby(["node", "key"], observed=True)
        if (pair := opposites(rows[(rows["key"] == key).to_numpy(bool)])) is not None
        if (row := _given_unasked(run, some, pair)) is not None
    ]
    return min(map(run.ledger.change, found), key=lambda change: int(change["at_ns"]), default=None)


def _given_unasked(run: Recorded, rows: pd.DataFrame, pair: tuple[str, str]) -> int | None:
    """Of one key on one node. What an acquire puts in while no client that took something is inside is the stock. A
    release of a section that was not seen to take anything counts for nothing: its take may have been out of sight. A
    section that put back all that it took has what another one took for it, from when it began. What a list of permits
    holds is known, and with what the clients inside took that is no more than all permits."""
    take, places = pair[0], run.places
    start, end, deadline = (run.sections[name].to_numpy(np.int64) for name in ("start_ns", "end_ns", "deadline_min_ns"))
    taken, left = Counter[int](), Counter[int]()
    out, first = 0, None
    stock: int | None = None
    before: tuple[Any, ...] = ()
    names = ("what", "did", "f", "at_ns", "to_node_ns", "request", "task", "life", "section")
    columns = rows_of(rows, *names)
    for row, (what, did, f, at_ns, sent_ns, request, *of) in zip(rows.index.tolist(), columns, strict=True):
        is_one, before = (request, did) == before and what == "deleted", (request, did)
        if did not in pair and what in ENDINGS:
            taken, left, out, first = Counter(), Counter(), 0, None
        if take in POP and (what in ENDINGS or what == "set"):
            stock = 0
        if is_one or did not in pair:
            continue
        if stock is not None:
            stock = max(stock - 1, 0) if did == take else stock + 1
        place = places.get(tuple(of))
        if did == take:
            out += 1
            if place is not None:
                taken[place] += 1
                left[place] += 1
        elif f != "release" or (place is not None and taken[place]):
            when_ns = sent_ns if sent_ns >= 0 else at_ns
            others = [p for p in taken if p != place and when_ns < min(end[p], deadline[p])]
            others = [p for p in others if left[p] or start[p] <= when_ns]
            out = out - 1 if others else max(out - 1, 0)
            is_more = out < len(others) or (stock is not None and stock + len(others) > run.permits)
            first = row if first is None and is_more else first
            if place is not None and left[place]:
                left[place] -= 1
    return first


def gave(run: Recorded, given: Change) -> tuple[str, Cause]:
    """`c3 had given back a permit that nothing had taken: in its release it sent EVAL to n1 at +0.4 ms; the node
    answered 1 (INCR of free).`, and the cause."""
    is_release = given["f"] == "release"
    cause: Cause
    did, cause = ("given back", "given back twice") if is_release else ("put in", "put in by an acquire")
    was = ", which was empty" if given["what"] == "set" else ""
    where = f"({printable(str(given['did']))} of {printable(str(given['key']))}{was})"
    told = f"{client_of(given)} had {did} a permit that nothing had taken: {how_sent(run, given)} {where}."
    return told + _with_dead_entry(run, given), cause


def _with_dead_entry(run: Recorded, given: Change) -> str:
    """` In the same step it took out the entry of c2's acquire, which had ended without the lock.`; empty if it is not
    known to have taken out any."""
    ledger = run.ledger
    assert ledger is not None
    for entry in ledger.entries:
        if entry.ended >= 0 and ledger.change(entry.ended)["request"] == given["request"]:
            put = ledger.change(entry.added)
            if put["outcome"] in ("fail", "info") and put["complete_ns"] < given["to_node_ns"]:
                who = printable(str(put["task"]))
                return f" In the same step it took out the entry of {who}'s acquire, which had ended without the lock."
    return ""


_RANKS = ("ZRANK", "ZREVRANK")
_CLOCK_DIGITS = 10
"""How many digits a time since 1970 has, in seconds and in smaller units."""


def earlier_score(evidence: Evidence, sides: Sequence[Side]) -> str | None:
    """`The clients named the timestamps that rank them: n1 carried out c7's EVAL after c2's, but c7 named
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
                f"The clients named the timestamps that rank them: {later.node} carried out "
                f"{late.client}'s {printable(later.command)} after {early.client}'s, but {told}."
            )
    return None


def _added(evidence: Evidence, side: Side) -> list[tuple[int, Side, WireRequest]]:
    """The requests that let the side's acquire in by the rank of a member that they added, with the node's order."""
    ledger, wire = evidence.ledger, evidence.wire
    if ledger is None or wire is None:
        return []
    rows = ledger.rows
    is_added = (rows["did"].astype(str).str.upper() == "ZADD") & rows["is_in_call"]
    found = {}
    for change in changes_where(ledger, is_added & side.made(rows, "acquire")):
        request = wire.at(int(change["request"]))
        if request is not None and not request.is_refused and any(rank in request.script.upper() for rank in _RANKS):
            found[request.node] = (int(change["event"]), side, request)
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

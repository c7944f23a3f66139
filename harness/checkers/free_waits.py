"""Was the lock free while a client waited for it?

A client that waits inside acquire is woken up, or looks again by itself. A wake-up may be lost, so a correct lock looks
again, at the latest when the last lease that it saw has run out: its holder may have died. Locks that block on a server
count in whole seconds. So a client has waited in vain if all of this was so for a lease, rounded up to whole seconds,
and one second more (`PATIENCE`):

- the key was free: nothing of it was there on a majority of the lock's nodes, which the witness saw, and no client was
  inside or giving it back;
- no fault was in force on these nodes, on the client and its links, or on another client that waited, whose turn it may
  have been;
- the client ran, sent nothing to any node, heard nothing, and nothing of what it had sent was on its way.

The last lease had run out by then, whatever happened before: a holder that died, a wake-up that a fault swallowed.

The other ways to wait in vain are in `harness.checkers.vain_waits`.

How long a lock lets an acquire take does not matter. This costs time and no safety, so it breaks only `liveness`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from fencepost.text import milliseconds, plural
from harness.checkers.vain_waits import Vain, vain_waits
from harness.explain.causes import Cause
from harness.explain.dead_entry import entry_told, kept_out_by
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import client_of, how_sent
from harness.figures import KeyFigures, Row
from harness.history.commands import BLOCKING
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import where
from harness.history.ledger import Ledger
from harness.history.link_activity import time_limit_ns
from harness.history.lost_entries import LOST, LostEntry, lost_entries
from harness.history.recorded import Recorded
from harness.history.sessions import OF_THE_NODE
from harness.history.stretches import in_order, longest, longest_ms
from harness.history.waits import names_of, patience_ns
from harness.verdict import Answer, Finding


class Figures(KeyFigures, frozen=True):
    """`waits`: of clients while the lock was free. `longest_ms`: of these; None without any. `patience_ms`: how long a
    client that sends nothing may wait."""

    waits: int
    longest_ms: float | None
    patience_ms: float

    def rows(self) -> Iterator[Row]:
        if self.waits:
            waits = plural(self.waits, "wait")
            text = f"{waits} of up to {milliseconds(self.longest_ms)} while the lock was free"
            yield Row("in vain", text, order=61)


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or what went over the links is not on record. Permits of a semaphore
    are several keys, and how many of them are free is up to the lock."""
    ledger = run.whole_ledger
    if ledger is None or not run.is_exclusive or run.had_no_access:
        return Answer()
    vain = in_order(vain_waits(run, ledger))
    figures = Figures(len(vain), longest_ms(vain), patience_ns(run) / 1e6)
    return Answer(figures, (_finding(run, ledger, vain),) if vain else ())


def _finding(run: Recorded, ledger: Ledger, vain: Sequence[Vain]) -> Finding:
    clients = plural(len({one.wait.client for one in vain}), "client")
    asked = sum(one.answers > 0 for one in vain)
    how = (
        "without sending a request"
        if not asked
        else "although the nodes answered"
        if asked == len(vain)
        else "some without sending a request, some although the nodes answered"
    )
    calm_ns = max(one.calm_ns for one in vain)
    calm = f"for up to {milliseconds(calm_ns / 1e6)} of that no fault" if calm_ns else "no fault"
    text = (
        f"{clients} waited for up to {milliseconds(longest_ms(vain))} while the lock was free and {calm} was "
        f"in the way, {how} (TTL {run.lease_ms:.0f} ms)"
    )
    return WAITS.of(vain, text, partial(_example, run, ledger, lost_entries(ledger)), longest(vain))


def _example(run: Recorded, ledger: Ledger, lost: dict[str, list[LostEntry]], one: Vain) -> dict[str, object]:
    example: dict[str, object] = {
        "client": one.wait.client,
        "key": one.wait.key,
        **run.lasted(one),
        "waited_since_ms": run.at_ms(one.wait.since_ns),
        "answers": one.answers,
    }
    if not one.answers and not one.told_ns and not one.subscribed_ns and one.push is None:
        example |= _listened(run, ledger, one) | _removed(run, lost.get(one.wait.client, ()), one) | _failed(run, one)
    if one.is_unused or not _is_held_in_sight(run, one.wait.key):
        example["is_unused"] = True
    if one.calm_ns:
        example["calm_ms"] = one.calm_ns / 1e6
    if one.silent_ns:
        example["silent_ms"] = one.silent_ns / 1e6
    if one.told_ns:
        example["told_ms"] = run.at_ms(one.told_ns)
    if one.subscribed_ns:
        example["subscribed_ms"] = run.at_ms(one.subscribed_ns)
    if one.push is not None:
        example |= {"list": str(one.push["key"]), "pushed_ms": run.at_ms(one.push["at_ns"])}
        example |= {"pushed_by": client_of(one.push), "push": how_sent(run, one.push)}
    if one.entry is not None:
        example["entry"] = entry_told(run, one.entry, one.since_ns)
    if one.freed is None:
        return example
    how, by = one.freed["what"], one.freed["task"] or one.freed["client"]
    freed = {"freed": str(how), "freed_ms": run.at_ms(one.freed["at_ns"])}
    return example | freed | ({"freed_by": str(by)} if how == "deleted" and by else {})


def _is_held_in_sight(run: Recorded, key: str) -> bool:
    """Whether the nodes ever held a value of the key that the witness could read. Of a sorted set, a list or a set it
    is not known when the key was there, but only when no client was inside."""
    return run.watched is not None and bool(run.watched.holdings["key"].isin(names_of(run, key)).any())


def _failed(run: Recorded, one: Vain) -> dict[str, object]:
    """How many acquires of the client ended meanwhile, which sent nothing, if none lasted so long that it should have
    looked again; and what the last one said."""
    acquires = run.calls("acquire", key=one.wait.key)
    own = where(acquires, acquires["complete_ns"] > one.since_ns, client=one.wait.client)
    own = where(own, own["invoke_ns"] < one.until_ns)
    if len(own) < 2 or (own["complete_ns"] - own["invoke_ns"]).max() >= patience_ns(run):
        return {}
    errors = own["error"].dropna().astype(str).tolist() if "error" in own else []
    return {"failed": len(own)} | ({"error": errors[-1].rstrip(".")} if errors else {})


def _removed(run: Recorded, lost: Sequence[LostEntry], one: Vain) -> dict[str, object]:
    """The last request of another client that took an entry of the wait out before the lock came free."""
    own = (entry.change for entry in lost if one.wait.since_ns <= entry.since_ns < one.wait.until_ns)
    gone = [change for change in own if change["what"] not in LOST and change["at_ns"] <= one.since_ns]
    if not gone:
        return {}
    last = max(gone, key=lambda change: int(change["at_ns"]))
    return {
        "removed_by": client_of(last),
        "out_of": str(last["key"]),
        "removed_ms": run.at_ms(last["at_ns"]),
        "removal": how_sent(run, last),
    }


def _listened(run: Recorded, ledger: Ledger, one: Vain) -> dict[str, object]:
    """What the client had asked last to be told of, and whether a request named that while it waited."""
    sent, client = ledger.sent, one.wait.client
    asked = [
        (request, node)
        for node in run.nodes
        for request in sent.between(client, node, one.wait.since_ns, one.since_ns)
        if request.command in BLOCKING and request.arguments
    ]
    if not asked:
        return {}
    request, node = max(asked, key=lambda some: some[0].from_client_ns)
    name = request.arguments[0]
    if name.startswith(OF_THE_NODE):
        return {}
    was_named = name in sent.words(node, one.wait.since_ns, one.until_ns, BLOCKING)
    listened = {"listened": request.command, "to": name, "on": node, "was_notified": was_named}
    limit_ns = time_limit_ns(request.command, request.arguments)
    expired = one.freed is not None and one.freed["what"] == "expired"
    return listened | ({"limit_ms": limit_ns / 1e6} if expired and limit_ns > patience_ns(run) else {})


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example, client = case.example, case.text("client")
    freed = _FREED.get(str(example.get("freed")), "")
    if freed:
        by = f" by {case.text('freed_by')}" if "freed_by" in example else ""
        freed = f" ({freed}{by} at {case.at('freed_ms')})"
    did = (
        f"had {example['answers']:,} requests answered, but did not acquire the lock"
        if example["answers"]
        else f"sent and received nothing; {_LOOKS_AGAIN}"
    )
    cause: Cause = "not let in" if example["answers"] else "not woken"
    if example.get("was_notified") is False:
        command, to = case.texts("listened", "to")
        did = f"sent and received nothing: it had sent {command} {to}, and no other request named {to}"
        cause = "not notified"
    if "limit_ms" in example:
        is_endless = example["limit_ms"] * 1e6 >= FOREVER_NS
        limit = "without a time limit" if is_endless else f"with a time limit of {case.lasting('limit_ms')}"
        did = f"stayed blocked, and sent nothing: it had sent {' '.join(case.texts('listened', 'to'))} {limit}, and an "
        did += "expiry pushes nothing"
        cause = "blocked too long"
    if "told_ms" in example:
        did = f"sent and received nothing, although a message of the release had reached it at {case.at('told_ms')}"
    if "subscribed_ms" in example:
        did = f"sent and received nothing: it had subscribed at {case.at('subscribed_ms')}, when the release was over, "
        did += "and did not look again"
        cause = "subscribed late"
    if "list" in example:
        did = f"stayed blocked on {case.text('list')}: {case.text('pushed_by')} had pushed onto it and deleted it with "
        did += f"one request, so it woke no client ({case.text('push')})"
        cause = "not notified"
    if "removal" in example:
        did += (
            f"; {case.text('removed_by')} had taken its entry out of {case.text('out_of')} at {case.at('removed_ms')}: "
        )
        did += case.text("removal")
        cause = "entry removed"
    if "silent_ms" in example:
        did += f"; it had been silent for {case.lasting('silent_ms')}"
    if (entry := example.get("entry")) is not None:
        kept = kept_out_by(entry)
        did, cause = f"{did}: {kept.text}", kept.cause
    if "failed" in example:
        said = f"; the last one said {case.text('error')}" if "error" in example else ""
        did = f"called acquire {example['failed']:,} times, and none of these calls sent a request to a node{said}"
        cause = "nothing asked"
    calm = f", and for {case.lasting('calm_ms')} of it" if "calm_ms" in example else " and"
    calm += " no fault was in the way"
    free = "no client was inside" if "is_unused" in example else f"the key was free{freed}"
    return Told(
        f"{client} was waiting for {case.text('key')}. From {case.at()} on, for {case.lasting()}, {free}{calm}; "
        f"meanwhile {client} {did}.",
        cause=cause,
    )


_FREED: Final[Mapping[str, str]] = {"deleted": "deleted", "expired": "expired", "lost": "lost by the node"}
_LOOKS_AGAIN: Final = "a client that is not notified must retry once the last lease that it saw has expired"
WAITS: Final = FindingKind(
    "waits-for-free-lock",
    "liveness",
    _told,
    comes_of=("never given back",),
    noun="wait(s) for a free lock",
    surveyed="free",
)

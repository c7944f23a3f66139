"""Which keys were left on the nodes with no owner, and for how long?

A key has an owner from the try that set it until that client is done with it: its release has returned, its try was
refused or given up, or the client is gone. A key that is still there after that keeps others out until it expires.
Every lock with an expiry may leave some; how many, and why, differs from library to library.

Only what is certain is counted: from the latest moment at which the owner can have been done to the earliest at which
the key can have gone. If the lock does not show what it sets, and for tries that were refused, the owner is the client
that was trying when the key was set; if there were several, the one that tried longest. A later acquire of the owner
that prolongs the key takes it over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from fencepost.text import count, milliseconds, printable
from harness.explain import causes
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import changes_where, client_of, how_sent
from harness.figures import KEYS_ON_NODES, CheckerFigures, Part, Row, Table
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import grouped, rows_of, where
from harness.history.key_holdings import Watched
from harness.history.key_owners import Owners
from harness.history.recorded import Recorded
from harness.history.stretches import longest
from harness.history.without_expiry import Leftover, are_taken_over, has_no_expiry, nodes_in_the_way
from harness.verdict import Answer, Finding, worst_first

Cause = Literal["not released", "given up", "client gone", "set too late", "back from disk"]
CAUSES: Final[tuple[Cause, ...]] = ("not released", "given up", "client gone", "set too late", "back from disk")
"""The section was released and the key stayed; whether the release reached the node is not known. A refused or failed
try was not taken back there. The owner was killed. The SET took effect when its owner had given it up. The node went
down with a key that had an owner, and came back with one that had none."""

ARRIVES_WITHIN_NS: Final = 250_000_000
"""A thread that renews may send one more request while the call that ends its section returns."""
_INSIDE: Final = ("acquire", "reenter", "extend", "held", "leave")
"""After these calls, and outside of any call, a client is inside."""
OUTLASTS_BY_MS: Final = 100
"""The time that a node may need to expire a key is not held against the lock."""


class OnNode(msgspec.Struct, frozen=True):
    """The orphans of one node. `unseen_ms`: for how long of the load the node was out of the witness's sight."""

    count: int
    total_ms: float
    longest_ms: float
    causes: dict[Cause, int]
    unseen_ms: float


class Figures(CheckerFigures, frozen=True, kw_only=True):
    """`watched`: whether the nodes were. If not, `asked` says whether they should have been, and the rest is None.
    `no_key_events`: the nodes' server, if its keys cannot be watched.
    `count`, `total_ms`, `longest_ms`: of the orphans; `by_cause`, `by_node`. `none_seen`: true where a client acquired
    the lock and no key of it was ever seen on a node, so that nothing is known."""

    watched: bool
    asked: bool | None = None
    """None where the nodes were watched."""
    no_key_events: str | None = None
    count: int | None = None
    total_ms: float | None = None
    longest_ms: float | None = None
    by_cause: dict[Cause, int] | None = None
    by_node: dict[str, OnNode] | None = None
    none_seen: bool | None = None
    """None where keys were seen."""

    def rows(self) -> Iterator[Row]:
        if self.watched:
            yield Row("keys", self._in_words(), order=70)
        elif self.asked:
            server = self.no_key_events
            why = f"{printable(server)} has no key events" if server else "logs/witness.log says why"
            yield Row("keys", f"the nodes were not watched: {why}", order=70)

    def _in_words(self) -> str:
        """`8 keys without an owner on a node, 5.4 s in all, the longest 994 ms: not released 3, given up 5`."""
        unseen = [printable(name) for name, node in (self.by_node or {}).items() if node.unseen_ms > 0]
        blind = f"; {', '.join(unseen)} out of sight for some time" if unseen else ""
        if self.none_seen:
            return f"no key of this lock was seen on the nodes, so nothing is known about keys without an owner{blind}"
        if not self.count:
            return f"no key was left on a node without an owner{blind}"
        causes = ", ".join(f"{cause} {number:,}" for cause, number in (self.by_cause or {}).items() if number)
        return (
            f"{count(self.count)} {'key' if self.count == 1 else 'keys'} without an owner on a node, "
            f"{milliseconds(self.total_ms)} in all, the longest {milliseconds(self.longest_ms)}: {causes}{blind}"
        )

    def parts(self) -> Iterator[Part]:
        sentences = tuple(row.text for row in self.rows())
        if not self.by_node:
            if sentences:
                yield Part(KEYS_ON_NODES, order=20, sentences=sentences)
            return
        columns = ("keys left without an owner", "in all", "longest", *CAUSES, "out of sight")
        rows = tuple((name, _node_cells(node)) for name, node in self.by_node.items())
        yield Part(
            KEYS_ON_NODES,
            order=20,
            sentences=sentences,
            tables=(Table("node", columns, rows),),
            note="Only cases that the nodes themselves showed with certainty. A key has an owner while the client "
            "that set it acquires, is inside or releases. A key without an owner keeps other clients out until it "
            "expires. It is left when its section's release or a refused attempt does not delete it, its client is "
            "killed, the SET takes effect too late, or the node comes back with it from disk.",
        )


def _node_cells(node: OnNode) -> tuple[str, ...]:
    return (
        count(node.count),
        milliseconds(node.total_ms),
        milliseconds(node.longest_ms),
        *(count(node.causes[cause]) for cause in CAUSES),
        milliseconds(node.unseen_ms),
    )


@dataclass(slots=True)
class _Orphan:
    """One value of one key on one node while it had no owner, also across times in which the node was out of sight."""

    node: str
    key: str
    value: str | None
    set_min_ns: int
    run: int
    """The run of the node's server in which it was first seen; -1 where that is not known."""
    pieces: list[tuple[int, int]] = field(default_factory=list)
    """When it had no owner and was in sight; none for a key that always had one."""
    cause: Cause = "given up"
    event: int = -1
    """Of the witness: it was set."""
    expires_ns: int = FOREVER_NS
    ttl_ms: float | None = None
    """What the last request gave it that set or prolonged it; None if that could not be read."""
    renewed_by: list[int] = field(default_factory=list)
    """The witness's events by which it was prolonged when its owner had been done with it for a while."""
    has_wrong_clock: bool = False
    """Whether the node may have kept it for longer than the lock had asked, because of its clock."""
    excused_ns: int = 0
    """When its time to live was set anew by a request that its owner may have sent before it was done, or later by so
    little that the call may not have known of it."""

    @property
    def since_ns(self) -> int:
        return self.pieces[0][0]

    @property
    def length_ns(self) -> int:
        return self.after_ns(0)

    def after_ns(self, at_ns: int) -> int:
        """The part of that after this time."""
        return sum(max(0, until - max(since, at_ns)) for since, until in self.pieces)


def check(run: Recorded) -> Answer:
    watched, owners = run.watched, run.owners
    if watched is None or owners is None:
        asked = run.config.witness == "on" and run.config.nodes_at is None
        return Answer(Figures(watched=False, asked=asked, no_key_events=run.unwatchable))
    orphans = _orphans(run, owners)
    everywhere = _on_node(orphans, 0)
    figures = Figures(
        watched=True,
        count=everywhere.count,
        total_ms=everywhere.total_ms,
        longest_ms=everywhere.longest_ms,
        by_cause=everywhere.causes,
        by_node={
            node: _on_node([orphan for orphan in orphans if orphan.node == node], _unseen_ms(run, watched, node))
            for node in run.config.node_names
        },
        none_seen=True if owners.holdings.empty and len(run.sections) else None,
    )
    return Answer(figures, _outlasting(run, owners, orphans))


def _orphans(run: Recorded, owners: Owners) -> list[_Orphan]:
    calls_again = _CallsAgain(run, owners)
    orphans: list[_Orphan] = []
    last: dict[tuple[str, str], _Orphan] = {}
    for row in owners.each:
        one = last.get((row.node, row.key))
        # The same value may be seen again, behind a time in which the node was out of sight.
        if row.began != "seen" or one is None or one.value is None or one.value != row.value:
            one = last[row.node, row.key] = _Orphan(row.node, row.lock_key, row.value, row.from_min_ns, row.run)
        free_ns = row.done_ns
        cause: Cause = "client gone" if row.is_gone else "not released" if row.section >= 0 else "given up"
        if one.set_min_ns > free_ns:
            cause = "set too late"
        elif row.run > one.run >= 0:
            cause = "back from disk"
        from_ns = max(free_ns, row.from_max_ns)
        to_ns = min(row.to_min_ns, row.expires_ns, row.taken_over_ns)
        if row.value is not None and row.value in owners.of_clients:
            to_ns = min(to_ns, calls_again.first(row.value, row.lock_key, free_ns))
        if to_ns <= from_ns:
            continue
        if not one.pieces:
            orphans.append(one)
            one.cause, one.event = cause, row.event
        one.has_wrong_clock |= run.wrong_clocks.touch(row.node, one.set_min_ns, to_ns)
        one.expires_ns, one.ttl_ms = row.expires_ns, row.ttls_ms[-1] if row.ttls_ms else None
        one.pieces.append((from_ns, to_ns))
        for at_ns, sent_ns in zip(row.renewals, row.renewals_sent, strict=True):
            # A request may have been on its way when its client was done with the key.
            if at_ns > from_ns and sent_ns <= free_ns + ARRIVES_WITHIN_NS:
                one.excused_ns = at_ns
        late = zip(row.renewed_by, row.renewals_sent, strict=True)
        one.renewed_by += [event for event, sent_ns in late if sent_ns > free_ns + ARRIVES_WITHIN_NS]
    return orphans


class _CallsAgain:
    """A client that calls again finds the value that it left, and owns it, unless it is refused, or sets another one in
    its new life."""

    def __init__(self, run: Recorded, owners: Owners) -> None:
        self._of_clients = owners.of_clients
        acquires = where(run.ops, run.ops["outcome"] != "fail", f="acquire")
        calls = sorted(rows_of(acquires, "invoke_ns", "life", "client", "key"), key=lambda call: call[:2])
        self._calls: Mapping[tuple[str, str], list[tuple[int, int]]] = grouped(
            ((run.config.owner_of(client), key), (at_ns, life)) for at_ns, life, client, key in calls
        )
        self._used: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        for place, (client, life) in enumerate(rows_of(run.sections, "client", "life")):
            self._used[run.config.owner_of(client), life] |= owners.values.get(place, set())

    def first(self, value: str, key: str, since_ns: int) -> int:
        """When the client of this value first called for the key from then on and may have got it; never, if it did
        not."""
        client = self._of_clients[value]
        calls = self._calls[client, key]
        for began_ns, life in calls[bisect_left(calls, (since_ns, 0)) :]:
            used = self._used[client, life]
            if not used or value in used:
                return began_ns
        return FOREVER_NS


def _on_node(orphans: Sequence[_Orphan], unseen_ms: float) -> OnNode:
    lengths = [orphan.length_ns for orphan in orphans]
    return OnNode(
        count=len(lengths),
        total_ms=sum(lengths) / 1e6,
        longest_ms=max(lengths, default=0) / 1e6,
        causes={cause: sum(orphan.cause == cause for orphan in orphans) for cause in CAUSES},
        unseen_ms=unseen_ms,
    )


def _unseen_ms(run: Recorded, watched: Watched, node: str) -> float:
    """For how long of the time from the start to the clients' end the node was not in sight."""
    start_ns, end_ns = run.timeline.start_ns, run.timeline.end_ns
    if end_ns is None:
        end_ns = max(window.to_ns for own in watched.windows.values() for window in own)
    return (max(0, end_ns - start_ns) - watched.ns(node, start_ns, end_ns)) / 1e6


def _in_the_way(run: Recorded, owners: Owners, orphans: list[_Orphan]) -> Iterator[_Orphan]:
    """The orphans that kept clients out for longer than two lease times after they had lost their owners."""
    for key, of_key in grouped((orphan.key, orphan) for orphan in orphans).items():
        left = {id(orphan): list(_leftovers(orphan, round(2e6 * run.lease_ms))) for orphan in of_key}
        nodes = nodes_in_the_way(run, owners, key, [one for some in left.values() for one in some])
        yield from (orphan for orphan in of_key if left[id(orphan)] and orphan.node in nodes)


def _leftovers(orphan: _Orphan, after_ns: int) -> Iterator[Leftover]:
    over_ns = orphan.since_ns + after_ns
    return (Leftover(orphan.node, max(since, over_ns), until) for since, until in orphan.pieces if until > over_ns)


def _outlasting(run: Recorded, owners: Owners, orphans: list[_Orphan]) -> tuple[Finding, ...]:
    """A key without an owner is gone one lease time later, unless the lock gave it more time than it said, or still
    extends it. An extension that was under way when its client was killed, or that a fault held up, may come late. A
    lock whose keys never have a time to live may keep their expiry elsewhere, and so may one whose clients take keys
    over from others: such keys may stay until a client wants them."""
    ttl_ns = run.lease_ms * 1_000_000
    over = [
        orphan
        for orphan in orphans
        if not orphan.has_wrong_clock and orphan.after_ns(orphan.excused_ns) > ttl_ns + OUTLASTS_BY_MS * 1_000_000
    ]
    if over and (has_no_expiry(owners) or (run.ledger is not None and are_taken_over(owners, run.ledger))):
        over = list(_in_the_way(run, owners, over))
    if not over:
        return ()
    worst = longest(over)
    text = (
        f"{len(over)} {'key' if len(over) == 1 else 'keys'} without an owner stayed on a node for longer than the TTL "
        f"({run.lease_ms:.0f} ms), up to {milliseconds(worst.length_ns / 1e6)}"
    )
    examples = tuple(
        {
            "node": orphan.node,
            "key": orphan.key,
            "cause": orphan.cause,
            **run.lasted(orphan),
            **({"ttl_ms": orphan.ttl_ms} if orphan.expires_ns >= FOREVER_NS or _is_overlong(run, orphan) else {}),
            **_set_late(run, orphan),
            **_renewed(run, orphan),
        }
        for orphan in worst_first(over, worst)
    )
    at_ms = run.at_ms(min(orphan.since_ns for orphan in over))
    return (OUTLASTS_TTL.found("lock", text, len(over), examples, at_ms),)


def _is_overlong(run: Recorded, orphan: _Orphan) -> bool:
    return orphan.ttl_ms is not None and orphan.ttl_ms > run.lease_ms + OUTLASTS_BY_MS


def _set_late(run: Recorded, orphan: _Orphan) -> dict[str, object]:
    """By which request, if it was set when its owner had given it up."""
    if orphan.cause != "set too late" or run.ledger is None:
        return {}
    row = run.ledger.row_of.get(orphan.event)
    if row is None or (change := run.ledger.change(row))["cause"] != "request":
        return {}
    is_renewal = not change["is_in_call"] and change["f"] in _INSIDE
    return {"by": client_of(change), "sent": how_sent(run, change), "in_background": is_renewal}


def _renewed(run: Recorded, orphan: _Orphan) -> dict[str, object]:
    """By whose requests it was prolonged although no call held it, how often, and by which request last."""
    if run.ledger is None or not orphan.renewed_by:
        return {}
    renewals = changes_where(run.ledger, run.ledger.rows["event"].isin(orphan.renewed_by))
    changes = [change for change in renewals if change["cause"] == "request"]
    if not changes:
        return {}
    return {"renewed": len(changes), "renewed_by": client_of(changes[-1]), "renewal": how_sent(run, changes[-1])}


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example, how = case.example, ""
    if "sent" in example:
        how = f" {case.text('by')} had set it: {case.text('sent')}."
    if example.get("in_background"):
        how += " It was a renewal in the background, which the release neither stopped nor waited for."
    cause: causes.Cause | None = "set again" if example.get("in_background") else None
    if "renewed" in example and cause is None:
        cause = "renewed unheld"
        times = case.counted("renewed", "time")
        how += f" {case.text('renewed_by')} went on prolonging it, {times}, although no call held it; last, "
        how += f"{example['renewal']}."
    if "ttl_ms" in example and cause is None:
        cause = "no expiry" if example["ttl_ms"] is None else "overlong"
        given = "no expiry" if example["ttl_ms"] is None else f"a TTL of {case.lasting('ttl_ms')}"
        how += f" The last request that set or prolonged it gave it {given}."
    return Told(
        f"{case.text('node')} kept a key of {case.text('key')} that had no owner for {case.lasting()}, from "
        f"{case.at()} on ({example['cause']}); the TTL is {run.lease_ms:,.0f} ms.{how}",
        cause=cause,
    )


OUTLASTS_TTL: Final = FindingKind(
    "orphan-outlasts-ttl",
    "liveness",
    _told,
    stands_for="stuck keys",
    comes_of=causes.LEAVE_KEYS,
    noun="orphaned key(s) kept beyond the TTL",
    surveyed="free",
)

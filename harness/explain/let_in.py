"""What the nodes answered two clients that were both let in, whichever keys the lock keeps, and what changed these
keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from fencepost.history import process_of
from fencepost.text import listed, printable
from harness.explain.causes import Cause
from harness.explain.examples import Side
from harness.explain.requests import client_of, how_sent
from harness.explain.wire_requests import WireRequest, WireRequests
from harness.explain.words import at
from harness.history.ledger import Change, Ledger
from harness.history.recorded import Recorded

_MOST_CHANGES: Final = 2
_LOOKS_BACK: Final = 100
"""So many changes before the later client was let in are looked at."""
_SETS_FIELDS: Final = ("HSET", "HMSET")
_DID: Final = {"deleted": "deleted", "overwritten": "set another value of", "prolonged": "prolonged"}
"""What no client may do to the key of another, the worst first."""


def let_in(run: Recorded, wire: WireRequests, earlier: Side, later: Side) -> str:
    """`n1 let both in: it answered c4's EXEC with [0,1,0] at +2.4 ms, and c3's EXEC with [0,1,0] at +4.1 ms. Then c5
    deleted k1:inside: in its release it sent DEL to n1 at +3.0 ms; the node answered 1.`, and what their requests did
    to the lock's keys. Empty if that is not on record."""
    both = _on_both(run, wire, earlier, later)
    if not both:
        return ""
    first, second = both[0]
    nodes = [one.node for one, _ in both]
    who = f"{listed(nodes)} let both in: {nodes[0]}" if len(nodes) > 1 else f"{nodes[0]} let both in: it"
    text = f"{who} answered {_answer(run, earlier, first)}, and {_answer(run, later, second)}."
    if run.ledger is None:
        return text
    on_node = _OnNode.of(run.ledger, nodes[0], earlier, later)
    changes = [f"{client_of(one)} {_DID[one['what']]} {_key(one)}: {how_sent(run, one)}" for one in on_node.changes()]
    parts = [text, f"Then {'; and '.join(changes)}." if changes else "", on_node.both_keys(), on_node.forgotten(run)]
    return " ".join(filter(None, parts))


def why_let_in(run: Recorded, wire: WireRequests, earlier: Side, later: Side) -> Cause:
    """By what another client did to the first one's key on a node that let both in; or by different keys, if they
    changed such there and nothing was done to the first one's."""
    on_node = _on_common_node(run, wire, earlier, later)
    if on_node is None:
        return "unknown"
    done = {str(change["what"]) for change in on_node.changes()}
    if "deleted" in done or on_node.forgotten(run):
        return "deleted"
    return "overwritten" if "overwritten" in done else "different keys" if on_node.are_apart else "unknown"


def late_release(run: Recorded, wire: WireRequests, earlier: Side, later: Side) -> bool:
    """Whether the node that let both in had lost the earlier client's key by a release that its process sent only when
    it had returned."""
    on_node = _on_common_node(run, wire, earlier, later)
    return on_node is not None and any(is_late_release(one, earlier) for one in on_node.changes())


def _on_common_node(run: Recorded, wire: WireRequests, earlier: Side, later: Side) -> _OnNode | None:
    """The first node that let both in; None if there is none, or what changed there is not on record."""
    both = _on_both(run, wire, earlier, later)
    return None if not both or run.ledger is None else _OnNode.of(run.ledger, both[0][0].node, earlier, later)


def _on_both(run: Recorded, wire: WireRequests, earlier: Side, later: Side) -> list[tuple[WireRequest, WireRequest]]:
    """By node that let both in, the last request of each that it answered."""
    first, second = (_last_answers(run, wire, side) for side in (earlier, later))
    return [(first[node], second[node]) for node in run.nodes if node in first and node in second]


def is_late_release(change: Change, owner: Side) -> bool:
    """Whether this is a release of an earlier section of the owner's process, sent after that had returned."""
    is_ended = change["outcome"] == "ok" and not change["is_in_call"]
    is_late = change["what"] == "deleted" and change["f"] == "release" and is_ended
    is_next_s = (change["task"], change["section"]) != (owner.client, owner.section)
    return bool(is_late and is_next_s and change["client"] == process_of(owner.client))


def _last_answers(run: Recorded, wire: WireRequests, side: Side) -> dict[str, WireRequest]:
    """By node, the last request of the client's acquire that was answered. Where it is not on record which task of a
    process sent what, only requests that changed a key are known to be one's."""
    ledger = run.ledger
    if "@" not in side.client or (ledger is not None and ledger.wire.notes_tasks):
        return {one.node: one for one in wire.of_client(side.client, side.asked_from_ns, side.start_ns)}
    if ledger is None:
        return {}
    rows = ledger.rows
    asked = [wire.at(int(request)) for request in rows["request"][side.made(rows, "acquire")]]
    return {one.node: one for one in asked if one is not None and one.from_node_ns is not None}


def _answer(run: Recorded, side: Side, request: WireRequest) -> str:
    assert request.from_node_ns is not None
    return f"{side.client}'s {request.command} with {printable(request.reply_label)} at {at(run, request.from_node_ns)}"


@dataclass(frozen=True, slots=True)
class _OnNode:
    """What requests changed on a node until the later client was let in, in the node's order. `first`, `second`: the
    changes by the acquire of the earlier client, and of the later one."""

    ledger: Ledger
    earlier: Side
    later: Side
    rows: list[Change]
    first: list[Change]
    second: list[Change]

    @classmethod
    def of(cls, ledger: Ledger, node: str, earlier: Side, later: Side) -> Self:
        rows = ledger.rows
        here = (rows["node"] == node) & (rows["cause"] == "request") & (rows["to_node_ns"] <= later.start_ns)
        here &= rows["request"] >= 0
        some = rows[here.to_numpy(bool)][-_LOOKS_BACK:]
        changes, first, second = (
            [ledger.change(row) for row in part.index.tolist()]
            for part in (some, some[earlier.made(some, "acquire")], some[later.made(some, "acquire")])
        )
        return cls(ledger, earlier, later, changes, first, second)

    def changes(self) -> list[Change]:
        """What other clients, or calls for other sections, did after the first was let in to the keys that its acquire
        had changed."""
        if not self.first:
            return []
        begun_ns = max(one["to_node_ns"] for one in self.first)
        keys, own = {one["key"] for one in self.first}, (self.earlier.client, self.earlier.section)
        meant = [
            {**one, "what": "overwritten"} if self._sets_a_field_anew(one) else one
            for one in self.rows
            if one["key"] in keys and (one["task"], one["section"]) != own
            if one["to_node_ns"] > begun_ns and one["what"] in _DID
        ]
        return sorted(meant, key=lambda one: list(_DID).index(one["what"]))[:_MOST_CHANGES]

    def _sets_a_field_anew(self, change: Change) -> bool:
        """Whether it gives another value to a field of a hash that the first client's acquire had set."""
        own = [fields for one in self.first if one["key"] == change["key"] for fields in (self._fields(one),) if fields]
        new = self._fields(change)
        return any(new.get(field, value) != value for fields in own for field, value in fields.items())

    def _fields(self, change: Change) -> dict[str, str]:
        """The fields and values of a HSET that was sent as a single command."""
        if change["did"] not in _SETS_FIELDS or change["did"] != change["command"]:
            return {}
        words = self.ledger.wire.requests["arguments"][int(change["request"])].as_py()[1:]
        return dict(zip(words[::2], words[1::2], strict=False))

    @property
    def are_apart(self) -> bool:
        """Whether the two changed different keys."""
        first, second = ({change["key"] for change in some} for some in (self.first, self.second))
        return bool(first and second) and first.isdisjoint(second)

    def both_keys(self) -> str:
        """Whether the two changed different keys, or the same one that was still there."""
        if not self.first or not self.second:
            return ""
        one, other = self.first[-1], self.second[-1]
        if self.are_apart:
            one_key, other_key = (printable(str(change["key"])) for change in (one, other))
            keys = f"{self.earlier.client} {one_key}, and {self.later.client} {other_key}"
            return f"They changed different keys: {keys}."
        if other["owner"] < 0 or other["owner"] not in {change["owner"] for change in self.first}:
            return ""
        value = other["value"] or ""
        same = f" Both set the same value, {printable(value)}." if value and value == one["value"] else ""
        return f"{self.later.client} changed {_key(other)} while {self.earlier.client}'s change was still in it.{same}"

    def forgotten(self, run: Recorded) -> str:
        """The last deletion of one of their keys to which others had added since the deleting client's own request."""
        keys = {one["key"] for one in (*self.first, *self.second)}
        told = [one["row"] for one in self.changes()]
        for gone in reversed(self.rows):
            if gone["what"] != "deleted" or gone["key"] not in keys or gone["row"] in told:
                continue
            since = [one for one in self.rows if one["owner"] == gone["owner"] and one["row"] < gone["row"]]
            if since and since[-1]["what"] == "changed" and since[-1]["client"] != gone["client"]:
                what = f"deleted {_key(gone)} with what {client_of(since[-1])} had added to it"
                return f"Before that, {client_of(gone)} {what}: {how_sent(run, gone)}."
        return ""


def _key(change: Change) -> str:
    return f"the key {printable(str(change['key']))}"

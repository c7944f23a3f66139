"""What the nodes are known to have done, from the witness's events and the clients' requests.

Both have the same form, a `NodeEvent`: something that happened to a key on a node, between two times. The witness knows
what happened, and in which order on one node; the ledger says by which request, and so who did it and when. Where the
node was not watched, a reply may still prove what it did.

Without a record of the links, the value of a lease identifies the owner of a key.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from fencepost.history import KeyEvent, process_of, task_names
from harness.explain.replies import Asked, Span, asked_in
from harness.explain.wire_requests import WireRequest, WireRequests
from harness.explain.witnessed import Causes, NodeEvent, Witnessed, since_of
from harness.history.groups import grouped, rows_of
from harness.history.key_holdings import Watched
from harness.history.ledger import Change, Ledger
from harness.history.recorded import Recorded
from harness.store.wire import Wire

Owner = tuple[str, int]
"""A client and its section."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """`events`: by key and node, in order. `asked`: by client and node, the requests for the lock's keys, in order;
    `requests`: the same by their places in `requests.parquet`; `recorded`: the nodes of whose requests none is missing;
    `unclear`: tasks and nodes where requests of the process may be of several tasks.
    `watched`: what the witness saw; `recognised`: the keys for which it saw a known
    lease; `seen`: by key and node, all that it saw, in the node's order; `values`: those of each client and section."""

    events: Mapping[tuple[str, str], Sequence[NodeEvent]] = field(default_factory=dict)
    asked: Mapping[tuple[str, str], Sequence[Asked]] = field(default_factory=dict)
    requests: Mapping[int, Asked] = field(default_factory=dict)
    recorded: frozenset[str] = frozenset()
    unclear: frozenset[tuple[str, str]] = frozenset()
    watched: Watched | None = None
    recognised: frozenset[str] = frozenset()
    seen: Mapping[tuple[str, str], Sequence[NodeEvent]] = field(default_factory=dict)
    values: Mapping[Owner, Set[str]] = field(default_factory=dict)
    ledger: Ledger | None = None
    wire: WireRequests | None = None

    def loss_of(self, granted: NodeEvent) -> Change | None:
        """What ended the value that was set, by the ledger; None if that is not on record. What the owner's own
        extension set over it and was gone before it could be read may have been the same value once more."""
        seen, ledger = self.set_of(granted), self.ledger
        if ledger is None or seen is None or seen.order is None:
            return None
        end = ledger.end_of_event(seen.order)
        while end is not None and _may_be_the_same_again(ledger, end):
            if (following := ledger.end_of_event(end["event"])) is None:
                break
            end = following
        return end

    def end_of(self, granted: NodeEvent) -> NodeEvent | None:
        """What ended the value that was set: it was deleted, it expired, or another one was set over it. None if the
        witness did not see it from then on."""
        seen = self.set_of(granted)
        if seen is None:
            return None
        events = self.seen[granted.key, granted.node]
        following = events[events.index(seen) + 1 :]
        first = next((e for e in following if e.what != "prolonged" and not e.sets(granted.value)), None)
        if first is None or not self.saw_all(granted.node, granted.key, seen.after_ns, first.by_ns):
            return None
        return first

    def was_unread_before(self, granted: NodeEvent) -> bool:
        """Whether the witness saw this grant's SET come over a value that it had had no time to read."""
        seen = self.set_of(granted)
        if seen is None:
            return False
        events = [e for e in self.seen[granted.key, granted.node] if e.what != "prolonged"]
        place = events.index(seen)
        return place > 0 and events[place - 1].what == "granted" and events[place - 1].value is None

    def set_of(self, granted: NodeEvent) -> NodeEvent | None:
        """The SET of this grant, if the witness saw it. A lock may use one value again and again: only what was set at
        that time can be it."""
        events = self.seen.get((granted.key, granted.node), ())
        if granted.order is not None:
            return next((e for e in events if e.order == granted.order), None)
        by_value = (e for e in reversed(events) if e.sets(granted.value) and granted.may_be(e))
        return next(by_value, None) or next((e for e in reversed(events) if self._is_on_record(e, granted)), None)

    def _is_on_record(self, event: NodeEvent, granted: NodeEvent) -> bool:
        """Whether the ledger says that this is the SET of the grant, if the value could not be read."""
        is_unread = self.ledger is not None and event.what == "granted" and event.value is None
        is_own = event.client is not None and (event.client, event.section) == (granted.client, granted.section)
        return is_unread and is_own and granted.may_be(event)

    def set_nothing(self, owner: Owner, node: str, key: str, from_ns: int, to_ns: int) -> bool:
        """Whether the witness saw everything in this time, and no SET that can have been the owner's."""
        if owner not in self.values or not self.saw_all(node, key, from_ns, to_ns):
            return False
        own = self.values[owner]
        return not any(
            event.what == "granted"
            and (event.value is None or event.value in own)
            and event.by_ns >= from_ns
            and event.after_ns <= to_ns
            for event in self.seen.get((key, node), ())
        )

    def on(self, node: str, key: str) -> Sequence[NodeEvent]:
        return self.events.get((key, node), ())

    def asked_by(self, client: str, node: str, key: str, from_ns: int, to_ns: int) -> list[Asked]:
        """With which requests the client asked the node for the key in this time."""
        return [
            one
            for one in self.asked.get((client, node), ())
            if one.can_acquire and one.key == key and from_ns <= one.request.sent_ns <= to_ns
        ]

    def has_members(self, key: str) -> bool:
        """Whether the key holds several members, as a sorted set does, so that clients may share it."""
        rows = None if self.ledger is None else self.ledger.rows
        return rows is not None and bool(((rows["key"] == key) & (rows["what"] == "changed")).any())

    def sent_nothing(self, client: str, node: str, from_ns: int, to_ns: int) -> bool:
        """Whether the client sent the node no request in this time, for whatever key."""
        return self.wire is None or not self.wire.were_sent(process_of(client), [node], from_ns, to_ns)

    def asked_last(self, client: str, from_ns: int, to_ns: int) -> str | None:
        """The key for which the client asked last in this time; None if it asked for none."""
        sent = [one for (name, _), some in self.asked.items() if name == client for one in some if one.can_acquire]
        within = [one for one in sent if from_ns <= one.request.sent_ns <= to_ns]
        return max(within, key=lambda one: one.request.sent_ns).key if within else None

    def has_all(self, client: str, node: str) -> bool:
        """Whether every request of the client to the node is on record as its own."""
        return node in self.recorded and (client, node) not in self.unclear

    def may_take_another(self, request: WireRequest, by_ns: int) -> bool:
        """Whether a client that is out of step takes a yes to an earlier request for the reply to this one."""
        row = None if self.wire is None else self.wire.taken_for(request, by_ns)
        return row is not None and row in self.requests and self.requests[row].did == "granted"

    def saw_all(self, node: str, key: str, from_ns: int, to_ns: int) -> bool:
        """Whether the witness would have seen every set of this key on the node in this time."""
        return key in self.recognised and self.watched is not None and self.watched.saw(node, from_ns, to_ns)


def gather(run: Recorded, spans: Sequence[Span]) -> Evidence:
    """The evidence for these spans, without copies of keys. Raises UsageError for damaged logs."""
    if not spans:
        return Evidence()
    copies = run.owners.copies if run.owners else frozenset()

    def is_near(e: KeyEvent) -> bool:
        return e.key not in copies and any(s.from_ns <= e.at_ns and since_of(e) <= s.to_ns for s in spans)

    shown = _shown(run, {span.key for span in spans})
    keys = _keys(run, spans)
    seen = ((order, one) for order, one in enumerate(run.key_events()) if is_near(one))
    witnessed = Witnessed.of(seen, shown, Causes.of(run.ledger, keys), has_slots=not run.is_exclusive)
    record = run.wire()
    wire = None if record is None else WireRequests(Wire(record.requests, record.connections), run.config.node_names)
    asked = [] if record is None or wire is None else asked_in(run, record, wire, spans, witnessed.names)
    proven = [_proven(one) for one in _unseen(asked, run.ledger)]
    by_time = sorted([*witnessed.events, *proven], key=lambda event: (event.by_ns, event.order or 0, event.after_ns))
    values = grouped(((client, section), value) for value, who in shown.items() for client, section, _ in who)
    return Evidence(
        _by_key(by_time),
        grouped(((one.client, one.request.node), one) for one in asked if one.client is not None),
        {one.request.row: one for one in asked},
        frozenset() if record is None else record.recorded,
        _unclear(run, asked),
        run.watched,
        frozenset(witnessed.shown_as.values()),
        _by_key(witnessed.events),
        {owner: set(own) for owner, own in values.items()},
        run.ledger,
        wire,
    )


def _by_key(events: Iterable[NodeEvent]) -> dict[tuple[str, str], list[NodeEvent]]:
    """By key and node."""
    return grouped(((event.key, event.node), event) for event in events)


def _keys(run: Recorded, spans: Sequence[Span]) -> Collection[str]:
    """The lock's keys on the nodes. Those of a semaphore may hold members, which are no clients' own."""
    if run.ledger is None:
        return ()
    names = run.ledger.rows["key"].cat.categories
    similar = [name for name in names if not run.is_exclusive and any(span.key in name for span in spans)]
    return run.lock_keys or similar


def _unseen(asked: Collection[Asked], ledger: Ledger | None) -> list[Asked]:
    """The requests whose replies prove that the node did something which the witness did not see."""
    told = [one for one in asked if one.did is not None]
    if ledger is None or not told:
        return told
    known = ledger.rows["request"].to_numpy(np.int64)
    is_known = np.isin([one.request.row for one in told], known)
    return [one for one, seen in zip(told, is_known.tolist(), strict=True) if not seen]


def _unclear(run: Recorded, asked: Collection[Asked]) -> frozenset[tuple[str, str]]:
    links = {(one.request.client, one.request.node) for one in asked if one.client is None}
    return frozenset((task, node) for client, node in links for task in task_names(client, run.config.users_per_client))


def _proven(one: Asked) -> NodeEvent:
    request = one.request
    assert one.did is not None
    assert request.from_node_ns is not None
    after_ns = request.sent_ns if request.to_node_ns is None else request.to_node_ns
    whose = one.client, one.section, one.value
    return NodeEvent(request.node, one.key, one.did, after_ns, request.from_node_ns, *whose, request=request.row)


def _shown(run: Recorded, keys: Container[str]) -> dict[str, set[tuple[str, int, str]]]:
    """The owners of each value that requests set for sections, as client, section and key."""
    owners: dict[str, set[tuple[str, int, str]]] = {}
    if run.owners is not None:
        sections = [*rows_of(run.sections.astype({"client": str, "key": str}), "client", "section", "key")]
        own = [(value, place) for place, values in run.owners.values.items() for value in values]
        shared = [(value, place) for (_, value), places in run.owners.shared.items() for place in places]
        for value, place in (*own, *shared):
            if sections[place][2] in keys:
                owners.setdefault(value, set()).add(sections[place])
    return owners


def _may_be_the_same_again(ledger: Ledger, change: Change) -> bool:
    if change["what"] != "overwritten" or change["value"] is not None or change["f"] != "extend" or change["of"] < 0:
        return False
    return bool(change["task"] == ledger.change(int(change["of"]))["task"])

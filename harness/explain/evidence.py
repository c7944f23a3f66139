"""What the nodes are known to have done: from their replies to clients, and from the witness's events.

Both have the same form, a `NodeEvent`: something that happened to a key on a node, between two times. For a reply these
are the times before the request and after the reply was read. The witness provides bounds too, and knows the order of
events on one node.

Clients know who did what; the witness knows only what happened. So for a lock that exposes its nodes' replies these are
used, and the witness adds what no client learned: keys that expired, and grants whose reply never arrived. For any
other lock the witness is the only source, and the value of a lease identifies the owner of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from fencepost.history import Held, KeyEvent, NodeReply, Round, lock_key
from harness.history.fault_windows import FOREVER_NS
from harness.history.key_owners import Owners
from harness.history.ledger import Change, Doer, Ledger
from harness.store.run_folder import RunFolder

What = Literal["granted", "prolonged", "deleted", "expired"]

_DONE: Final[Mapping[str, tuple[What, str]]] = {
    "acquire": ("granted", "OK"),
    "extend": ("prolonged", "1"),
    "undo": ("deleted", "1"),
    "release": ("deleted", "1"),
}
"""What a round did on a node, and the reply that confirms it."""
_SEEN: Final[Mapping[str, What]] = {
    "set": "granted",
    "prolonged": "prolonged",
    "deleted": "deleted",
    "expired": "expired",
}
Owner = tuple[str, int]
"""A client and its section."""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Something that happened to a key on a node, between `after_ns` and `by_ns`.

    `client`, `section`: who did it (None: unknown, or the key expired). `value`: the key's value, or the one that
    should be deleted. `order`: its place among all events that the witness saw on this node; None if it did not see it.
    """

    node: str
    key: str
    what: What
    after_ns: int
    by_ns: int
    client: str | None = None
    section: int | None = None
    value: str | None = None
    order: int | None = None

    @property
    def whose(self) -> tuple[str | None, int | None, str | None]:
        return self.client, self.section, self.value

    def may_be_of(self, client: str, section: int) -> bool:
        """Whether this client did it, in this section for all that is known."""
        return self.client == client and self.section in (section, None)

    def sets(self, value: str | None) -> bool:
        return self.what == "granted" and self.value is not None and self.value == value

    def may_be(self, other: NodeEvent) -> bool:
        """Whether both may tell of the same thing on the same node."""
        if self.order is not None and other.order is not None:
            return self.order == other.order
        return self.after_ns <= other.by_ns and other.after_ns <= self.by_ns

    def may_follow(self, other: NodeEvent) -> bool:
        """Whether this may have happened after the other, on the same node."""
        if self.order is not None and other.order is not None:
            return self.order > other.order
        return self.by_ns > other.after_ns

    def surely_follows(self, other: NodeEvent) -> bool:
        if self.order is not None and other.order is not None:
            return self.order > other.order
        return self.after_ns > other.by_ns


class Span(NamedTuple):
    """A key and the time that matters for it."""

    key: str
    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """`events`: by key and node, in order. `rounds`: the acquiring rounds by client and section, in order. `watched`:
    by node, from when to when the witness saw everything; `recognised`: the keys for which it saw a known lease;
    `seen`: by key and node, all that it saw, in the node's order; `values`: those of each client and section."""

    events: Mapping[tuple[str, str], Sequence[NodeEvent]] = field(default_factory=dict)
    rounds: Mapping[Owner, Sequence[Round]] = field(default_factory=dict)
    watched: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    recognised: frozenset[str] = frozenset()
    seen: Mapping[tuple[str, str], Sequence[NodeEvent]] = field(default_factory=dict)
    values: Mapping[Owner, Set[str]] = field(default_factory=dict)
    ledger: Ledger | None = None

    def loss_of(self, granted: NodeEvent) -> Change | None:
        """What ended the value that was set, by the ledger; None if that is not on record."""
        seen = self.set_of(granted)
        if self.ledger is None or seen is None or seen.order is None:
            return None
        end = self.ledger.end_of_event(seen.order)
        return None if end is None else self.ledger.change(end)

    def gone(self, granted: NodeEvent) -> list[NodeEvent]:
        """The deletions and expiries of this key that the witness saw."""
        events = self.seen.get((granted.key, granted.node), ())
        return [event for event in events if event.what in ("deleted", "expired")]

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
        by_value = (e for e in reversed(events) if e.sets(granted.value) and granted.may_be(e))
        return next(by_value, None) or next((e for e in reversed(events) if self._is_on_record(e, granted)), None)

    def _is_on_record(self, event: NodeEvent, granted: NodeEvent) -> bool:
        """Whether the ledger says that this is the SET of the grant, if the value could not be read."""
        is_unread = self.ledger is not None and event.what == "granted" and event.value is None
        is_own = event.client is not None and (event.client, event.section) == (granted.client, granted.section)
        return is_unread and is_own and granted.may_be(event)

    def never_set(self, one: Round, node: str, until_ns: int) -> bool:
        """Whether the witness saw everything since this round, and no SET of its value on the node."""
        events = self.seen.get((one.key, node), ())
        return self.saw_all(node, one.key, one.asked_ns, until_ns) and not any(
            event.sets(one.value) or (event.what == "granted" and event.value is None and event.by_ns >= one.asked_ns)
            for event in events
        )

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

    def granting(self, client: str, section: int, start_ns: int) -> Round | None:
        """The round after which the client entered; None if it was not recorded."""
        before = [one for one in self.rounds.get((client, section), ()) if one.done_ns <= start_ns]
        return before[-1] if before else None

    def saw_all(self, node: str, key: str, from_ns: int, to_ns: int) -> bool:
        """Whether the witness would have seen every set of this key on the node in this time."""
        watched = self.watched.get(node, ())
        return key in self.recognised and any(since <= from_ns and to_ns <= until for since, until in watched)


def gather(
    folder: RunFolder,
    spans: Sequence[Span],
    owners: Owners | None = None,
    ledger: Ledger | None = None,
    keys: Container[str] = (),
) -> Evidence:
    """The evidence for these spans in the run's folder; if `owners` are known, without copies of keys. `keys`: the
    names of the lock's keys on the nodes. Raises UsageError for damaged logs."""
    if not spans:
        return Evidence()
    wanted: dict[str, list[Span]] = {}
    for span in spans:
        wanted.setdefault(span.key, []).append(span)

    def matters(key: str, from_ns: int, to_ns: int) -> bool:
        return any(from_ns <= span.to_ns and to_ns >= span.from_ns for span in wanted.get(key, ()))

    copies = owners.copies if owners else frozenset()

    def is_seen(e: KeyEvent) -> bool:
        return not e.key or (e.key not in copies and any(s.from_ns <= e.at_ns and _since(e) <= s.to_ns for s in spans))

    return assemble(
        (
            (c, one)
            for c, _, rounds in folder.read_answers()
            for one in rounds
            if matters(lock_key(one.key), one.asked_ns, one.done_ns)
        ),
        folder.read_nodes(),
        ((c, held) for c, _, of_client in folder.read_held() for held in of_client if held.key in wanted),
        is_seen,
        ledger,
        keys,
    )


def assemble(
    rounds: Iterable[tuple[str, Round]],
    seen: Iterable[KeyEvent] = (),
    held: Iterable[tuple[str, Held]] = (),
    matters: Callable[[KeyEvent], bool] = lambda event: True,
    ledger: Ledger | None = None,
    keys: Container[str] = (),
) -> Evidence:
    """The evidence from rounds and held values, each given with its client, and from those of all of the witness's
    events that matter. `ledger`: it knows whose request led to an event of one of these `keys`."""
    told = list(rounds)
    shown = _shown(told, held)
    answered = [event for client, one in told for reply in one.replies for event in _answered(client, one, reply)]
    known = {} if ledger is None else ledger.doers(keys)
    witnessed = _Witnessed.of(((order, one) for order, one in enumerate(seen) if matters(one)), shown, known)
    added = witnessed.events
    if any(one.replies for _, one in told):
        granted = {(event.node, event.value) for event in answered if event.what == "granted"}
        added = [
            event
            for event in added
            if event.what == "expired"
            or (event.what == "granted" and event.client is not None and (event.node, event.value) not in granted)
        ]
    all_seen: dict[tuple[str, str], list[NodeEvent]] = {}
    for event in witnessed.events:
        all_seen.setdefault((event.key, event.node), []).append(event)
    events: dict[tuple[str, str], list[NodeEvent]] = {}
    for event in sorted([*answered, *added], key=lambda event: (event.by_ns, event.order or 0, event.after_ns)):
        events.setdefault((event.key, event.node), []).append(event)
    acquiring: dict[Owner, list[Round]] = {}
    for client, one in sorted(told, key=lambda pair: pair[1].asked_ns):
        if one.f == "acquire":
            acquiring.setdefault((client, one.section), []).append(one)
    values: dict[Owner, set[str]] = {}
    for value, who in shown.items():
        for client, section, _ in who:
            values.setdefault((client, section), set()).add(value)
    recognised = frozenset(witnessed.names.values())
    return Evidence(events, acquiring, witnessed.watched, recognised, all_seen, values, ledger)


def _shown(told: Iterable[tuple[str, Round]], held: Iterable[tuple[str, Held]]) -> dict[str, set[tuple[str, int, str]]]:
    """The owners of each value, as client, section and key. The key is the one on the nodes if a round shows it."""
    owners: dict[str, set[tuple[str, int, str]]] = {}
    for client, one in told:
        owners.setdefault(one.value, set()).add((client, one.section, one.key))
    for client, value in held:
        who = owners.setdefault(value.value, set())
        if (client, value.section) not in {(owner, section) for owner, section, _ in who}:
            who.add((client, value.section, value.key))
    return owners


def _answered(client: str, one: Round, reply: NodeReply) -> Iterator[NodeEvent]:
    what, yes = _DONE[one.f]
    if reply.said == yes and reply.at_ns is not None:
        yield NodeEvent(reply.node, one.key, what, one.asked_ns, reply.at_ns, client, one.section, one.value)


@dataclass(frozen=True, slots=True)
class _Witnessed:
    """What the witness saw, and by node when it saw everything. `names`: a lock's key may have a different name on the
    nodes; the value of a lease shows which key is meant. A value that one client uses again and again shows that
    client, one that several clients use shows nobody."""

    events: list[NodeEvent]
    watched: dict[str, list[tuple[int, int]]]
    names: dict[str, str]

    @classmethod
    def of(
        cls,
        seen: Iterable[tuple[int, KeyEvent]],
        shown: Mapping[str, set[tuple[str, int, str]]],
        doers: Mapping[int, Doer],
    ) -> _Witnessed:
        """`seen`: events by their places among all. `doers`: by place, who did it, as far as that is on record."""
        found = cls([], {}, {})
        keys = {value: {key for _, _, key in who} for value, who in shown.items()}
        owners = {value: _owner(who) for value, who in shown.items()}
        raw: list[tuple[int, KeyEvent]] = []
        since: dict[str, int] = {}
        for order, one in seen:
            if one.event == "watching":
                since[one.node] = one.at_ns
            elif one.event == "blind" and one.node in since:
                found.watched.setdefault(one.node, []).append((since.pop(one.node), one.at_ns))
            elif one.event in _SEEN:
                raw.append((order, one))
                if len(names := keys.get(one.value or "", ())) == 1:
                    found.names[one.key] = next(iter(names))
                elif order in doers:
                    found.names.setdefault(one.key, doers[order].key)
        for node, began_ns in since.items():
            found.watched.setdefault(node, []).append((began_ns, FOREVER_NS))
        for order, one in raw:
            client, section = owners.get(one.value or "", (None, None))
            if order in doers:
                client, section = doers[order].client, doers[order].section
            key, what = found.names.get(one.key, one.key), _SEEN[one.event]
            found.events.append(
                NodeEvent(one.node, key, what, _since(one), one.at_ns, client, section, one.value, order)
            )
        return found


def _owner(who: Collection[tuple[str, int, str]]) -> tuple[str | None, int | None]:
    """The client and the section that use a value, as far as the value shows them."""
    clients, sections = {client for client, _, _ in who}, {section for _, section, _ in who}
    if len(clients) > 1:
        return None, None
    return next(iter(clients)), next(iter(sections)) if len(sections) == 1 else None


def _since(event: KeyEvent) -> int:
    return event.at_ns if event.since_ns is None else event.since_ns

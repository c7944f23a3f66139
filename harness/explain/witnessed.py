"""What happened to the lock's keys on the nodes: each change, its time and the client that made it. A change that the
witness saw comes with its request, where that is on record."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from fencepost.history import KeyEvent
from harness.history.commands import ADD, POP, RAISE, REMOVE
from harness.history.ledger import Doer, Ledger

What = Literal["granted", "prolonged", "deleted", "expired"]

_DONE: Final[Mapping[str, What]] = {
    "set": "granted",
    "overwritten": "granted",
    "prolonged": "prolonged",
    "deleted": "deleted",
    "expired": "expired",
}
_TAKES: Final = (*REMOVE, *POP)
_ADDS: Final = (*ADD, *RAISE)


def what_was_done(change: str, command: str | None) -> What | None:
    """What a change of a key means: to a key that holds several members, one was granted if one was added. None if it
    means nothing here, as if a member was taken out and others stay. `command`: which made the change."""
    if change in ("set", "overwritten") and command in _TAKES:
        return None
    return "granted" if change == "changed" and command in _ADDS else _DONE.get(change)


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Something that happened to a key on a node, between `after_ns` and `by_ns`.

    `client`, `section`: who did it (None: unknown, or the key expired). `value`: the key's value, or the one that
    should be deleted. `order`: its place among all events that the witness saw on this node; None if it did not see it.
    `request`: the one that did it, by its place in `requests.parquet`; None if that is not on record.
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
    request: int | None = None

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


class Causes(NamedTuple):
    """By the witness's event: who did it, and the request that did it, with the times at which the node got it and had
    answered it; as far as these are on record."""

    doers: Mapping[int, Doer]
    requests: Mapping[int, tuple[int, int, int]]

    @classmethod
    def of(cls, ledger: Ledger | None, keys: Container[str]) -> Causes:
        if ledger is None:
            return cls({}, {})
        rows = ledger.rows[((ledger.rows["event"] >= 0) & (ledger.rows["cause"] == "request")).to_numpy(bool)]
        columns = (rows[name].tolist() for name in ("event", "request", "to_node_ns", "from_node_ns"))
        return cls(ledger.doers(keys), {event: tuple(of) for event, *of in zip(*columns, strict=True)})


@dataclass(frozen=True, slots=True)
class Witnessed:
    """What the witness saw. `names`: a lock's key may have a different name on the
    nodes; the request that set it, or the value of a lease, shows which key is meant. A value that one client uses
    again and again shows that client, one that several clients use shows none. `shown_as`: what explanations call
    each: several that stand for one key, as the places of a semaphore do, by their own names."""

    events: list[NodeEvent]
    names: dict[str, str]
    shown_as: dict[str, str]

    @classmethod
    def of(
        cls,
        seen: Iterable[tuple[int, KeyEvent]],
        shown: Mapping[str, set[tuple[str, int, str]]],
        causes: Causes,
        *,
        has_slots: bool,
    ) -> Witnessed:
        """`seen`: events by their places among all."""
        found = cls([], {}, {})
        keys = {value: {key for _, _, key in who} for value, who in shown.items()}
        owners = {value: _owner(who) for value, who in shown.items()}
        raw: list[tuple[int, KeyEvent]] = []
        for order, one in seen:
            if what_was_done(one.event, one.command if has_slots or one.command in _TAKES else None) is not None:
                raw.append((order, one))
                if order in causes.doers:
                    found.names[one.key] = causes.doers[order].key
                elif len(names := keys.get(one.value or "", ())) == 1:
                    found.names.setdefault(one.key, next(iter(names)))
        has_slots = has_slots or len(set(found.names.values())) < len(found.names)
        found.shown_as.update((name, name if has_slots else key) for name, key in found.names.items())
        for order, one in raw:
            client, section = owners.get(one.value or "", (None, None))
            if order in causes.doers:
                client, section = causes.doers[order].client, causes.doers[order].section
            what = what_was_done(one.event, one.command)
            assert what is not None
            request, after_ns, by_ns = causes.requests.get(order, (None, -1, -1))
            after_ns, by_ns = max(since_of(one), after_ns), one.at_ns if by_ns < 0 else min(one.at_ns, by_ns)
            key, whose = found.shown_as.get(one.key, one.key), (client, section, one.value)
            event = NodeEvent(one.node, key, what, after_ns, by_ns, *whose, order=order, request=request)
            found.events.append(event)
        return found


def _owner(who: Collection[tuple[str, int, str]]) -> tuple[str | None, int | None]:
    """The client and the section that use a value, as far as the value shows them."""
    clients, sections = {client for client, _, _ in who}, {section for _, section, _ in who}
    if len(clients) > 1:
        return None, None
    return next(iter(clients)), next(iter(sections)) if len(sections) == 1 else None


def since_of(event: KeyEvent) -> int:
    return event.at_ns if event.since_ns is None else event.since_ns

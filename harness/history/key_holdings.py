"""What the nodes held and when, from the witness's events. *Holdings*: one row for each time that a node held one value
of a key.

node, key        the key's name on the node
value            the value, or missing
from_min_ns, from_max_ns  it was set between these two
to_min_ns, to_max_ns      it was certainly there until the first, and certainly gone after the second
began            "set", or "seen": it was there when the witness started (or resumed) watching the node
ended            "deleted", "expired", "evicted", "overwritten" (by another value), "set unread" (by a value that was
                 gone before it was read: perhaps the same one), or "lost": the witness could no longer watch the node
expires_ns       it cannot have expired before this by the node's clock
expires_max_ns   it has certainly expired by then, by the node's clock; forever if its time to live was not read
renewals         when its time to live was set anew, each at the latest, in order
before_renewals  for each of these, no earlier than when it was, and by when the key would have certainly expired
                 without it; forever if its time to live before was not read
ttls_ms          its time to live when it was set, and at each of the renewals, as soon as it could be read; None if not
run              a number for each run of the node's server; -1 if watching ended before that was known
is_hash          the key was a hash, and the value its fields
event            the place in `nodes.jsonl` of the event that began it
renewed_by       for each of the renewals, the place of its event

For a holding that was lost, `to_max_ns` is when the node was watched again: until then its state is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd

from fencepost.history import KeyEvent
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import table_of
from harness.history.key_changes import expiry_of


class InSight(NamedTuple):
    """A time during which everything that a node held is known, and which run of its server that was."""

    from_ns: int
    to_ns: int
    run: int


@dataclass(frozen=True, slots=True)
class Watched:
    """What the witness recorded about the nodes' keys. `windows`: by node that it ever saw, in order."""

    holdings: pd.DataFrame
    windows: Mapping[str, Sequence[InSight]]

    def of(self, node: str) -> Sequence[InSight]:
        return self.windows.get(node, ())

    def saw(self, node: str, from_ns: int, to_ns: int) -> bool:
        """Whether the node was in sight all that time."""
        return any(window.from_ns <= from_ns and to_ns <= window.to_ns for window in self.of(node))

    def ns(self, node: str, from_ns: int, to_ns: int) -> int:
        """For how much of that time it was in sight."""
        return sum(max(min(window.to_ns, to_ns) - max(window.from_ns, from_ns), 0) for window in self.of(node))


@dataclass(slots=True)
class _HoldingRow:
    """A row, with the columns in their order."""

    node: str
    key: str
    value: str | None
    from_min_ns: int
    from_max_ns: int
    began: str
    is_hash: bool
    expires_max_ns: int
    expires_ns: int
    run: int
    event: int
    ttls_ms: tuple[int | None, ...]
    to_min_ns: int = 0
    to_max_ns: int = 0
    ended: str = ""
    renewals: tuple[int, ...] = ()
    before_renewals: tuple[tuple[int, int], ...] = ()
    renewed_by: tuple[int, ...] = ()

    def renew(self, event: KeyEvent, since_ns: int, place: int) -> None:
        """Its time to live was set anew, and nothing else: a value that is read now is what the key held all along."""
        if self.value is None:
            self.value = event.value
        self.before_renewals += ((since_ns, self.expires_max_ns),)
        self.expires_ns, self.expires_max_ns = expiry_of(event), _latest_expiry(event)
        self.renewals += (event.at_ns,)
        self.ttls_ms += (event.ttl_ms,)
        self.renewed_by += (place,)

    def end(self, how: str, since_ns: int, at_ns: int) -> None:
        self.to_min_ns, self.to_max_ns, self.ended = max(since_ns, self.from_min_ns), at_ns, how


@dataclass(slots=True)
class _NodeHoldings:
    held: dict[str, _HoldingRow] = field(default_factory=dict)
    lost: list[_HoldingRow] = field(default_factory=list)
    """The holdings that were lost, until the node is watched again."""
    blind_ns: int = 0
    since_ns: int | None = None
    """Since when it is watched."""
    windows: list[InSight] = field(default_factory=list)
    proven_ns: int = 0
    """The log has everything that happened on the node before this."""
    runs: dict[str | None, int] = field(default_factory=dict)
    run: int = -1
    runless: list[_HoldingRow] = field(default_factory=list)
    """The holdings that began before it was known which run of the server it was."""


def derive_holdings(events: Iterable[KeyEvent]) -> Watched:
    """The holdings and the times in sight, each node's in its own order.

    A log without an end, whose witness was killed, counts until what its last event proves (`since_ns`) and not until
    that event was received (`at_ns`): what the node did in between may have been received and not been written."""
    holdings: list[_HoldingRow] = []
    nodes: dict[str, _NodeHoldings] = {}
    for place, event in enumerate(events):
        node = nodes.get(event.node)
        if node is None:
            node = nodes[event.node] = _NodeHoldings()
        at_ns = event.at_ns
        since_ns = node.blind_ns if event.since_ns is None else event.since_ns
        match event.event:
            case "set" if _is_same(node.held.get(event.key), event):
                node.held[event.key].renew(event, since_ns, place)
            case "set" | "seen":
                if (before := node.held.get(event.key)) is not None:
                    before.end("set unread" if event.value is None else "overwritten", since_ns, at_ns)
                new = node.held[event.key] = _HoldingRow(
                    node=event.node,
                    key=event.key,
                    value=event.value,
                    from_min_ns=since_ns if event.event == "set" else node.blind_ns,
                    from_max_ns=at_ns,
                    began=event.event,
                    is_hash=event.is_hash,
                    expires_max_ns=_latest_expiry(event),
                    expires_ns=expiry_of(event),
                    run=node.run,
                    event=place,
                    ttls_ms=(event.ttl_ms,),
                )
                holdings.append(new)
                if node.since_ns is None:
                    node.runless.append(new)
            case "prolonged":
                if (holding := node.held.get(event.key)) is not None:
                    holding.renew(event, since_ns, place)
            case "deleted" | "expired" | "evicted":
                if (holding := node.held.pop(event.key, None)) is not None:
                    holding.end(event.event, since_ns, at_ns)
            case "watching":
                for lost in node.lost:
                    lost.to_max_ns = at_ns
                node.lost.clear()
                node.run = node.runs.setdefault(event.value, len(node.runs))
                for one in node.runless:
                    one.run = node.run
                node.runless.clear()
                node.since_ns = at_ns
            case "blind":
                _stop_watching(node, at_ns)
        node.proven_ns = since_ns
    for node in nodes.values():
        _stop_watching(node, node.proven_ns)
    table = table_of(holdings, _HoldingRow, "node", "key")
    return Watched(table, {name: node.windows for name, node in nodes.items() if node.windows})


def _is_same(holding: _HoldingRow | None, event: KeyEvent) -> bool:
    """Whether a SET wrote the value that was there: some locks extend so, and the key never belonged to another
    client."""
    return holding is not None and event.value is not None and holding.value == event.value


def _latest_expiry(event: KeyEvent) -> int:
    if event.ttl_ms is None or event.read_ns is None:
        return FOREVER_NS
    return min(FOREVER_NS, event.read_ns + (event.ttl_ms + 1) * 1_000_000)


def _stop_watching(node: _NodeHoldings, at_ns: int) -> None:
    for holding in node.held.values():
        holding.end("lost", at_ns, FOREVER_NS)
        node.lost.append(holding)
    node.held.clear()
    if node.since_ns is not None:
        node.windows.append(InSight(node.since_ns, max(at_ns, node.since_ns), node.run))
    node.since_ns, node.blind_ns, node.run = None, at_ns, -1
    node.runless.clear()

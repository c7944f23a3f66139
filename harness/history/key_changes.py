"""Changes on the nodes, from the witness's events: one row for each change of a key, in each node's own order.

node, key
what             "set": it was free; "overwritten": by another value, or by one that could not be read; "changed": its
                 fields or members; "prolonged": its time to live was set anew, or its own value; "deleted", "expired",
                 "evicted"; "lost": it was gone when the node could be watched again
value            what it holds since then, or held until then; missing if that could not be read
was              what it held until then; missing if it was free, or that is not known
had_until_ns     what it held until then cannot have expired before this; forever if no time to live is known
until_ns         the same of what it holds since then
since_ns, at_ns  the node did it between these two
event            the place of the event in `nodes.jsonl`; -1 for a key that was lost
of               the row that had set the key; -1 if the witness did not see that
is_seen          whether the node was watched; if not, more may have happened in this time than this
is_restarted     it was another run of the node's server afterwards, and the key cannot have expired in between
port, digest, place, did, arguments   of the request that the node names (`fencepost.history.KeyEvent`, where `did` is
                 `command`); -1 or missing if it names none
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pandas as pd

from fencepost.history import KeyEvent
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import table_of

SETS: Final = ("set", "overwritten")
"""What puts a new value into a key."""
ENDINGS: Final = ("overwritten", "deleted", "expired", "evicted", "lost")
"""What ends that a key holds what was set."""


@dataclass(slots=True)
class _ChangeRow:
    """A row, with the columns in their order."""

    node: str
    key: str
    what: str
    value: str | None
    was: str | None
    had_until_ns: int
    since_ns: int
    at_ns: int
    event: int
    of: int
    is_seen: bool
    is_restarted: bool = False
    port: int = -1
    digest: int = -1
    place: int = -1
    did: str | None = None
    arguments: list[str] | None = None
    until_ns: int = FOREVER_NS


_REMOVES_FIELDS: Final = "HDEL"
"""The witness takes its event for a renewal where the fields could not be read."""


class _Holding(NamedTuple):
    row: int
    value: str | None
    expires_ns: int = FOREVER_NS
    """It cannot have expired before."""


@dataclass(slots=True)
class _Node:
    held: dict[str, _Holding] = field(default_factory=dict)
    before: dict[str, _Holding] = field(default_factory=dict)
    """What it held when it was last seen, until it is watched again."""
    run: str | None = None
    blind_ns: int = 0
    is_known: bool = False
    """Whether it has been watched before."""
    unseen: list[_ChangeRow] = field(default_factory=list)
    """What was found when the node was seen again, until the run of its server is known."""


def derive_changes(events: Iterable[KeyEvent]) -> pd.DataFrame:
    """The changes, in the order of the events."""
    rows: list[_ChangeRow] = []
    nodes: dict[str, _Node] = {}
    for place, event in enumerate(events):
        node = nodes.get(event.node)
        if node is None:
            node = nodes[event.node] = _Node()
        kind = event.event
        if kind == "watching":
            _resume(rows, node, event)
        elif kind == "blind":
            node.before.update(node.held)
            node.held.clear()
            node.blind_ns = event.at_ns
        elif kind == "seen":
            _find(rows, node, event, place)
        else:
            _change(rows, node, event, place)
    return table_of(rows, _ChangeRow, "node", "key", "what")


def _change(rows: list[_ChangeRow], node: _Node, event: KeyEvent, place: int) -> None:
    key, value, kind = event.key, event.value, event.event
    held = node.held.get(key)
    since_ns = event.at_ns if event.since_ns is None else event.since_ns
    of, what = -1 if held is None else held.row, "set"
    if kind in ("set", "changed"):
        if held is not None:
            what = "changed" if event.is_hash or kind == "changed" else "overwritten"
            if kind == "set" and value is not None and value == held.value:
                what = "prolonged"
        if what in SETS:
            node.held[key] = _Holding(len(rows), value, expiry_of(event))
        elif held is not None:
            node.held[key] = _Holding(held.row, value, expiry_of(event))
    elif kind == "prolonged":
        what = "changed" if event.command == _REMOVES_FIELDS else "prolonged"
        if held is not None:
            node.held[key] = _Holding(held.row, held.value if value is None else value, expiry_of(event))
    else:
        node.held.pop(key, None)
        what, value = kind, None if held is None else held.value
    was, until_ns = (None, FOREVER_NS) if held is None else (held.value, held.expires_ns)
    request: dict[str, Any] = {}
    if event.port is not None:
        request = {"port": event.port, "digest": event.digest, "place": event.place, "did": event.command}
        request["arguments"] = event.arguments
    request["until_ns"] = expiry_of(event)
    times = (since_ns, event.at_ns)
    rows.append(_ChangeRow(event.node, key, what, value, was, until_ns, *times, place, of, is_seen=True, **request))


def expiry_of(event: KeyEvent) -> int:
    """Before then it cannot have expired, by the node's clock; forever if no time to live is known."""
    return FOREVER_NS if event.ttl_ms is None else min(FOREVER_NS, event.at_ns + event.ttl_ms * 1_000_000)


def _find(rows: list[_ChangeRow], node: _Node, event: KeyEvent, place: int) -> None:
    """The key was there when the node was seen again."""
    before = node.before.pop(event.key, None)
    if not node.is_known or (before is not None and event.value in (before.value, None)):
        node.held[event.key] = before or _Holding(-1, event.value, expiry_of(event))
        return
    node.held[event.key] = _Holding(len(rows), event.value, expiry_of(event))
    what, of = ("set", -1) if before is None else ("overwritten", before.row)
    times = (node.blind_ns, event.at_ns)
    found = _ChangeRow(event.node, event.key, what, event.value, None, FOREVER_NS, *times, place, of, is_seen=False)
    node.unseen.append(found)
    rows.append(found)


def _resume(rows: list[_ChangeRow], node: _Node, event: KeyEvent) -> None:
    """The node is watched again: what is not there any more was lost."""
    for key, held in node.before.items():
        if key not in node.held:
            was, times = held.value, (held.expires_ns, node.blind_ns, event.at_ns)
            lost = _ChangeRow(event.node, key, "lost", was, was, *times, -1, held.row, is_seen=False)
            if held.expires_ns >= event.at_ns:
                node.unseen.append(lost)
            rows.append(lost)
    if node.is_known and event.value != node.run:
        for change in node.unseen:
            change.is_restarted = True
    node.before.clear()
    node.unseen.clear()
    node.run, node.is_known = event.value, True

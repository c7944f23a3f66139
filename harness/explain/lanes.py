"""The lanes of a space-time diagram, apart from requests: sections, the faults and stalls of a client or a node, and
what the nodes held of a key."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fencepost.history import process_of
from harness.explain.requests import changes_where
from harness.explain.scenes import Scene, lane
from harness.explain.wire_requests import WireRequest, WireRequests
from harness.history.fault_windows import FOREVER_NS, windows
from harness.history.groups import rows_of
from harness.history.key_changes import SETS
from harness.history.ledger import Ledger
from harness.history.recorded import Recorded

_MOST_SECTIONS: Final = 8
"""Of clients that took a key away."""


@dataclass(frozen=True, slots=True)
class Section:
    """A critical section on its client's lane. `who`: the client, or the task of it. `valid_until_ns`: until then its
    lease had certainly not ended; `is_exact`: and it ended right then. FOREVER_NS if the lock told no validity."""

    client: str
    who: str
    number: int
    from_ns: int
    to_ns: int
    valid_until_ns: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Outage:
    """A client that did not run, or a node that was out of service. `what`: `stopped`, `down`, … (the state of
    a `fencepost.history.Hit`)."""

    lane: str
    what: str
    from_ns: int
    to_ns: int


def sections_of(run: Recorded, scene: Scene, clients: Collection[str], culprits: Collection[str]) -> Iterator[Section]:
    """The sections that the scene is about, and the last ones of the clients that took a key away."""
    columns = ("client", "section", "start_ns", "end_ns", "deadline_min_ns", "deadline_max_ns")
    rows = run.sections
    here = (rows["start_ns"] <= scene.until_ns) & (rows["end_ns"] >= scene.from_ns) & (rows["key"] == scene.key)
    found = [
        Section(lane(run, str(who)), str(who), int(number), start_ns, end_ns, least_ns, least_ns == most_ns)
        for who, number, start_ns, end_ns, least_ns, most_ns in rows_of(rows[here.to_numpy(np.bool_)], *columns)
    ]
    entered = {(client, entered_ns) for client, _, entered_ns in scene.asked}
    sides = [one for one in found if (one.client, one.from_ns) in entered]
    theirs = culprits if entered else clients
    others = [one for one in found if one.client in theirs and one not in sides]
    yield from sides
    yield from sorted(others, key=lambda one: one.from_ns)[-_MOST_SECTIONS:]


def outages_of(run: Recorded, lanes: Collection[str], from_ns: int, to_ns: int) -> Iterator[Outage]:
    """What kept these clients and nodes from working in that time: each from the moment at which the fault began."""
    for window in windows(run.faults):
        event, until_ns = window.event, FOREVER_NS if window.to_ns is None else window.to_ns
        if not window.took or event.began_ns > to_ns or until_ns < from_ns:
            continue
        for hit in event.hits():
            if hit.effect.halts:
                names = set(map(process_of, hit.names))
                own = (name for name in lanes if process_of(name) in names)
                yield from (Outage(name, hit.state, event.began_ns, until_ns) for name in own)


_UNSEEN: Final = "lost"


@dataclass(frozen=True, slots=True)
class KeyBar:
    """A time in which a node held one value of a key. `owner`: the client that set it, or the task, where that is on
    record; None if that is not known. `ended`: how, as in `harness.history.key_changes`; "lost" also if the node was
    not watched any more. `set_by`, `ended_by`: the requests that did it, where the ledger names one."""

    node: str
    key: str
    value: str | None
    owner: str | None
    from_ns: int
    to_ns: int
    ended: str
    set_by: WireRequest | None = None
    ended_by: WireRequest | None = None


def names_on_nodes(run: Recorded, key: str) -> frozenset[str]:
    """The names that the lock's key has on the nodes."""
    if run.owners is None:
        return frozenset({key})
    holdings = run.owners.holdings
    names = holdings["key"][(holdings["lock_key"] == key).to_numpy(bool)].astype(str)
    return frozenset({key, *names.unique()})


def key_bars(
    run: Recorded,
    keys: Collection[str],
    requests: WireRequests,
    from_ns: int,
    to_ns: int,
    nodes: Collection[str] = (),
) -> list[KeyBar]:
    """What the nodes held under these names between the two times, in the order of nodes and times; empty where no
    ledger is on record. `nodes`: only these; all if there are none."""
    ledger = run.ledger
    if ledger is None:
        return []
    rows = ledger.rows
    here = rows["key"].isin(list(keys)) & rows["what"].isin(SETS) & (rows["since_ns"] <= to_ns)
    if nodes:
        here &= rows["node"].isin(list(nodes))
    bars = (_bar(run, ledger, change, requests) for change in changes_where(ledger, here))
    within = [bar for bar in bars if bar.to_ns >= from_ns and bar.from_ns <= to_ns]
    return sorted(within, key=lambda bar: (bar.node, bar.key, bar.from_ns))


def _bar(run: Recorded, ledger: Ledger, begun: Mapping[str, Any], requests: WireRequests) -> KeyBar:
    ended = ledger.end_of_event(begun["event"])
    set_by = requests.at(int(begun["request"]))
    ended_by = None if ended is None else requests.at(int(ended["request"]))
    from_ns = _acted(begun, set_by)
    if ended is None or ended["what"] == _UNSEEN:
        to_ns = _seen_until_ns(run, str(begun["node"]), int(begun["at_ns"]))
    else:
        to_ns = _acted(ended, ended_by)
    return KeyBar(
        node=str(begun["node"]),
        key=str(begun["key"]),
        value=begun["value"],
        owner=begun["sender"] or begun["client"] if begun["by"] == "client" else None,
        from_ns=from_ns,
        to_ns=max(from_ns, to_ns),
        ended=_UNSEEN if ended is None else str(ended["what"]),
        set_by=set_by,
        ended_by=ended_by,
    )


def _acted(change: Mapping[str, Any], by: WireRequest | None) -> int:
    """When the node acted, as far as is known: a bar begins where the arrow ends."""
    if by is None or by.to_node_ns is None:
        return int(change["at_ns"])
    return max(by.to_node_ns, min(int(change["since_ns"]), by.from_node_ns or int(change["at_ns"])))


def _seen_until_ns(run: Recorded, node: str, at_ns: int) -> int:
    """When the node was no longer watched."""
    assert run.watched is not None
    return min((window.to_ns for window in run.watched.of(node) if window.to_ns >= at_ns), default=FOREVER_NS)

"""What the nodes held of a key, and by which request each change came: the bars of a space-time diagram."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.explain.requests import changes_where
from harness.explain.wire_requests import WireRequest, WireRequests
from harness.history.fault_windows import FOREVER_NS
from harness.history.key_changes import SETS
from harness.history.ledger import Ledger
from harness.history.recorded import Recorded

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

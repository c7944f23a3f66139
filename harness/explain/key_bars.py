"""What the nodes held of a key, and by which request each change came: the bars of a space-time diagram.

The witness says what a node held and between which two times that changed; the proxy's record says which requests the
node may have acted on meanwhile. A change belongs to the one request that can have made it. Where there are several, or
none, the bar says nothing of the cause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any, Final

from harness.explain.wire_requests import WireRequest
from harness.history.fault_windows import FOREVER_NS
from harness.history.key_owners import rows_of
from harness.history.recorded import Recorded

SET_ONLY: Final = frozenset({"SET", "SETNX", "SETEX", "PSETEX", "HSET", "HSETNX", "INCR", "RPUSH", "LPUSH", "ZADD"})
"""What cannot delete a key."""
_DELETE_ONLY: Final = frozenset({"DEL", "UNLINK", "HDEL", "EXPIRE", "PEXPIRE", "PERSIST"})
_SURELY_DELETE: Final = frozenset({"DEL", "UNLINK"})
_COLUMNS: Final = ("node", "key", "value", "from_min_ns", "from_max_ns", "to_min_ns", "to_max_ns", "ended", "section")


@dataclass(frozen=True, slots=True)
class KeyBar:
    """A time in which a node held one value of a key. `owner`: the client that set it; None if that is not known.
    `ended`: as in `harness.history.key_holdings`. `set_by`, `ended_by`: the requests that did it, where the record
    names one."""

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
    run: Recorded, key: str, requests: Sequence[WireRequest], from_ns: int, to_ns: int, nodes: Collection[str] = ()
) -> list[KeyBar]:
    """What the nodes held of the lock's key between the two times, in the order of nodes and times; empty if they were
    not watched. `requests`: all that touched the key meanwhile. `nodes`: only these; all if there are none."""
    if run.owners is None:
        return []
    holdings = run.owners.holdings
    here = (holdings["lock_key"] == key) & (holdings["from_min_ns"] <= to_ns) & (holdings["to_max_ns"] >= from_ns)
    if nodes:
        here &= holdings["node"].isin(list(nodes))
    rows = [dict(zip(_COLUMNS, row, strict=True)) for row in rows_of(holdings[here], *_COLUMNS)]
    rows.sort(key=lambda row: (row["node"], row["key"], row["from_max_ns"]))
    clients = run.sections["client"].astype(str)
    bars: list[KeyBar] = []
    for (node, name), group in groupby(rows, key=lambda row: (row["node"], row["key"])):
        own = [one for one in requests if one.node == node and name in one.keys and one.may_change]
        bars += _of_one_key(list(group), own, clients)
    return [bar for bar in bars if bar.to_ns >= from_ns and bar.from_ns <= to_ns]


@dataclass(slots=True)
class _Change:
    """A node set or deleted a value of one key, between two times. `by`: the request that did it, once it is found."""

    sets: bool
    value: str | None
    from_ns: int
    to_ns: int
    by: WireRequest | None = None

    def may_be_by(self, one: WireRequest) -> bool:
        cannot = _DELETE_ONLY if self.sets else SET_ONLY
        return one.command not in cannot and one.acted_within(self.from_ns, self.to_ns)

    def is_surely_by_such(self, one: WireRequest) -> bool:
        """Whether a request like this one, which was not refused, always makes a change of this kind."""
        return one.reply is not None and one.command in (SET_ONLY if self.sets else _SURELY_DELETE)


def _of_one_key(rows: Sequence[Mapping[str, Any]], requests: Sequence[WireRequest], clients: Any) -> list[KeyBar]:
    sets = [_Change(True, row["value"], row["from_min_ns"], row["from_max_ns"]) for row in rows]
    ends = [
        _Change(False, row["value"], row["to_min_ns"], row["to_max_ns"]) if row["ended"] == "deleted" else None
        for row in rows
    ]
    in_order = [each for pair in zip(sets, ends, strict=True) for each in pair if each is not None]
    _find_requests(in_order, requests)
    bars: list[KeyBar] = []
    for place, (row, begin, end) in enumerate(zip(rows, sets, ends, strict=True)):
        following = sets[place + 1].by if place + 1 < len(sets) else None
        ended_by = end.by if end is not None else following if row["ended"] in ("overwritten", "set unread") else None
        section = row["section"]
        named = clients.iloc[section].partition("@")[0] if section >= 0 else None
        from_ns = _acted(begin.by, begin.from_ns, begin.to_ns)
        bars.append(
            KeyBar(
                node=str(row["node"]),
                key=str(row["key"]),
                value=row["value"],
                owner=named if begin.by is None else begin.by.client,
                from_ns=from_ns,
                to_ns=max(from_ns, _end(row, ended_by)),
                ended=row["ended"],
                set_by=begin.by,
                ended_by=ended_by,
            )
        )
    following_ns = [bar.from_ns for bar in bars[1:]]
    return [
        replace(bar, to_ns=min(bar.to_ns, max(bar.from_ns, next_ns)))
        for bar, next_ns in zip(bars, [*following_ns, FOREVER_NS], strict=True)
    ]


def _find_requests(changes: Sequence[_Change], requests: Sequence[WireRequest]) -> None:
    """Fill in by which request each change was made. `changes`: all of one key on one node, in the node's order."""
    for change in changes:
        if change.sets:
            change.by = next((one for one in requests if change.may_be_by(one) and one.names(change.value)), None)
    for is_set in (True, False, True):  # each kind narrows the other one
        for gap in _gaps(changes):
            if unknown := [change for change in gap if change.by is None and change.sets is is_set]:
                used = {id(change.by) for change in changes}
                _fill(gap, unknown, [one for one in requests if id(one) not in used])


def _gaps(changes: Sequence[_Change]) -> Iterator[list[_Change]]:
    """The changes whose requests are not known, with the one before them and the one after them."""
    gap: list[_Change] = []
    for change in changes:
        gap.append(change)
        if change.by is not None:
            yield gap
            gap = [change]
    yield gap


def _fill(gap: Sequence[_Change], unknown: Sequence[_Change], requests: Sequence[WireRequest]) -> None:
    """Find the requests of changes of one kind. Those that surely made such a change are as many as the changes, and in
    their order; what else may have made one did if it is the only one, or the only one that names the value."""
    before, after = gap[0].by, gap[-1].by if len(gap) > 1 else None
    between = [
        one
        for one in requests
        if (before is None or _may_follow(one, before)) and (after is None or _may_follow(after, one))
    ]
    may = {id(change): [one for one in between if change.may_be_by(one)] for change in unknown}
    sure = sorted(
        {id(one): one for change in unknown for one in may[id(change)] if change.is_surely_by_such(one)}.values(),
        key=lambda one: one.to_node_ns or 0,
    )
    if sure:
        in_turn = all(_is_over_before(one, following) for one, following in pairwise(sure))
        if len(sure) == len(unknown) and in_turn:
            for change, one in zip(unknown, sure, strict=True):
                change.by = one if change.may_be_by(one) else None
        return
    for change in unknown:
        some = may[id(change)]
        if len(some) > 1:
            some = [one for one in some if one.names(change.value)]
        change.by = some[0] if len(some) == 1 else None


def _is_over_before(one: WireRequest, other: WireRequest) -> bool:
    return one.from_node_ns is not None and other.to_node_ns is not None and one.from_node_ns < other.to_node_ns


def _may_follow(later: WireRequest, earlier: WireRequest) -> bool:
    """Whether the node may have acted on the one after the other."""
    if later.from_node_ns is None or earlier.to_node_ns is None:
        return True
    return later.from_node_ns >= earlier.to_node_ns


def _acted(by: WireRequest | None, least_ns: int, most_ns: int) -> int:
    """When the node acted, as far as is known: a bar begins where the arrow ends."""
    if by is None or by.to_node_ns is None:
        return most_ns
    return max(by.to_node_ns, min(least_ns, by.from_node_ns or most_ns))


def _end(row: Mapping[str, Any], by: WireRequest | None) -> int:
    if row["ended"] == "lost" or row["to_max_ns"] >= FOREVER_NS:
        return int(row["to_min_ns"])
    return _acted(by, row["to_min_ns"], row["to_max_ns"])

"""What the nodes held of a key, and by which request each change came: the bars of a space-time diagram.

The witness says what a node held and between which two times that changed; the proxy's record says which requests the
node may have acted on meanwhile. A change belongs to the one request that can have made it. Where there are several, or
none, the bar says nothing of the cause.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from harness.explain.wire_requests import WireRequest
from harness.history.fault_windows import FOREVER_NS
from harness.history.key_owners import rows_of
from harness.history.recorded import Recorded

SET_ONLY: Final = frozenset({"SET", "SETNX", "SETEX", "PSETEX", "HSET", "HSETNX", "INCR", "RPUSH", "LPUSH", "ZADD"})
"""What cannot delete a key."""
_DELETE_ONLY: Final = frozenset({"DEL", "UNLINK", "HDEL", "EXPIRE", "PEXPIRE", "PERSIST"})
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


def _of_one_key(rows: Sequence[Mapping[str, Any]], requests: Sequence[WireRequest], clients: Any) -> list[KeyBar]:
    set_by = _that_set(rows, requests)
    bars: list[KeyBar] = []
    for place, row in enumerate(rows):
        by = set_by[place]
        following = set_by[place + 1] if place + 1 < len(rows) else None
        match row["ended"]:
            case "deleted":
                used = [one for one in (*set_by, *(bar.ended_by for bar in bars)) if one is not None]
                ended_by = _that_deleted(row, [one for one in requests if one not in used], by, following)
            case "overwritten" | "set unread":
                ended_by = following
            case _:
                ended_by = None
        section = row["section"]
        owner = by.client if by is not None else clients.iloc[section].partition("@")[0] if section >= 0 else None
        from_ns = _acted(by, row["from_min_ns"], row["from_max_ns"])
        bars.append(
            KeyBar(
                node=str(row["node"]),
                key=str(row["key"]),
                value=row["value"],
                owner=owner,
                from_ns=from_ns,
                to_ns=max(from_ns, _end(row, ended_by)),
                ended=row["ended"],
                set_by=by,
                ended_by=ended_by,
            )
        )
    following_ns = [bar.from_ns for bar in bars[1:]]
    return [
        replace(bar, to_ns=min(bar.to_ns, max(bar.from_ns, next_ns)))
        for bar, next_ns in zip(bars, [*following_ns, FOREVER_NS], strict=True)
    ]


def _that_set(rows: Sequence[Mapping[str, Any]], requests: Sequence[WireRequest]) -> list[WireRequest | None]:
    """For each value the request that set it: the first at that time that names it; else the only one that may set
    anything, set no other value, and fits between those that set the values before and after."""
    may = [[one for one in requests if one.acted_within(row["from_min_ns"], row["from_max_ns"])] for row in rows]
    found = [
        next((one for one in some if one.names(row["value"]) and one.command not in _DELETE_ONLY), None)
        for row, some in zip(rows, may, strict=True)
    ]
    for place, some in enumerate(may):
        if found[place] is None:
            before = found[place - 1] if place else None
            after = found[place + 1] if place + 1 < len(found) else None
            left = [
                one
                for one in some
                if one not in found
                and one.command not in _DELETE_ONLY
                and (before is None or _may_follow(one, before))
                and (after is None or _may_follow(after, one))
            ]
            found[place] = left[0] if len(left) == 1 else None
    return found


def _that_deleted(
    row: Mapping[str, Any], requests: Sequence[WireRequest], set_by: WireRequest | None, following: WireRequest | None
) -> WireRequest | None:
    """The request that deleted this value, after it was set and before the next one was; of several the only one that
    names the value."""
    may = [
        one
        for one in requests
        if one.acted_within(row["to_min_ns"], row["to_max_ns"])
        and one.command not in SET_ONLY
        and (set_by is None or _may_follow(one, set_by))
        and (following is None or _may_follow(following, one))
    ]
    if len(may) > 1:
        may = [one for one in may if one.names(row["value"])]
    return may[0] if len(may) == 1 else None


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

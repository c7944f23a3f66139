"""What a call left on the nodes for good, and every later call meets: an entry of a hash or a set, or a mutex of the
lock's own. Without a time to live it stays when its client dies, or the request is lost that should have taken it out.

*Entries* that calls put in, and that are still there when these are over: a field for each of a lock's keys, say, or a
flag that the lock is full. An acquire that was granted may leave its entry to its release, so such an entry counts when
its client has left. A set may also be a mere index of all keys, and a hash tell who was seen last: where nothing is
ever taken out, only a field of a client that had the lock counts.

*Mutexes* are keys that calls set and delete again before they end: each call that finds it free sets it, does its work
and deletes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.history.commands import ADD_FIELDS
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of, where

if TYPE_CHECKING:
    import pandas as pd

    from harness.history.ledger import Change
    from harness.history.recorded import Recorded

LEAST_TIMES: Final = 3
"""How often requests took entries out of a set that is no mere index, and calls deleted a mutex that they had set."""


class LeftBehind(NamedTuple):
    """`put_by`: the change by which a call that had ended put it there, or an acquire its entry. `asked`: how many
    requests of other clients named it since, or were answered with it. `entry`: its name; empty for a mutex, and
    `times`: how often a call had set and deleted that."""

    put_by: Change
    asked: int
    entry: str = ""
    times: int = 0


def left_entry(run: Recorded, by_ns: int) -> LeftBehind | None:
    """That which most requests met; None if none was left by then."""
    ledger = run.ledger
    if ledger is None or run.watched is None:
        return None
    lasting = _lasting_keys(run, by_ns)
    left_ns = dict(zip(run.places, run.sections["end_ns"], strict=True))
    taken = Counter((one.node, one.key) for one in ledger.entries if one.how == "named")
    found = []
    for entry in {(one.node, one.key, one.member): one for one in ledger.entries if one.member}.values():
        change = ledger.change(entry.added)
        if entry.how is not None or (entry.node, entry.key) not in lasting or not _is_over(change, left_ns, by_ns):
            continue
        is_holders = change["did"] in ADD_FIELDS and change["outcome"] == "ok"
        if not is_holders and taken[entry.node, entry.key] < LEAST_TIMES:
            continue
        of_others = ledger.sent.of_others(str(change["client"]), entry.node, entry.key, int(change["at_ns"]))
        met = [one for one in of_others if entry.member in one.arguments or f'"{entry.member}"' in (one.reply or "")]
        # A node that was out of sight may have lost the entry: then only its replies tell that it was still there.
        told_ns = max((one.from_client_ns for one in met if f'"{entry.member}"' in (one.reply or "")), default=0)
        if met and (entry.until_ns >= FOREVER_NS or told_ns > max(by_ns, entry.until_ns)):
            found.append(LeftBehind(change, len(met), entry.member))
    return max(found, key=lambda one: (one.asked, one.put_by["at_ns"]), default=None)


def _lasting_keys(run: Recorded, by_ns: int) -> set[tuple[str, str]]:
    """The nodes and keys that were there by then and to the end, without a time to live."""
    assert run.watched is not None
    held = run.watched.holdings
    lasting = where(held, held["to_min_ns"] > by_ns, held["expires_ns"] >= FOREVER_NS, held["ended"] != "expired")
    return {(str(node), str(key)) for node, key in rows_of(lasting, "node", "key")}


def _is_over(change: Change, left_ns: Mapping[tuple[str, int, int], int], by_ns: int) -> bool:
    """Whether an acquire put the entry in, which was refused by then, or whose client had left."""
    if change["f"] != "acquire" or not change["is_in_call"]:
        return False
    if change["outcome"] == "ok":
        return left_ns.get((change["task"], change["life"], change["section"]), FOREVER_NS) <= by_ns
    return bool(change["complete_ns"] <= by_ns)


def left_mutex(run: Recorded, by_ns: int) -> LeftBehind | None:
    """That for which most requests asked in vain; None if no call had left one by then."""
    ledger = run.ledger
    if ledger is None or run.watched is None:
        return None
    found, own = [], run.lock_keys
    for (node, key), rows in ledger.rows.groupby(["node", "key"], observed=True):
        row, times = (None, 0) if key in own else _left(rows)
        if row is None or times < LEAST_TIMES or not _has_no_expiry(run, str(node), str(key)):
            continue
        taken = ledger.change(row)
        asked = len(ledger.sent.of_others(str(taken["client"]), str(node), str(key), int(taken["at_ns"])))
        if taken["complete_ns"] <= by_ns and asked:
            found.append(LeftBehind(taken, asked, times=times))
    return max(found, key=lambda one: one.asked, default=None)


def _left(rows: pd.DataFrame) -> tuple[int | None, int]:
    """Of one key on one node: the change that took it for good, and how often a call had deleted what it took. None if
    it is free, or most of the calls that took it did not delete it."""
    taken, times, others = None, 0, 0
    names = ("what", "call", "is_in_call")
    for row, (what, call, is_in_call) in zip(rows.index.tolist(), rows_of(rows, *names), strict=True):
        if what == "set" and taken is None and is_in_call:
            taken = row, call
        elif what in ("deleted", "expired", "evicted") and taken is not None:
            is_own = what == "deleted" and call == taken[1]
            times, others, taken = times + is_own, others + (not is_own), None
    return (taken[0] if taken is not None and times > others else None), times


def _has_no_expiry(run: Recorded, node: str, key: str) -> bool:
    """Whether what the node held of the key last had no time to live."""
    assert run.watched is not None
    own = where(run.watched.holdings, node=node, key=key)
    return len(own) > 0 and bool(own["expires_ns"].iloc[-1] >= FOREVER_NS)

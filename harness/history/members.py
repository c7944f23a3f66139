"""Who took another client's member out of a hash, a set, a sorted set or a list, or deleted it with the whole key?

A member is a section's if its calls added it (`harness.history.entries`), and no granted section of another client
ever added one of that name, nor one of the same client that was under way at the same time. What a request takes out
without naming it (expired members, the next in a queue) is not told here.

A request that deletes the key, or sets another value over it, takes all members that are there. One whose own client
has given the key new time to live is within its lease until the key would have expired then. That is not so if the node
was out of sight meanwhile or its clock was wrong, nor for a member with a time of its own: the client adds it again to
renew it. What a nested acquire added is its own for as long as that acquire promised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from harness.history.calls import GRANTS
from harness.history.commands import DELETE, RENEW
from harness.history.entries import Entry
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import columns_of, rows_of, where
from harness.history.leases import derive_leases
from harness.history.ledger import Change, Ledger

if TYPE_CHECKING:
    from harness.history.recorded import Recorded

_WHOLE: Final = (*DELETE, "SET", "GETDEL")
_TAKEN: Final = ("deleted", "overwritten")
_COLUMNS: Final = ("had_until_ns", "did", "task", "life", "section")
_CALL: Final = ("task", "life", "section", "invoke_ns")


class Member(NamedTuple):
    """`section`: its place in `sections`."""

    client: str
    task: str
    section: int


def taken_members(run: Recorded, ledger: Ledger, keys: Collection[str]) -> Iterator[tuple[Change, Member]]:
    """The changes by which a request of one client took out the member of another, which was inside and certainly
    within its lease."""
    start, end, deadline = columns_of(run.sections, "start_ns", "end_ns", "deadline_min_ns")
    nested = _nested_until_ns(run)
    for entry, member in _members(run, ledger, keys):
        change = ledger.change(entry.ended)
        is_whole = entry.how == "with the key" and takes_the_key(change)
        if not (is_whole or entry.how == "named") or change["request"] < 0 or member.client == change["client"]:
            continue
        own, at_ns = member.section, change["at_ns"]
        if start[own] <= change["since_ns"] and at_ns < end[own]:
            until_ns = _renewed_until_ns(run, ledger, entry, change, int(start[own])) if is_whole else 0
            put = ledger.change(entry.added)
            lease_ns = nested.get(tuple(put[name] for name in _CALL), deadline[own])
            if at_ns < max(lease_ns, until_ns):
                yield change, member


def _nested_until_ns(run: Recorded) -> dict[tuple[Any, ...], int]:
    """By the nested acquire that was granted, until when its own lease surely lasted: an extension of the first one
    need not prolong what a nested one has added."""
    nested = derive_leases(run.ops, run.faults, ("reenter",))
    return {tuple(of): until for *of, until in rows_of(nested, "client", *_CALL[1:], "deadline_min_ns")}


def takes_the_key(change: Change) -> bool:
    """Whether the request deleted the key, or set another value over it, whatever was in it."""
    return bool(change["what"] in _TAKEN and change["request"] >= 0 and change["did"] in _WHOLE)


def _members(run: Recorded, ledger: Ledger, keys: Collection[str]) -> Iterator[tuple[Entry, Member]]:
    """What was taken out that is known to be one section's."""
    places = run.places
    times = dict(enumerate(rows_of(run.sections, "asked_ns", "end_ns")))
    told: list[tuple[Entry, Member]] = []
    sections: defaultdict[tuple[str, str], set[Member]] = defaultdict(set)
    for entry in ledger.entries:
        put = ledger.change(entry.added) if entry.key in keys else {}
        place = places.get((put["task"], put["life"], put["section"])) if put else None
        if place is not None:
            member = Member(str(put["client"]), str(put["task"]), place)
            told.append((entry, member))
            if put["is_in_call"] and put["f"] in GRANTS:
                sections[entry.key, entry.member].add(member)
    for entry, member in told:
        of_name = sections[entry.key, entry.member]
        if entry.ended < 0 or member not in of_name or any(one.client != member.client for one in of_name):
            continue
        asked_ns, end_ns = times[member.section]
        others = (times[one.section] for one in of_name if one != member)
        if not any(asked < end_ns and end > asked_ns for asked, end in others):
            yield entry, member


def _renewed_until_ns(run: Recorded, ledger: Ledger, entry: Entry, change: Change, since_ns: int) -> int:
    """Until when the key would have lived as its client had renewed it last; 0 if it had not, or that is not known."""
    assert run.watched is not None, "else there would be no ledger"
    put, rows = ledger.change(entry.added), ledger.rows
    times = since_ns, int(change["since_ns"])
    is_counted_well = run.watched.saw(entry.node, *times) and not run.wrong_clocks.touch(entry.node, *times)
    if put["f"] not in GRANTS or not put["is_in_call"] or not is_counted_well:
        return 0
    own = rows.iloc[entry.added : entry.ended + 1]
    own = where(own, node=entry.node, key=entry.key)
    its = put["task"], put["life"], put["section"]
    until_ns = [
        after[0]
        for (_, did, *by), after in pairwise(rows_of(own, *_COLUMNS))
        if did in RENEW and tuple(by) == its and after[0] < FOREVER_NS
    ]
    return until_ns[-1] if until_ns else 0

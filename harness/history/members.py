"""Who took another client's member out of a hash, a set, a sorted set or a list, or deleted it with the whole key?

The witness does not always see what such a key holds, but requests name members: a word that was sent in the acquire of
one section only, with a command that adds, is that section's member, and a request that removes names what it removes.
A number, or a short word, may mean anything. What a request takes out without naming it (expired members, the next in a
queue) is not told here; after that, it is not known whose members are left.

A request that deletes the key, or sets another value over it, takes all members that are left. One that its own client
has renewed, by a request that names it and gives the key new time to live, is within its lease until the key would have
expired then. That is not so if the node was out of sight meanwhile or its clock was wrong, nor for a member with a time
of its own: the client adds it again to renew it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from harness.history.fault_windows import FOREVER_NS
from harness.history.key_owners import places_of, rows_of
from harness.history.ledger import ENDINGS, Change, Ledger

if TYPE_CHECKING:
    from harness.history.recorded import Recorded

_GRANTS: Final = ("acquire", "reenter")
ADD: Final = ("HSET", "HSETNX", "HMSET", "HINCRBY", "SADD", "ZADD", "LPUSH", "RPUSH")
REMOVE: Final = ("HDEL", "SREM", "ZREM", "LREM")
RENEW: Final = ("PEXPIRE", "EXPIRE", "PEXPIREAT", "EXPIREAT")
_WHOLE: Final = ("DEL", "UNLINK", "SET", "GETDEL")
_LEAST_LETTERS: Final = 8
_TAKEN: Final = ("deleted", "overwritten")
_COLUMNS: Final = ("what", "did", "client", "had_until_ns", "since_ns", "at_ns")
_OWN_TIME: Final = -1


class Member(NamedTuple):
    """`section`: its place in `sections`."""

    client: str
    task: str
    section: int


def taken_members(run: Recorded, ledger: Ledger, keys: Collection[str]) -> Iterator[tuple[Change, Member]]:
    """The changes by which a request of one client took out the member of another, which was inside and certainly
    within its lease."""
    rows = ledger.rows
    known = rows["key"].isin(list(keys)) & (rows["request"] >= 0)
    did = rows["did"].astype(str).str.upper()
    is_granted = rows["is_in_call"] & rows["f"].isin(_GRANTS) & (rows["outcome"] == "ok")
    adding = rows[known & did.isin(ADD) & is_granted]
    if adding.empty:
        return
    members = _members(run, adding, words_of(ledger, adding))
    yield from _named(run, ledger, rows[known & did.isin(REMOVE)], members)
    is_whole = known & did.isin(_WHOLE) & rows["what"].isin(_TAKEN)
    own = rows["key"].isin(set(adding["key"]) & set(rows["key"][is_whole])).to_numpy(bool)
    for (node, key), some in rows[own].groupby(["node", "key"], observed=True):
        yield from _with_the_key(run, ledger, str(node), str(key), some, members)


def takes_the_key(change: Change) -> bool:
    """Whether the request deleted the key, or set another value over it, whatever was in it."""
    return bool(change["what"] in _TAKEN and change["request"] >= 0 and str(change["did"]).upper() in _WHOLE)


_Members = dict[tuple[str, str], set[Member]]
"""By key and word."""


def _named(run: Recorded, ledger: Ledger, removing: pd.DataFrame, members: _Members) -> Iterator[tuple[Change, Member]]:
    start, end, deadline = (run.sections[name].to_numpy(np.int64) for name in ("start_ns", "end_ns", "deadline_min_ns"))
    for row, words in zip(removing.index.tolist(), words_of(ledger, removing), strict=True):
        change = ledger.change(row)
        named = {found for word in words for found in members.get((str(change["key"]), word), ())}
        if len(named) != 1:
            continue
        (member,) = named
        is_inside = start[member.section] <= change["since_ns"] and change["at_ns"] < end[member.section]
        if is_inside and change["at_ns"] < deadline[member.section] and member.client != change["client"]:
            yield change, member


def _with_the_key(
    run: Recorded, ledger: Ledger, node: str, key: str, rows: pd.DataFrame, members: _Members
) -> Iterator[tuple[Change, Member]]:
    """Of one key on one node, whose changes these are."""
    start, end, deadline = (run.sections[name].to_numpy(np.int64) for name in ("start_ns", "end_ns", "deadline_min_ns"))
    there: dict[Member, int] = {}  # until when each is within its lease
    renewed: set[Member] = set()  # by the change before
    numbers, words = rows.index.tolist(), words_of(ledger, rows)
    for number, (what, did, client, had_until_ns, since_ns, at_ns), some in zip(
        numbers, rows_of(rows, *_COLUMNS), words, strict=True
    ):
        named, did = {one for word in some for one in members.get((key, word), ())}, str(did).upper()
        for member in renewed & there.keys():
            is_known = had_until_ns < FOREVER_NS and there[member] >= 0
            there[member] = had_until_ns if is_known else there[member]
        renewed = set()
        if what in (*ENDINGS, "set"):
            change = ledger.change(number)
            for member, until_ns in there.items() if takes_the_key(change) else ():
                own = member.section
                is_inside = start[own] <= since_ns and at_ns < end[own] and member.client != client
                is_renewed = at_ns < until_ns and _counted_well(run, node, int(start[own]), since_ns)
                if is_inside and (at_ns < deadline[own] or is_renewed):
                    yield change, member
            there = {}
        if did in ADD:
            there |= {one: _OWN_TIME if one in there else 0 for one in named if one.client == client}
        elif did in RENEW:
            renewed = {one for one in named if one.client == client}
        else:
            there = {one: until_ns for one, until_ns in there.items() if did in REMOVE and named and one not in named}


def _counted_well(run: Recorded, node: str, from_ns: int, to_ns: int) -> bool:
    """Whether keys of the node lived as long as asked all this time: it was never out of sight, its clock never
    wrong."""
    assert run.watched is not None, "else there would be no ledger"
    return run.watched.saw(node, from_ns, to_ns) and not run.wrong_clocks.touch(node, from_ns, to_ns)


def _members(run: Recorded, adding: pd.DataFrame, words: list[set[str]]) -> _Members:
    """By key and word, the sections whose acquires sent it; only words of one section."""
    places = places_of(run.sections)
    found: defaultdict[tuple[str, str], set[Member]] = defaultdict(set)
    names = ("key", "client", "task", "life", "section")
    for (key, client, *of), some in zip(adding[list(names)].itertuples(index=False), words, strict=True):
        if (place := places.get(tuple(of))) is not None:
            for word in some:
                found[str(key), word].add(Member(str(client), str(of[0]), place))
    return {name: members for name, members in found.items() if len(members) == 1}


def words_of(ledger: Ledger, changes: pd.DataFrame) -> list[set[str]]:
    """By change, the words of its request that can name a member; none if its request is not known."""
    places = changes["request"].to_numpy(np.int64)
    taken = ledger.wire.requests["arguments"].take(pa.array(places, mask=places < 0)).to_pylist()
    return [{str(word) for word in words or () if _can_name(str(word))} for words in taken]


def _can_name(word: str) -> bool:
    return len(word) >= _LEAST_LETTERS and not word.lstrip("-").replace(".", "").isdigit()

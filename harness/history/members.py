"""Who took another client's member out of a hash, a set, a sorted set or a list?

The witness does not read what such a key holds, but requests name members: a word that was sent in the acquire of one
section only, with a command that adds, is that section's member, and a request that removes names what it removes. A
number, or a short word, may mean anything. What a request takes out without naming it (expired members, the next in a
queue) is not told here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from harness.history.key_owners import places_of
from harness.history.ledger import Change, Ledger

if TYPE_CHECKING:
    from harness.history.recorded import Recorded

_GRANTS: Final = ("acquire", "reenter")
ADD: Final = ("HSET", "HSETNX", "HMSET", "HINCRBY", "SADD", "ZADD", "LPUSH", "RPUSH")
REMOVE: Final = ("HDEL", "SREM", "ZREM", "LREM")
_LEAST_LETTERS: Final = 8


class Member(NamedTuple):
    """`section`: its place in `sections`."""

    client: str
    task: str
    section: int


def removed_members(run: Recorded, ledger: Ledger, keys: Collection[str]) -> Iterator[tuple[Change, Member]]:
    """The changes by which a request of one client took out the member of another, which was inside and certainly
    within its lease."""
    rows = ledger.rows
    known = rows["key"].isin(list(keys)) & (rows["request"] >= 0)
    did = rows["did"].astype(str).str.upper()
    is_granted = rows["is_in_call"] & rows["f"].isin(_GRANTS) & (rows["outcome"] == "ok")
    removing, adding = rows[known & did.isin(REMOVE)], rows[known & did.isin(ADD) & is_granted]
    if removing.empty or adding.empty:
        return
    wire = run.wire()
    assert wire is not None, "else there would be no ledger"
    members = _members(run, adding, words_of(wire.requests, adding))
    start, end, deadline = (run.sections[name].to_numpy(np.int64) for name in ("start_ns", "end_ns", "deadline_min_ns"))
    for row, words in zip(removing.index.tolist(), words_of(wire.requests, removing), strict=True):
        change = ledger.change(row)
        named = [found for word in words for found in members.get((str(change["key"]), word), ())]
        if len(named) != 1 or named[0].client == change["client"]:
            continue
        own = named[0].section
        if start[own] <= change["since_ns"] and change["at_ns"] < min(end[own], deadline[own]):
            yield change, named[0]


def _members(run: Recorded, adding: pd.DataFrame, words: list[set[str]]) -> dict[tuple[str, str], set[Member]]:
    """By key and word, the sections whose acquires sent it; only words of one section."""
    places = places_of(run.sections)
    found: defaultdict[tuple[str, str], set[Member]] = defaultdict(set)
    names = ("key", "client", "task", "life", "section")
    for (key, client, *of), some in zip(adding[list(names)].itertuples(index=False), words, strict=True):
        if (place := places.get(tuple(of))) is not None:
            for word in some:
                found[str(key), word].add(Member(str(client), str(of[0]), place))
    return {name: members for name, members in found.items() if len(members) == 1}


def words_of(requests: pa.Table, changes: pd.DataFrame) -> list[set[str]]:
    """By change, the words of its request that can name a member."""
    arguments: list[list[Any]] = requests["arguments"].take(pa.array(changes["request"])).to_pylist()
    return [{str(word) for word in words if _can_name(str(word))} for words in arguments]


def _can_name(word: str) -> bool:
    return len(word) >= _LEAST_LETTERS and not word.lstrip("-").replace(".", "").isdigit()

"""What the lists, sets, sorted sets and hashes on the nodes held: each entry, which change put it there, and which one
took it out.

The node names the command that changed a key, and its arguments, also where a script called it (`cluster.key_causes`).
So what a key holds is known from when it was set while its node was watched. It is not known any more after a time in
which the node was out of sight, after a change that was not seen, or whose arguments are not on record, or whose
command chooses by itself (SPOP). What is added after that is known again, till a command takes out an entry by its
place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import pandas as pd

from harness.history.commands import ADD, ADD_FIELDS, KEEP, MOVE, POP, PUSH, REMOVE, SET_IN_PLACE
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of, where
from harness.history.key_changes import ENDINGS

_ZADD_OPTIONS: Final = ("NX", "XX", "GT", "LT", "CH", "INCR")
_COLUMNS: Final = ("what", "did", "at_ns")
_How = Literal["named", "unnamed", "with the key", "put again"]


class Entry(NamedTuple):
    """`added`, `ended`: rows of the ledger. `how`: a command that names it took it out, or another one; it went with
    the key, or was put there again. None for an entry that stayed, or is not known any more, and `ended` is -1.
    `until_ns`: it was there so long. `member`: empty if it came from another list."""

    node: str
    key: str
    member: str
    added: int
    ended: int = -1
    how: _How | None = None
    until_ns: int = FOREVER_NS


def keys_with_entries(rows: pd.DataFrame) -> Collection[str]:
    """The keys to which a command added any. `rows`: of a ledger."""
    return set(where(rows, did=ADD)["key"])


def all_entries(
    rows: pd.DataFrame, arguments: Sequence[Sequence[str] | None], blind_ns: Mapping[str, Sequence[int]]
) -> list[Entry]:
    """Those of these changes, key by key, in the order in which they ended; then the ones that stayed. `arguments`: by
    change, those of the command that made it. `blind_ns`: by node, when it went out of sight, in order."""
    found = list[Entry]()
    told = dict(zip(rows.index.tolist(), arguments, strict=True))
    for (node, key), own in rows.groupby(["node", "key"], observed=True):
        held, unseen = _Contents(str(node), str(key)), list(reversed(blind_ns.get(str(node), ())))
        for row, (what, did, at_ns) in zip(own.index.tolist(), rows_of(own, *_COLUMNS), strict=True):
            while unseen and unseen[-1] < at_ns:
                found += held.forget(unseen.pop())
            found += held.change(row, told[row], what, did, at_ns)
        found += held.forget(unseen[-1]) if unseen else held.there
    return found


@dataclass
class _Contents:
    """What a key holds. `is_whole`: nothing else, and a list in this order."""

    node: str
    key: str
    there: list[Entry] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)
    is_whole: bool = False

    def change(self, row: int, words: Sequence[str] | None, what: str, did: str | None, at_ns: int) -> list[Entry]:
        """What went with it. `did`: None for what was not seen, too."""
        if what in ENDINGS:
            return self._take(range(len(self.there)), row, at_ns, "with the key")
        if did in KEEP:
            return []
        self.is_whole |= what == "set"
        if did is not None and words:
            with suppress(ValueError, LookupError):  # of words that are not this command's, and what is not known
                if did == SET_IN_PLACE:
                    return self._set_in_place(row, at_ns, int(words[1]), words[2])
                if did in ADD and not (did in MOVE and self.key == words[0]):
                    return self._add(row, at_ns, did, words)
                return self._take(self._leaving(did, words), row, at_ns, "named" if did in REMOVE else "unnamed")
        return self.forget(at_ns)

    def forget(self, at_ns: int) -> list[Entry]:
        """What it held is not known from then on."""
        self.is_whole = False
        return self._take(range(len(self.there)), -1, at_ns, None)

    def _take(self, places: Collection[int], row: int, at_ns: int, how: _How | None) -> list[Entry]:
        gone = [self.there[place]._replace(ended=row, how=how, until_ns=at_ns) for place in places]
        self.there = [entry for place, entry in enumerate(self.there) if place not in places]
        return gone

    def _add(self, row: int, at_ns: int, did: str, words: Sequence[str]) -> list[Entry]:
        """Add what the command names. A list may hold an entry twice."""
        if did in PUSH or did in MOVE:
            goes_first = PUSH.get(did, -1) == 0 or did.endswith("RPOPLPUSH") or words[3:4] == ["LEFT"]
            for member in words[1:] if did in PUSH else [""]:
                self.there.insert(0 if goes_first else len(self.there), Entry(self.node, self.key, member, row))
            return []
        scores = _scores(did, words[1:])
        again = self._take(self._places_of(scores), row, at_ns, "put again")
        if did == "ZINCRBY":
            scores = {member: score + (self.scores[member] if again else 0) for member, score in scores.items()}
        self.there += [Entry(self.node, self.key, member, row) for member in scores]
        self.scores |= scores
        return again

    def _set_in_place(self, row: int, at_ns: int, place: int, member: str) -> list[Entry]:
        """Put one in place of another. Without knowing which that was, none but this one is known."""
        entry = Entry(self.node, self.key, member, row)
        if not self.is_whole:
            gone = self.forget(at_ns)
            self.there.append(entry)
            return gone
        place = range(len(self.there))[place]
        gone = self._take([place], row, at_ns, "unnamed")
        self.there.insert(place, entry)
        return gone

    def _leaving(self, did: str, words: Sequence[str]) -> Collection[int]:
        """The places of what the command takes out. Raises ValueError if that is not known."""
        if did == "LREM":
            found, number = self._places_of(words[-1:]), int(words[1])
            return found[number:] if number < 0 else found[: number or None]
        if did in REMOVE:
            return self._places_of(words[1:])
        if did == "ZREMRANGEBYSCORE":
            (low, is_above), (high, is_below) = ((float(word.lstrip("(")), word.startswith("(")) for word in words[1:])
            scores = [self.scores[entry.member] for entry in self.there]
            return [
                place
                for place, score in enumerate(scores)
                if low <= score <= high and not (is_above and score == low) and not (is_below and score == high)
            ]
        if not self.is_whole:
            raise ValueError("what else is there, and in which order, is not known")
        places = list(range(len(self.there)))
        if "Z" in did:
            places.sort(key=lambda place: (self.scores[self.there[place].member], self.there[place].member))
        if did in ("ZREMRANGEBYRANK", "LTRIM"):
            first, last = int(words[1]), int(words[2])
            inside = places[first : last + 1 or None]
            return inside if did == "ZREMRANGEBYRANK" else [place for place in places if place not in inside]
        if did in MOVE:
            return places[:1] if words[2:3] == ["LEFT"] else places[-1:]
        if did not in POP or not places:
            raise ValueError("the command chooses by itself, or what it took is not known")
        number = int(words[1]) if len(words) == 2 and "B" not in did else 1  # what blocks takes one
        return places[:number] if POP[did] == 0 else places[-number:]

    def _places_of(self, members: Iterable[str]) -> list[int]:
        wanted = set(members)
        return [place for place, entry in enumerate(self.there) if entry.member in wanted]


def _scores(did: str, words: Sequence[str]) -> dict[str, float]:
    """By member that a command adds to what has no order of its own, its score; 0 without any."""
    if did in ADD_FIELDS:
        return dict.fromkeys(words[::2], 0)
    if did == "SADD":
        return dict.fromkeys(words, 0)
    if did == "ZINCRBY":
        return {words[1]: float(words[0])}
    first = next((place for place, word in enumerate(words) if word.upper() not in _ZADD_OPTIONS), 0)
    return {member: float(score) for score, member in zip(words[first::2], words[first + 1 :: 2], strict=True)}

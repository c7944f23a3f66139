"""The places that clients took in a semaphore's keys, and how long each was theirs.

Such a key holds places if a granted acquire put an entry into it, and a release took its own out of it again. The
request that put an entry there says whose it is, whatever the entry or the lease is called. Where no time was promised,
it is over if its client has left and nothing ever takes it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from harness.history.entries import Entry
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of, where
from harness.history.ledger import Change, Ledger
from harness.history.recorded import Recorded

LEASES: Final = 2
_ROUNDED_NS: Final = 50_000_000
"""A lock that keeps places for two leases counts on a server's clock, in milliseconds or more."""


class Place(NamedTuple):
    """An entry that was there from `since_ns` until `until_ns`, and over from `over_ns` on. `put`: what added it.
    `is_kept`: in a key that holds places; any other entry is over with the call that put it there."""

    node: str
    key: str
    put: Change
    since_ns: int
    over_ns: int
    until_ns: int
    is_kept: bool

    @property
    def owner(self) -> tuple[object, ...]:
        """Client, life and section; of an entry that no call put there, its own."""
        put = self.put
        return (put["task"], put["life"], put["section"]) if put["call"] >= 0 else (put["row"],)


def places_taken(run: Recorded, ledger: Ledger, key: str) -> Iterator[Place]:
    """By all entries that may stand for a client in the keys of this key of the lock."""
    meant = ledger.calls.meant_by(entry.key for entry in ledger.entries)
    told = [(entry, ledger.change(entry.added)) for entry in ledger.entries if key in meant[entry.key]]
    kept = {(entry.node, entry.key) for entry, put in told if put["f"] == "acquire" and put["outcome"] == "ok"}
    given = {(entry.node, entry.key) for entry, put in told if is_given_back(ledger, entry, put)}
    last, places = _last_of_own(ledger), run.places
    sections = list(rows_of(run.sections, "end_ns", "deadline_max_ns"))
    for entry, put in told:
        since_ns, is_kept = int(put["at_ns"]), (entry.node, entry.key) in kept & given
        over_ns = max(since_ns, put["complete_ns"])
        if is_kept:
            own = put["task"], put["life"], put["section"]
            over_ns = last.get((entry.node, entry.key, own), FOREVER_NS) + kept_for_ns(run)
            over_ns += _ROUNDED_NS
            over_ns = max(over_ns, put["complete_ns"]) if put["complete_ns"] >= 0 else FOREVER_NS
            if (place := places.get(own)) is not None:
                left_ns, deadline_ns = sections[place]
                over_ns = max(over_ns, left_ns, 0 if run.is_open_ended else deadline_ns)
            if run.is_open_ended and entry.ended >= 0:
                over_ns = max(over_ns, entry.until_ns)
        yield Place(entry.node, entry.key, put, since_ns, over_ns, entry.until_ns, is_kept)


def kept_for_ns(run: Recorded) -> int:
    """How long a place may be kept when its client has used the key last."""
    return round(LEASES * run.kept_ms * 1e6)


class PlacesInOrder:
    """Asked for one time after the other, in the order in which these begin."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._coming = sorted(places, key=lambda place: place.since_ns, reverse=True)
        self._there: list[Place] = []

    def at(self, from_ns: int, to_ns: int) -> list[Place]:
        """Those that were there at any time of it."""
        while self._coming and self._coming[-1].since_ns < to_ns:
            self._there.append(self._coming.pop())
        self._there = [place for place in self._there if place.until_ns > from_ns]
        return [place for place in self._there if place.since_ns < to_ns]


def is_given_back(ledger: Ledger, entry: Entry, put: Change) -> bool:
    """Whether a release took the entry of its own section out."""
    if entry.ended < 0:
        return False
    end = ledger.change(entry.ended)
    return bool(end["f"] == "release" and (end["task"], end["section"]) == (put["task"], put["section"]))


def _last_of_own(ledger: Ledger) -> Mapping[tuple[str, str, tuple[Any, ...]], int]:
    """By node, key, and client, life and section, when their requests changed the key last."""
    rows = where(ledger.rows, ledger.rows["call"] >= 0)
    columns = rows_of(rows, "node", "key", "task", "life", "section", "at_ns")
    return {(node, key, (task, life, section)): at_ns for node, key, task, life, section, at_ns in columns}

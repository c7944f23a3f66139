"""The entries of calls in a lock's lists, sets and hashes, and which request took each of them out.

The witness does not read what such a key holds, so entries are followed by the commands that changed it, in scripts,
too. A command that adds, adds an entry of its call. A pop takes the first or the last one of a list whose contents are
known since it was set; where the order is not known, a release that says yes takes its own. A command that names what
it removes takes out the one entry there whose request had that word. A script that removes may mean another one than it
names: an entry of a call that is over, or the named one, unless that is of an acquire that is granted. If several may
be meant, each may be gone. A command that removes by rank or score takes out one or more of those that may be
there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from harness.history.calls import NO_CALL
from harness.history.entries import KEEP, POP
from harness.history.key_owners import places_of, rows_of
from harness.history.ledger import ENDINGS
from harness.history.members import ADD, REMOVE, words_of

if TYPE_CHECKING:
    from harness.history.ledger import Ledger
    from harness.history.recorded import Recorded

_BY_RANGE: Final = ("ZREMRANGEBYSCORE", "ZREMRANGEBYRANK", "ZREMRANGEBYLEX", "ZPOPMIN", "ZPOPMAX")
_COLUMNS: Final = ("what", "did", "command", "call", "f", "outcome", "is_in_call", "is_seen", "request", "at_ns")


class Added(NamedTuple):
    """`call`: the place of the call in the ledger's calls that put it there. `words`: those of its request that no
    other client used to add."""

    call: int
    words: frozenset[str]


class TakenOut(NamedTuple):
    """`row`: the change of the ledger by which the entry went; of several, at least one."""

    row: int
    entries: tuple[Added, ...]


def taken_out(run: Recorded, ledger: Ledger, node: str, key: str, by_ns: int) -> Iterator[TakenOut]:
    """What went out of a key of the node by then, in order."""
    rows = ledger.rows
    own = rows[((rows["key"] == key) & (rows["node"] == node) & (rows["since_ns"] <= by_ns)).to_numpy(bool)]
    if not own["did"].isin(ADD).any():
        return
    words, over = _words(ledger, own), _Over(run, ledger)
    content, columns = _Content(), list(rows_of(own, *_COLUMNS))
    for row, one, then in zip(own.index.tolist(), columns, [*columns[1:], None], strict=True):
        what, did, command, call, f, outcome, is_in_call, is_seen, request, at_ns = one
        if what in (*ENDINGS, "set"):
            content = _Content(is_known=bool(is_seen))
        if what in ENDINGS or not is_seen or did in KEEP:
            continue
        named, call = words.get(row, frozenset()), call if is_in_call else NO_CALL
        gone: list[Added] = []
        if did in ADD:
            content.add(Added(call, named), first=did == "LPUSH")
            continue
        if did in POP:
            leaving = ledger.calls.granted(call) if (f, outcome) == ("release", "ok") else NO_CALL
            gone = content.popped(POP[did], leaving)
        elif did in REMOVE:
            gone = [entry for entry in content.there if not entry.words.isdisjoint(named)]
            if did != command:
                ended = [entry for entry in content.there if over.is_over(entry.call, at_ns)]
                keeps = f == "acquire" and outcome == "ok" and ended
                gone = ended + [one for one in gone if one not in ended and not (keeps and one.call == call)]
        elif did in _BY_RANGE:
            if content.is_known and content.there:
                yield TakenOut(row, tuple(content.there))
            content.doubtful += content.there
            continue
        is_last = then is not None and (then[0], then[1], then[8]) == ("deleted", did, request)
        if (taken := content.without(gone, is_last=is_last)) is not None:
            yield TakenOut(row, (taken,))


@dataclass
class _Content:
    """What a key holds. `is_known`: the order of a list. `doubtful`: what may be gone."""

    there: list[Added] = field(default_factory=list)
    is_known: bool = False
    doubtful: list[Added] = field(default_factory=list)

    def add(self, entry: Added, *, first: bool) -> None:
        self.there.insert(0 if first else len(self.there), entry)

    def popped(self, end: int, leaving: int) -> list[Added]:
        """What a pop takes there: the entry at that end; if that is not known, the one of the call that leaves and says
        yes, and what stood before it is gone."""
        if self.is_known and self.there and self.there[end] not in self.doubtful:
            return [self.there[end]]
        own = [place for place, entry in enumerate(self.there) if entry.call == leaving != NO_CALL]
        if len(own) == 1:
            entry = self.there[own[0]]
            self.there = self.there[own[0] :] if end == 0 else self.there[: own[0] + 1]
            self.is_known = True
            return [entry]
        return []

    def without(self, gone: list[Added], *, is_last: bool) -> Added | None:
        """Take one of these out; None if it is not known which. `is_last`: the key is empty then."""
        if len(gone) != 1:
            self.doubtful += gone
            self.is_known &= bool(gone)
            return None
        self.there = [entry for entry in self.there if entry is not gone[0]]
        if is_last and any(entry not in self.doubtful for entry in self.there):
            return None
        if not is_last and not self.there:
            self.is_known = False
            return None
        return gone[0]


class _Over:
    """Which calls are over: a client that gave up, left, or outlived its lease."""

    def __init__(self, run: Recorded, ledger: Ledger) -> None:
        self._calls, self._places = ledger.calls, places_of(run.sections)
        ends = (run.sections[name].to_numpy(np.int64) for name in ("end_ns", "deadline_min_ns"))
        self._until = np.minimum(*ends)

    def is_over(self, call: int, at_ns: int) -> bool:
        if call == NO_CALL:
            return True
        calls = self._calls
        place = self._places.get((calls.client[call], int(calls.life[call]), int(calls.section[call])))
        is_granted = calls.outcome[call] == "ok" and place is not None
        return bool((self._until[place] if is_granted else calls.complete_ns[call]) <= at_ns)


def _words(ledger: Ledger, changes: pd.DataFrame) -> dict[int, frozenset[str]]:
    """By row that adds or removes, the words of its request, without those with which several clients added."""
    some = changes[(changes["did"].isin((*ADD, *REMOVE)) & (changes["request"] >= 0)).to_numpy(bool)]
    words = words_of(ledger, some)
    users: defaultdict[str, set[str]] = defaultdict(set)
    for (did, client), own in zip(rows_of(some, "did", "client"), words, strict=True):
        for word in own if did in ADD else ():
            users[word].add(client)
    shared = {word for word, clients in users.items() if len(clients) > 1}
    return {row: frozenset(own - shared) for row, own in zip(some.index.tolist(), words, strict=True)}

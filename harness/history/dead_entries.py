"""Entries in the lock's state (a place in a queue, a member of a set) whose client will never come for them.

The client was gone, or the acquire that had put the entry there had been cancelled by its user, or had given up. An
entry is a dead client's if no other client, and no other life of its own, added one of that name to the key; it is a
call's if no other call did. A key from which nothing was ever taken out holds no places: it may tell who was seen last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from fencepost.history import process_of
from harness.history.commands import POP, REMOVE
from harness.history.entries import Entry
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of
from harness.history.sent_after import SLACK_NS

if TYPE_CHECKING:
    from harness.history.ledger import Change, Ledger
    from harness.history.recorded import Recorded


class Left(NamedTuple):
    """An acquire that ended without the lock: its user had cancelled it, or it had given up; or whose lease is over, or
    whose turn has passed while it waits. `at_ns`: nothing that it had asked for was done later. `gone_ns`: by then all
    that it left should be gone."""

    how: Literal["cancelled", "gave up", "over", "passed"]
    at_ns: int
    gone_ns: int


class Ticket(NamedTuple):
    """The number that was drawn, and the count that says which ones have passed. `by`: the change that raised it past
    the number of a client that still waits."""

    number: int
    turn: str
    by: Change | None = None


class DeadEntry(NamedTuple):
    """`put`: the change that put it there. `died_ns`: its client was gone by then. `left`: the call that put it there,
    if that ended without the lock. It was there until `until_ns`. `ticket`: if it is a number."""

    put: Change
    died_ns: int
    left: Left | None
    until_ns: int
    ticket: Ticket | None = None

    @property
    def dead_ns(self) -> int:
        """From then on a lock may not wait for it."""
        return min(self.died_ns, FOREVER_NS if self.left is None else self.left.gone_ns)


def dead_entries(run: Recorded, ledger: Ledger) -> dict[str, list[DeadEntry]]:
    """By the key that clients ask for, those of clients that were killed, or died, and of calls that did not get it."""
    ends, found = Ends.of(run), defaultdict[str, list[DeadEntry]](list)
    if not (ends.died or ends.left):
        return found
    asked = sorted(map(str, run.ops["key"].unique()), key=len, reverse=True)
    did = ledger.columns["did"]
    for (_, key), entries in groupby(ledger.entries, key=lambda entry: (entry.node, entry.key)):
        own = list(entries)
        of = asked[0] if len(asked) == 1 else next((name for name in asked if name in key), None)
        if of is not None and any(did[entry.ended] in (*REMOVE, *POP) for entry in own if entry.ended >= 0):
            found[of] += (one for one in _told(ledger, own, ends) if one.dead_ns < one.until_ns)
    return found


class Ends(NamedTuple):
    """How clients, and calls without the lock, ended."""

    died: dict[tuple[str, int], int]
    """By client and life."""
    left: dict[tuple[str, int], Left]
    """By client, or task of one, and when the call began."""

    @classmethod
    def of(cls, run: Recorded) -> Self:
        died = {(process_of(end.client), end.life): end.at_ns for end in run.ends if end.how in ("killed", "died")}
        refused = run.calls("acquire", "fail")
        stays_ns = round(run.lease_ms * 1e6) + SLACK_NS
        left = {
            (client, since_ns): Left("gave up", at_ns, at_ns + stays_ns)
            for client, since_ns, at_ns in rows_of(refused, "client", "invoke_ns", "complete_ns")
        }
        cancelled = {(one.client, one.since_ns): Left("cancelled", one.at_ns, one.gone_ns) for one in run.cancelled}
        return cls(died, left | cancelled)


def _told(ledger: Ledger, entries: Sequence[Entry], ends: Ends) -> list[DeadEntry]:
    """Those of one key on one node."""
    puts = [ledger.change(entry.added) for entry in entries]
    lives: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    calls: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    for entry, put in zip(entries, puts, strict=True):
        lives[entry.member].add((put["client"], put["life"]))
        calls[entry.member].add((put["task"], put["invoke_ns"]))
    found = []
    for entry, put in zip(entries, puts, strict=True):
        is_ones = len(lives[entry.member]) == 1
        died_ns = ends.died.get((put["client"], put["life"]), FOREVER_NS) if is_ones else FOREVER_NS
        is_calls = len(calls[entry.member]) == 1 and put["is_in_call"]
        left = ends.left.get((put["task"], put["invoke_ns"])) if is_calls else None
        found.append(DeadEntry(put, died_ns, left, entry.until_ns))
    return found

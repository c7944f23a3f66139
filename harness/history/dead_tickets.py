"""Numbers that clients drew for their turn, and that hold up all who drew later ones.

Such a lock counts twice for each of its keys: an acquire raises the one count and takes the number for its ticket, a
release raises the other, which says whose turn has passed. That two counts are these is known if each of `GRANTS`
acquires or more that were granted came right behind the other count. The next ticket is dead once its client is gone,
its call has ended without the lock, or its lease has: a lock must not wait for it for long. The ticket of a client that
still waits is dead if its turn has passed: a count that was raised twice skips one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fencepost.history import process_of
from harness.history.dead_entries import DeadEntry, Ends, Left, Ticket
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of
from harness.history.sent_after import SLACK_NS

if TYPE_CHECKING:
    from harness.history.ledger import Ledger
    from harness.history.recorded import Recorded

GRANTS: Final = 10
_COUNT: Final = "INCR"


class _Raised(NamedTuple):
    """A count was raised to this number: which row of the ledger, and between when and when."""

    number: int
    row: int
    since_ns: int
    at_ns: int


def dead_tickets(run: Recorded, ledger: Ledger) -> dict[str, list[DeadEntry]]:
    """By the key that clients ask for."""
    drawn, passed = _counts(ledger, "acquire"), _counts(ledger, "release")
    pairs = [
        (of, tickets, key, turns)
        for (node, key, of), turns in passed.items()
        for (other, name, its), tickets in drawn.items()
        if (other, its) == (node, of) and name != key
    ]
    found = defaultdict[str, list[DeadEntry]](list)
    granted = [(ticket, turns) for _, tickets, _, turns in pairs for ticket in tickets if _is_granted(ledger, ticket)]
    if len(granted) < GRANTS or not all(_came_next(ledger, ticket, turns) for ticket, turns in granted):
        return found
    ends = Ends.of(run)
    for of, tickets, key, turns in pairs:
        last = _Raised(0, -1, FOREVER_NS, FOREVER_NS)
        for turn, after in pairwise([*turns, last]):
            waiting = [one for one in tickets if one.number == turn.number + 1 and one.at_ns < after.at_ns]
            for ticket in waiting[-1:]:
                dead = _dead(run, ledger, ends, ticket, Ticket(ticket.number, key), after.at_ns)
                found[of] += [dead] if dead.dead_ns < after.at_ns else []
        found[of] += _skipped(ledger, tickets, key, turns)
    return found


def _skipped(ledger: Ledger, tickets: Sequence[_Raised], key: str, turns: Sequence[_Raised]) -> Iterator[DeadEntry]:
    """The tickets of acquires that were still under way, and not granted later, when the other count reached them."""
    for ticket in tickets:
        put = ledger.change(ticket.row)
        passed = next((one for one in turns if one.at_ns > ticket.at_ns and one.number >= ticket.number), None)
        is_waiting = put["is_in_call"] and put["f"] == "acquire" and put["outcome"] != "ok"
        if passed is not None and is_waiting and not 0 <= put["complete_ns"] <= passed.at_ns:
            left = Left("passed", passed.at_ns, passed.at_ns + SLACK_NS)
            told = Ticket(ticket.number, key, ledger.change(passed.row))
            yield DeadEntry(put, FOREVER_NS, left, FOREVER_NS, told)


def _counts(ledger: Ledger, f: str) -> dict[tuple[str, str, str], list[_Raised]]:
    """By node, name, and key of the lock: how calls of one kind alone, and what they left behind, raised a count."""
    rows = ledger.rows[(ledger.rows["did"] == _COUNT).to_numpy(bool)]
    meant = ledger.calls.meant_by(rows["key"].astype(str).unique())
    found, others = defaultdict[Any, list[_Raised]](list), set[Any]()
    columns = rows_of(rows, "node", "key", "f", "is_in_call", "value", "since_ns", "at_ns")
    for row, (node, key, call, is_in_call, value, *times) in zip(rows.index.tolist(), columns, strict=True):
        for of in meant[str(key)][:1]:
            place = str(node), str(key), of
            if is_in_call and call != f:
                others.add(place)
            if str(value).isdecimal():
                found[place].append(_Raised(int(value), row, *times))
    return {place: own for place, own in found.items() if place not in others}


def _is_granted(ledger: Ledger, ticket: _Raised) -> bool:
    put = ledger.change(ticket.row)
    return bool(put["is_in_call"] and put["outcome"] == "ok")


def _came_next(ledger: Ledger, ticket: _Raised, turns: Sequence[_Raised]) -> bool:
    """Whether its turn may have come, and not passed, when its acquire was granted."""
    by_ns = ledger.change(ticket.row)["complete_ns"]
    least = [turn.number for turn in turns if turn.at_ns <= by_ns]
    most = [turn.number for turn in turns if turn.since_ns <= by_ns]
    return max(least, default=0) < ticket.number <= max(most, default=0) + 1


def _dead(run: Recorded, ledger: Ledger, ends: Ends, ticket: _Raised, told: Ticket, until_ns: int) -> DeadEntry:
    put = ledger.change(ticket.row)
    died_ns = ends.died.get((process_of(str(put["client"])), put["life"]), FOREVER_NS)
    left = ends.left.get((put["task"], put["invoke_ns"]))
    if (place := run.places.get((put["task"], put["life"], put["section"]))) is not None:
        section = run.sections.iloc[place]
        over_ns = int(max(section.end_ns, section.deadline_max_ns))
        left = Left("over", over_ns, over_ns + SLACK_NS)
    return DeadEntry(put, died_ns, left, until_ns, told)

"""Two clients, or tasks of one, that were let in by one key, because both had asked for it with the same value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fencepost.history import process_of
from fencepost.quorum import quorum
from fencepost.text import listed, printable
from harness.explain.examples import Side
from harness.explain.words import at
from harness.history.error_replies import is_refusal
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of
from harness.history.key_changes import SETS
from harness.history.ledger import Ledger
from harness.history.node_requests import Request
from harness.history.recorded import Recorded

_ADD_ONCE: Final = ("SADD", "ZADD")
"""What these add is there once, however often."""


def same_value(run: Recorded, earlier: Side, later: Side) -> str | None:
    """`c1@2 and c1@3 asked n1 for k1 with the same value, 90b2, at +11.6 ms and at +22.4 ms, and were let in by it: the
    value does not tell whose the key is.` None if a majority of the nodes did not let both in so, or that is not on
    record."""
    ledger = run.whole_ledger
    if ledger is None:
        return None
    told = {node: words for node in run.nodes for words in list(_told(run, ledger, node, earlier, later))[-1:]}
    if len(told) < quorum(len(run.nodes)):
        return None
    nodes = "" if len(told) == 1 else f" (so on {listed(sorted(told))})"
    return f"{next(iter(told.values()))}{nodes}: the value does not tell whose the key is."


def same_member(run: Recorded, sides: Sequence[Side]) -> str | None:
    """`c1@2 and c1@3 asked n1 for k1 with the same member, 90b2, at +11.6 ms and at +22.4 ms: it has one place for
    both.` The first two of the sections of which this is so on a majority of the nodes; None if there are none."""
    ledger = run.whole_ledger
    if ledger is None:
        return None
    for later in range(1, len(sides)):
        for earlier in range(later):
            pair = sides[earlier], sides[later]
            told = [text for node in run.nodes for text in list(_of_member(run, ledger, node, *pair))[-1:]]
            if len(told) >= quorum(len(run.nodes)):
                return f"{told[0]}: it has one place for both."
    return None


def _of_member(run: Recorded, ledger: Ledger, node: str, earlier: Side, later: Side) -> Iterator[str]:
    first, second = (_asked(ledger, node, side) for side in (earlier, later))
    words = {word for one in first for word in one.arguments} & {word for one in second for word in one.arguments}
    for entry in ledger.entries:
        if entry.node != node or entry.member not in words:
            continue
        added = ledger.change(entry.added)
        if added["did"] not in _ADD_ONCE:
            continue
        times = [
            [one.from_client_ns for one in asked if entry.key in one.keys and entry.member in one.arguments]
            for asked in (first, second)
        ]
        if all(times) and all(added["from_client_ns"] <= some[-1] <= entry.until_ns for some in times):
            one, other = (at(run, some[-1]) for some in times)
            yield (
                f"{earlier.client} and {later.client} asked {node} for {printable(entry.key)} with the same member, "
                f"{printable(entry.member)}, at {one} and at {other}"
            )


def _told(run: Recorded, ledger: Ledger, node: str, earlier: Side, later: Side) -> Iterator[str]:
    rows, (first, second) = ledger.rows, (_asked(ledger, node, side) for side in (earlier, later))
    words = [{word for one in asked for word in one.arguments} for asked in (first, second)]
    unowned = run.unowned
    values = (words[0] & words[1]) - unowned.values
    is_set = (rows["node"] == node) & rows["what"].isin(SETS) & rows["value"].isin(values)
    is_set &= ~rows["key"].isin(unowned.counters | unowned.places)  # a count is the value of no client
    for event, key, value, since_ns in rows_of(rows[is_set.to_numpy(bool)], "event", "key", "value", "since_ns"):
        ended = ledger.end_of_event(event)
        until_ns = FOREVER_NS if ended is None else ended["at_ns"]
        times = [
            [
                one.from_client_ns
                for one in asked
                if key in one.keys and value in one.arguments and one.from_client_ns < until_ns
            ]
            for asked in (first, second)
        ]
        if all(times) and times[1][-1] > since_ns:
            one, other = (at(run, some[-1]) for some in times)
            yield (
                f"{earlier.client} and {later.client} asked {node} for {printable(str(key))} with the same value, "
                f"{printable(str(value))}, at {one} and at {other}, and were let in by it"
            )


def _asked(ledger: Ledger, node: str, side: Side) -> list[Request]:
    """What it surely asked as it acquired, and the node did not refuse."""
    asked = ledger.sent.between(side.client, node, side.asked_from_ns, side.start_ns)
    own = (one for one in asked if (one.task or process_of(side.client)) == side.client)
    return [one for one in own if one.reply is not None and not is_refusal(one.reply)]

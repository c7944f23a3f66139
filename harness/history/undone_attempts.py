"""Which refused attempts had set a key that the lock never removed again.

An attempt that has no answer in time may have set the key all the same, or may still do so. So a lock that tells its
user no sends a request after it that frees the key. Such a request names the value, as a comparison does, or deletes
the key whatever it holds. The same request for another key, as an attempt at several keys sends it, does neither.
Where the value is not one of the words of the request that set it, or too short to tell it from other words, nothing is
known.

An attempt was not taken back if no such request came to the proxy until the key expired. It would have come there if it
had been sent: slow links, hung nodes, and links that lose or hold what they have taken do not keep it from coming. But
a link that refuses may, unless the node answered the same request when it was sent again. And so may the handshake of
a connection that was made in that call, after the attempt had been sent for the last time, and carried nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fencepost.history import process_of
from harness.history.commands import DELETE, RENEW
from harness.history.groups import which
from harness.history.key_changes import SETS
from harness.history.node_requests import NodeRequests, Request
from harness.history.sent_after import SLACK_NS

if TYPE_CHECKING:
    from harness.history.ledger import Change, Ledger
    from harness.history.recorded import Recorded

_FREES: Final = (*DELETE, "GETDEL", "GETEX", *RENEW)
_LEAST_LETTERS: Final = 8


def attempts_never_undone(run: Recorded, ledger: Ledger) -> Iterator[Change]:
    """The changes by which attempts that were refused set a key that then expired; none if the lock took any attempt
    back whose answer it had not had."""
    rows, sent = ledger.rows, ledger.sent
    is_attempts = {"what": SETS, "by": "client", "is_in_call": True, "f": "acquire", "outcome": "fail"}
    refused = which(rows, rows["request"] >= 0, **is_attempts)
    if not refused.any() or _takes_back(rows, refused):
        return
    for row in np.flatnonzero(refused).tolist():
        change = ledger.change(row)
        end = ledger.end_of_event(change["event"])
        if end is None or end["what"] != "expired" or not end["is_seen"]:
            continue
        if not _may_be_excused(run, sent, change) and was_not_undone(sent, change, end["at_ns"]):
            yield change


def _takes_back(rows: Any, refused: Any) -> bool:
    """Whether a client deleted what an attempt had set that was refused before it was answered."""
    deleted = which(rows, rows["of"] >= 0, what="deleted", by="client")
    of = rows["of"].to_numpy(np.int64)[deleted]
    client, told = rows["client"].to_numpy(object), rows["to_client_ns"].to_numpy(np.int64)
    is_own = refused[of] & (client[of] == client[deleted])
    unanswered = (told[of] < 0) | (told[of] > rows["from_client_ns"].to_numpy(np.int64)[deleted])
    return bool((is_own & unanswered).any())


def _may_be_excused(run: Recorded, sent: NodeRequests, change: Change) -> bool:
    """Whether a fault that began when the attempt was under way can have kept a later request from coming to the proxy,
    or whether the attempt may be that of a call which the user had cancelled just before. A fault that was in force
    before took what the attempt sent, or let it pass when it was sent again. (Another try of the same call tells
    nothing: what should have undone this one may have been refused before.)"""
    client, sent_ns, complete_ns = change["client"], change["from_client_ns"], change["complete_ns"]
    own = (call for call in run.cancelled if process_of(call.client) == client)
    if any(call.since_ns <= sent_ns <= call.at_ns + SLACK_NS for call in own):
        return True
    first, later = _first_and_later(sent, change, complete_ns)
    again = (one.from_client_ns for one in later if one.words == first.words and one.reply is not None)
    passed_ns = max(again, default=sent_ns)
    return any(
        event.done_ns > passed_ns
        for event in run.faults_within(sent_ns, complete_ns)
        if (client, change["node"]) in event.cut_links or (event.took_nodes_down and change["node"] in event.nodes)
    )


def was_not_undone(sent: NodeRequests, change: Change, until_ns: int) -> bool:
    """Whether no request that came to the proxy until then may take back what this change, of a client's request, had
    set."""
    client, node, sent_ns, value = (change[name] for name in ("client", "node", "from_client_ns", "value"))
    if value is None or len(value) < _LEAST_LETTERS:
        return False
    first, later = _first_and_later(sent, change, until_ns)
    again = [one.from_client_ns for one in later if one.words == first.words]
    spoken = {one.connection for one in later if one.keys}
    return (
        value in first.arguments
        and not any(_undoes(one, first, change) for one in later)
        and sent.connections(client, node, max([sent_ns, *again]), change["complete_ns"]) <= spoken
    )


def _first_and_later(sent: NodeRequests, change: Change, until_ns: int) -> tuple[Request, list[Request]]:
    """The request that made the change, and what its client sent then and later. Some come together."""
    every = sent.between(change["client"], change["node"], change["from_client_ns"], until_ns)
    together = (place for place, one in enumerate(every) if one.from_client_ns == every[0].from_client_ns)
    first = next((place for place in together if change["key"] in every[place].keys), 0)
    return every[first], every[:first] + every[first + 1 :]


def _undoes(one: Request, first: Request, change: Change) -> bool:
    """Whether it may take back what the first one set, or asks for it once more in a later call."""
    if change["value"] in one.arguments and not _is_for_another_key(one, first, change["key"]):
        return one.words != first.words or one.from_client_ns > change["complete_ns"]
    return one.command in _FREES and change["key"] in one.keys


def _is_for_another_key(one: Request, first: Request, key: str) -> bool:
    """Whether it is the first one again, but for its keys, of which this is none."""
    return bool(one.keys) and key not in one.keys and one.but_keys == first.but_keys

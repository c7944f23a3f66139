"""The renewals that a lock with automatic renewal had sent for a lease that ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pandas as pd

from fencepost.history import process_of
from fencepost.quorum import quorum
from fencepost.text import listed, plural, printable
from harness.explain.causes import Cause
from harness.explain.examples import Side
from harness.explain.requests import how_sent
from harness.explain.words import at
from harness.history.error_replies import ERROR_REPLY
from harness.history.ledger import Ledger
from harness.history.node_requests import Request
from harness.history.recorded import Recorded
from harness.history.renewal_requests import (
    Misdirected,
    could_renew,
    misdirected_renewals,
    renewal_requests,
    renewals_by_node,
    renewals_of_another_key,
    said_no,
)

_RENEW: Final = ("extend", "held")
"""Calls of a client that is inside which may renew its lease."""
_LOOKED_AT: Final = 50
"""How many of a client's earlier sections are looked at for its last renewal."""


def renewals_ended(run: Recorded, side: Side, by_ns: int) -> tuple[str, Cause | None]:
    """`c5 had sent no request to renew it, and none for any lease since +1,018.0 ms (EVAL; no answer)`, which is a
    cause if no fault kept the lock from sending one for this lease. Or `the last of its 3 requests to renew it was sent
    at +6,100.0 ms (EVAL; no answer)`, if that failed, and a cause if the nodes refused it, which the lock should have
    told its client. If all of them went to nodes without the key, that is said and is the cause. Empty if the lock does
    not renew, if its renewals do not show why the lease ended, or if it is not on record which requests renewed it. A
    lock that sends none after one that failed has not renewed its lease."""
    ledger = run.whole_ledger
    if ledger is None or run.config.renewal_ms is None or not (keys := run.lock_keys):
        return "", None
    by_node = {
        node: [one for one in sent if one.from_client_ns < by_ns]
        for node, sent in renewals_by_node(run, ledger.sent, side, keys).items()
    }
    asked = sorted((one for sent in by_node.values() for one in sent), key=lambda one: one.from_client_ns)
    if any(_may_be_of_another_call(ledger, side, one) for one in asked):
        return "", None
    if (elsewhere := misdirected_renewals(run, ledger, side, by_node, by_ns)) is not None:
        return _misdirected(run, elsewhere), "renewed elsewhere"
    if asked:
        last = asked[-1]
        refused = [one for one in asked[-len(run.nodes) :] if said_no(ledger, one)]
        is_failed = last.reply is None or last.reply.startswith(ERROR_REPLY)
        if not is_failed and len(refused) < quorum(len(run.nodes)):
            return "", None
        of = "its only request" if len(asked) == 1 else f"the last of its {plural(len(asked), 'request')}"
        text = f"{of} to renew it was sent at {_sent(run, last, last.answer_by(by_ns))}"
        if sum(one.answer_by(by_ns) is not None for one in refused) >= quorum(len(run.nodes)):
            return text, "refused renewal"
        gave_up = _gave_up(run, side, last, by_ns)
        return (f"{text}, and none after it", "not renewed") if gave_up else (text, None)
    earlier = (
        (section, one)
        for section in _before(run, side)
        for one in renewal_requests(run, ledger.sent, section, keys)[-1:]
    )
    if len(others := renewals_of_another_key(run, side, side.start_ns, by_ns)):
        return f"{side.client} {renewed_another_key(run, ledger, others)}", "renewed another key"
    section, before = next(earlier, (side, None))
    is_sure = before is not None and not _may_be_of_another_call(ledger, section, before)
    since = (
        f", and none for any lease since {_sent(run, before, before.reply)}" if before is not None and is_sure else ""
    )
    was_free = could_renew(run, process_of(side.client), side.key, side.start_ns, by_ns)
    return f"{side.client} had sent no request to renew it{since}", "not renewed" if was_free else None


def renewed_another_key(run: Recorded, ledger: Ledger, changes: pd.DataFrame) -> str:
    """`had sent no request to renew it, but 3 that kept k1-alive (the last: outside any call it sent SET to n1 at …)`.
    `changes`: rows of the ledger."""
    number, last = int(changes["request"].nunique()), ledger.change(int(changes.index[-1]))
    key = printable(str(last["key"]))
    which = f"one that kept {key} (" if number == 1 else f"{number} that kept {key} (the last: "
    return f"had sent no request to renew it, but {which}{how_sent(run, last)})"


def _misdirected(run: Recorded, elsewhere: Misdirected) -> str:
    sent, to, holders = elsewhere.sent, listed(elsewhere.to), listed(elsewhere.holders)
    last, where = _sent(run, sent[-1], sent[-1].reply), f"{to}, which did not hold the key"
    if len(sent) == 1:
        text = f"its only request to renew it, at {last}, went to {where}, and not to {holders}"
    else:
        its = f"its {plural(len(sent), 'request')} to renew it"
        text = f"{its}, the last at {last}, all went to {where}, and none to {holders}"
    return f"{text}, where the acquire had set it"


def _gave_up(run: Recorded, side: Side, last: Request, by_ns: int) -> bool:
    """Whether the lock sent no further request although two more were due, and no fault kept it from sending them."""
    assert run.config.renewal_ms is not None
    due_ns = last.from_client_ns + round(run.config.renewal_ms * 1e6)
    is_over = due_ns + round(run.config.renewal_ms * 1e6) < by_ns
    return is_over and could_renew(run, process_of(side.client), side.key, due_ns, by_ns)


def _may_be_of_another_call(ledger: Ledger, section: Any, one: Request) -> bool:
    """Whether a call of its process that renews nothing was under way: another task that acquires, or a nested call. A
    process that notes what its tasks send sent what is of none of them in the background."""
    calls = ledger.calls
    if one.task is None and ledger.wire.notes_tasks:
        return False
    under_way = calls.under_way(process_of(str(section.client)), one.from_client_ns, str(section.key))
    return any(calls.client[call] != section.client or calls.f[call] not in _RENEW for call in under_way)


def _before(run: Recorded, side: Side) -> Iterator[Any]:
    """The earlier sections of this life of the client, the latest first."""
    sections = run.sections
    own = (sections["client"] == side.client) & (sections["life"] == side.life)
    own &= sections["start_ns"] < side.start_ns
    return reversed(list(sections[own.to_numpy(bool)].tail(_LOOKED_AT).itertuples()))


def _sent(run: Recorded, one: Request, said: str | None) -> str:
    """`+1,018.0 ms (EVAL; no answer)`. `said`: the answer that the client had when it mattered."""
    if said is None:
        reply = "no answer" if one.reply is None else "no answer in time"
    else:
        reply = f"answered {printable(said[:60])}"
    return f"{at(run, one.from_client_ns)} ({printable(one.command)}; {reply})"

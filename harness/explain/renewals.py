"""What a lock that renews its leases by itself had sent to renew one that ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fencepost.history import process_of
from fencepost.quorum import quorum
from fencepost.text import plural, printable
from harness.explain.causes import Cause
from harness.explain.examples import Side
from harness.explain.words import at
from harness.history.error_replies import ERROR_REPLY
from harness.history.lock_keys import lock_keys
from harness.history.node_requests import Request
from harness.history.recorded import Recorded
from harness.history.renewal_requests import QUESTIONS, could_renew, renewal_requests

_REFUSALS: Final = ("0", "null", "false")
_LOOKED_AT: Final = 50
"""How many of a client's earlier sections are looked at for its last renewal."""


def renewals_ended(run: Recorded, side: Side, by_ns: int) -> tuple[str, Cause | None]:
    """`c5 had sent no request to renew it, and none for any lease since +1,018.0 ms (EVAL; no answer)`, which is a
    cause if no fault kept the lock from sending one for this lease. Or `the last of its 3 requests to renew it was sent
    at +6,100.0 ms (EVAL; no answer)`, if that failed, and a cause if the node refused it, which the lock should have
    told its client. Empty if the lock does not renew, if its renewals do not show why the lease ended, or if what went
    over the links is not on record."""
    ledger = run.ledger
    keys = set[str]() if ledger is None or run.config.renewal_ms is None else lock_keys(run, ledger)
    if ledger is None or not keys or not ledger.wire.recorded.issuperset(run.nodes):
        return "", None
    asked = [one for one in renewal_requests(run, ledger.sent, side, keys) if one.from_client_ns < by_ns]
    if asked:
        last = asked[-1]
        round_ = asked[-len(run.nodes) :]
        refused = [one for one in round_ if one.reply in _REFUSALS and one.command.upper() not in QUESTIONS]
        is_refused = len(refused) >= quorum(len(run.nodes))
        if last.reply is not None and not last.reply.startswith(ERROR_REPLY) and not is_refused:
            return "", None
        of = "its only request" if len(asked) == 1 else f"the last of its {plural(len(asked), 'request')}"
        return f"{of} to renew it was sent at {_sent(run, last)}", "refused renewal" if is_refused else None
    earlier = (one for section in _before(run, side) for one in renewal_requests(run, ledger.sent, section, keys)[-1:])
    before = next(earlier, None)
    since = "" if before is None else f", and none for any lease since {_sent(run, before)}"
    was_free = could_renew(run, process_of(side.client), side.start_ns, by_ns)
    return f"{side.client} had sent no request to renew it{since}", "not renewed" if was_free else None


def _before(run: Recorded, side: Side) -> Iterator[object]:
    """The earlier sections of this life of the client, the latest first."""
    sections = run.sections
    own = (sections["client"] == side.client) & (sections["life"] == side.life)
    own &= sections["start_ns"] < side.start_ns
    return reversed(list(sections[own.to_numpy(bool)].tail(_LOOKED_AT).itertuples()))


def _sent(run: Recorded, one: Request) -> str:
    """`+1,018.0 ms (EVAL; no answer)`"""
    reply = "no answer" if one.reply is None else f"answered {printable(one.reply[:60])}"
    return f"{at(run, one.from_client_ns)} ({printable(one.command)}; {reply})"

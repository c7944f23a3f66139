"""Requests of a client during its section that may have been renewals: whether faults blocked them, and whether they
went to nodes that did not hold the key, and none to the nodes that held it.

Renewals were misdirected in a section if all of this is so, up to the time at which its lease ended:

- all requests of its client that name its key, apart from reads, went to nodes that were in sight and did not hold it
  then, and each of them was answered no;
- no node on which the acquire had set the key was asked, although a whole renewal interval had passed since the first
  of these requests;
- no fault was in force on the client, on those nodes or on its links to them; nor a second before the first request, or
  a lease if that is longer: what a client was cut off from it may not have connected to again.

If that is so of `LEAST` sections, and no request like these was ever done, or went to a node on which the acquire of
its section had set the key, the lock renews at the wrong nodes, and the faults do not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pandas as pd

from fencepost.history import process_of
from fencepost.quorum import quorum
from harness.history.calls import GRANTS
from harness.history.commands import RUN_SCRIPTS
from harness.history.error_replies import REFUSALS
from harness.history.fault_windows import hits_link
from harness.history.groups import rows_of, where
from harness.history.key_changes import ENDINGS
from harness.history.ledger import Ledger
from harness.history.node_requests import NodeRequests, Request
from harness.history.waits import SECOND_NS

if TYPE_CHECKING:
    from harness.history.recorded import Recorded

LEAST: Final = 3
_SET: Final = ("set", "overwritten", "changed")
_KEEPS: Final = (*_SET, "prolonged")
_RENEW: Final = ("extend", "held")
QUESTIONS: Final = (
    *("GET", "MGET", "EXISTS", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "TYPE", "STRLEN"),
    *("HGET", "HMGET", "HGETALL", "HEXISTS", "HLEN", "HKEYS", "SISMEMBER", "SMEMBERS", "SCARD"),
    *("ZSCORE", "ZRANK", "ZRANGE", "ZCARD", "LRANGE", "LINDEX", "LPOS", "LLEN"),
    *("EVAL_RO", "EVALSHA_RO", "FCALL_RO"),
)
"""Commands that change nothing."""


def renewal_requests(run: Recorded, sent: NodeRequests, section: Any, keys: Collection[str]) -> list[Request]:
    """The client's requests within the section that name one of the keys, to whichever node."""
    found = (one for own in renewals_by_node(run, sent, section, keys).values() for one in own)
    return sorted(found, key=lambda one: one.from_client_ns)


def renewals_by_node(
    run: Recorded, sent: NodeRequests, section: Any, keys: Collection[str]
) -> dict[str, list[Request]]:
    """By node, the client's requests within the section that name one of the keys. A request that only reads, sent
    while the client asks whether it still holds the lock, renews nothing and is left out."""
    held = where(run.ops, f="held", client=section.client)
    calls = list(rows_of(held, "invoke_ns", "complete_ns"))
    return {
        node: [
            request
            for request in sent.between(str(section.client), node, section.start_ns, section.end_ns)
            if request.command.upper() not in QUESTIONS
            or not any(began <= request.from_client_ns <= done for began, done in calls)
            if not set(keys).isdisjoint((*request.keys, *request.arguments))
        ]
        for node in run.nodes
    }


def renewals_of_another_key(run: Recorded, section: Any, since_ns: int, by_ns: int) -> pd.DataFrame:
    """The changes that the client's requests of this time made to keys with the name of the section's key which only
    renewals touch: no acquire and no release of any client. Rows of the ledger."""
    rows = _of_renewals_alone(run)
    is_then = rows["from_client_ns"].between(since_ns, by_ns)
    return where(rows, is_then, client=process_of(str(section.client)), meant=section.key)


@lru_cache(maxsize=1)
def _of_renewals_alone(run: Recorded) -> pd.DataFrame:
    """`meant`: the key that clients ask for. A process that notes what its tasks send has sent the rest in the
    background."""
    ledger = run.whole_ledger
    assert ledger is not None, "else it would not be known what touched a key"
    rows = where(ledger.rows, ledger.rows["request"] >= 0)
    is_renewal = ~rows["is_in_call"] | rows["f"].isin(_RENEW) | (rows["f"].isna() & ledger.wire.notes_tasks)
    touched = {*run.lock_keys, *rows["key"][~is_renewal].astype(str)}
    own = where(rows, is_renewal, ~rows["key"].isin(list(touched)), what=_KEEPS)
    meant = ledger.calls.meant_by(own["key"].astype(str).unique())
    return own.assign(meant=[next(iter(meant[str(key)]), "") for key in own["key"]])


def said_no(ledger: Ledger, one: Request) -> bool:
    """Whether the node said no, and did nothing: a script that says nothing may have renewed it."""
    if one.reply not in REFUSALS or one.command.upper() in QUESTIONS:
        return False
    return not (ledger.rows["from_client_ns"] == one.from_client_ns).any()


def could_renew(run: Recorded, client: str, key: str, since_ns: int, at_ns: int) -> bool:
    """Whether no fault was in force in this time that can have kept the client from asking a majority of the key's
    nodes to renew it."""
    nodes = run.nodes_of(key)
    calm = set(nodes)
    for event, began, done in run.fault_windows:
        if began >= at_ns or done <= since_ns:
            continue
        linked = {node for who, node in event.links if who == client}
        if client in event.hit_clients and not linked:
            return False
        calm -= {*event.hit_nodes, *linked}
    if len(calm) < quorum(len(nodes)):
        return False
    return not run.wrong_clocks.nodes(since_ns, at_ns) and not run.wrong_clocks.mislead(client, since_ns, at_ns)


class Misdirected(NamedTuple):
    """`sent`: the requests, in order, to the nodes `to`. `holders`: where the acquire had set the key."""

    sent: Sequence[Request]
    to: Sequence[str]
    holders: Sequence[str]


def misdirected_renewals(
    run: Recorded, ledger: Ledger, section: Any, asked: Mapping[str, Sequence[Request]], by_ns: int
) -> Misdirected | None:
    """None if it was not so, or that is not known. `asked`: by node, what may have renewed the lease by then."""
    found = _elsewhere(run, ledger, section, asked, by_ns)
    is_sure = found is not None and (not _may_be_cut_off(run, section, found, by_ns) or _renews_elsewhere(run))
    return found if is_sure else None


@lru_cache(maxsize=1)
def _renews_elsewhere(run: Recorded) -> bool:
    """Whether the lock sends its renewals only to nodes that do not hold the key, as far as the record shows."""
    if (ledger := run.whole_ledger) is None:
        return False
    names, number, alike = run.lock_keys, 0, set[tuple[str, ...]]()
    right = set[tuple[str, ...]]()
    sections: Iterator[Any] = run.sections.itertuples()
    for section in sections:
        asked = renewals_by_node(run, ledger.sent, section, names)
        found = _elsewhere(run, ledger, section, asked, section.end_ns)
        if found is not None and not _may_be_cut_off(run, section, found, section.end_ns):
            number += 1
            alike |= {_like(one) for one in found.sent}
        holders, keys = _set_by(ledger, section)
        for node, own in asked.items():
            some = (one for one in own if not keys or not keys.isdisjoint(one.keys))
            right |= {_like(one) for one in some if node in holders or _is_done(ledger, one)}
    return number >= LEAST and alike.isdisjoint(right)


def _is_done(ledger: Ledger, request: Request) -> bool:
    is_answered = request.reply is not None and ledger.sent.error_of(request) is None
    return is_answered and not said_no(ledger, request)


def _like(request: Request) -> tuple[str, ...]:
    """The command, and which script it calls."""
    return request.words[:2] if request.command.upper() in RUN_SCRIPTS else request.words[:1]


def _elsewhere(
    run: Recorded, ledger: Ledger, section: Any, asked: Mapping[str, Sequence[Request]], by_ns: int
) -> Misdirected | None:
    """What the section sent only to other nodes, whatever faults there were."""
    assert run.config.renewal_ms is not None
    asked = {node: some for node, own in asked.items() if (some := [one for one in own if _may_renew(one)])}
    holders, keys = _set_by(ledger, section)
    if not holders or not holders.isdisjoint(asked):
        return None
    # What a thread of the lock sent may have been for the key of another task.
    by_node = {node: some for node, own in asked.items() if (some := [one for one in own if keys & {*one.keys}])}
    sent = sorted((one for own in by_node.values() for one in own), key=lambda one: one.from_client_ns)
    if not sent or sent[0].from_client_ns + round(run.config.renewal_ms * 1e6) > by_ns:
        return None
    last_ns = sent[-1].from_client_ns
    if any(_may_have_held(run, ledger, node, keys, section.start_ns, last_ns) for node in by_node):
        return None
    if not all(said_no(ledger, one) for one in sent):
        return None
    return Misdirected(sent, *([node for node in run.nodes if node in some] for some in (by_node, holders)))


def _may_renew(request: Request) -> bool:
    return request.command.upper() not in QUESTIONS


def _set_by(ledger: Ledger, section: Any) -> tuple[set[str], set[str]]:
    """The nodes on which the acquire of this section set keys, and these."""
    own = {"task": section.client, "life": section.life, "section": section.section}
    some = where(ledger.rows, **own, f=GRANTS, is_in_call=True, what=_SET)
    return set(some["node"].astype(str)), set(some["key"].astype(str))


def _may_be_cut_off(run: Recorded, section: Any, found: Misdirected, by_ns: int) -> bool:
    client, first_ns = process_of(str(section.client)), found.sent[0].from_client_ns
    since_ns = first_ns - max(round(run.lease_ms * 1e6), SECOND_NS)
    return any(
        client in event.paused_clients or any(hits_link(event, client, node) for node in found.holders)
        for event, began_ns, done_ns in run.fault_windows
        if began_ns < by_ns and done_ns > since_ns
    )


def _may_have_held(run: Recorded, ledger: Ledger, node: str, keys: Collection[str], from_ns: int, to_ns: int) -> bool:
    if run.watched is None or not run.watched.saw(node, from_ns, to_ns):
        return True
    own = where(ledger.rows, ledger.rows["since_ns"] <= to_ns, node=node, key=keys)
    last = {str(key): (str(what), at_ns) for key, what, at_ns in rows_of(own, "key", "what", "at_ns")}
    return any(what == "overwritten" or what not in ENDINGS or at_ns >= from_ns for what, at_ns in last.values())

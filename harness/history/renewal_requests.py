"""Requests of a client during its section that may have been renewals, and whether faults blocked them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from fencepost.quorum import quorum
from harness.history.error_replies import REFUSALS
from harness.history.fault_windows import longest_windows
from harness.history.groups import rows_of
from harness.history.ledger import Ledger
from harness.history.node_requests import NodeRequests, Request

if TYPE_CHECKING:
    from harness.history.recorded import Recorded

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
    held = run.ops[((run.ops["f"] == "held") & (run.ops["client"] == section.client)).to_numpy(bool)]
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
    for event, began, done in longest_windows(run.faults):
        if began >= at_ns or done <= since_ns:
            continue
        linked = {node for who, node in event.links if who == client}
        if client in event.hit_clients and not linked:
            return False
        calm -= {*event.hit_nodes, *linked}
    if len(calm) < quorum(len(nodes)):
        return False
    return not run.wrong_clocks.nodes(since_ns, at_ns) and not run.wrong_clocks.mislead(client, since_ns, at_ns)

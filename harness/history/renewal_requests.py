"""What a client sent in a section that may have been to renew its lease."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from fencepost.history import process_of
from harness.history.key_owners import rows_of
from harness.history.node_requests import NodeRequests, Request
from harness.history.recorded import Recorded

_QUESTIONS: Final = (
    *("GET", "MGET", "EXISTS", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "TYPE", "STRLEN"),
    *("HGET", "HMGET", "HGETALL", "HEXISTS", "HLEN", "HKEYS", "SISMEMBER", "SMEMBERS", "SCARD"),
    *("ZSCORE", "ZRANK", "ZRANGE", "ZCARD", "LRANGE", "LINDEX", "LPOS", "LLEN"),
    *("EVAL_RO", "EVALSHA_RO", "FCALL_RO"),
)
"""Commands that change nothing."""


def renewal_requests(run: Recorded, sent: NodeRequests, section: Any, keys: Collection[str]) -> list[Request]:
    """The client's requests within the section that name one of the keys. A request that only reads, sent while the
    client asks whether it still holds the lock, renews nothing and is left out."""
    held = run.ops[((run.ops["f"] == "held") & (run.ops["client"] == section.client)).to_numpy(bool)]
    calls = list(rows_of(held, "invoke_ns", "complete_ns"))
    asked = (
        request
        for node in run.nodes
        for request in sent.between(process_of(str(section.client)), node, section.start_ns, section.end_ns)
        if request.command.upper() not in _QUESTIONS
        or not any(began <= request.from_client_ns <= done for began, done in calls)
    )
    found = (one for one in asked if not set(keys).isdisjoint((*one.keys, *one.arguments)))
    return sorted(found, key=lambda one: one.from_client_ns)

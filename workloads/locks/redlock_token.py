"""Redlock with fencing tokens from the nodes themselves: each counts its grants, and the largest count is the token.

That is no substitute for one counter. The node that two majorities share may have counted fewer grants than the node
whose count was the last token, and a node that restarts empty has forgotten its count.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from workloads.base import Lease, LockSettings, NodeAddress
from workloads.connection import Reply, pack
from workloads.locks.redlock import Redlock

GRANT_SCRIPT = b"""\
if redis.call("set",KEYS[1],ARGV[1],"NX","PX",ARGV[2]) then
    return redis.call("incr",KEYS[2])
else
    return false
end"""


class _Heard(threading.local):
    replies: Sequence[Reply] = ()


class RedlockToken(Redlock):
    """The count of the key `k` is the key `k:token` on each node; it never expires."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._heard = _Heard()

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", GRANT_SCRIPT, 2, key, f"{key}:token", value, ttl_ms)

    def grants(self, reply: Reply) -> bool:
        return isinstance(reply, int)

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        lease = super().try_once(key, ttl_ms)
        if lease is None:
            return None
        return replace(lease, token=max(reply for reply in self._heard.replies if isinstance(reply, int)))

    def _ask(self, request: bytes) -> list[Reply]:
        self._heard.replies = replies = super()._ask(request)
        return replies


LOCK = RedlockToken

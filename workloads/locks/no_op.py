"""No lock at all: grants every acquire immediately and contacts no node. For benchmarks of everything else."""

from __future__ import annotations

import time
from collections.abc import Sequence

from workloads.base import Lease, LockSettings, NodeAddress


class NoOp:
    """Excludes no client."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        del nodes, settings

    def acquire(self, key: str, ttl_ms: int) -> Lease:
        now_ns = time.monotonic_ns()
        return Lease(key, "", ttl_ms, deadline_ns=now_ns + ttl_ms * 1_000_000, requested_ns=now_ns)

    def extend(self, lease: Lease, ttl_ms: int) -> Lease:
        return self.acquire(lease.key, ttl_ms)

    def release(self, lease: Lease) -> bool:
        del lease
        return True

    def close(self) -> None:
        pass

    def describe(self) -> dict[str, object]:
        return {"excludes": "no client"}


LOCK = NoOp

"""SET NX PX on whichever node is the primary: the lock that relies on replication and failover.

Every node is asked, and a replica refuses to write, so only a primary can grant the lock. Replication is asynchronous:
what the old primary granted, the new one may not know.
"""

from __future__ import annotations

from workloads.locks.redlock import Redlock


class PrimaryReplica(Redlock):
    """One primary is enough. Who replicates whom is for others to arrange."""

    def quorum(self) -> int:
        return 1


LOCK = PrimaryReplica

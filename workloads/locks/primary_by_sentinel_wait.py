"""The lock on the primary that Redis Sentinel names, which waits until one replica has the key (WAIT 1)."""

from __future__ import annotations

from workloads.locks.primary_by_sentinel import PrimaryBySentinel
from workloads.locks.primary_replica_wait import PrimaryReplicaWait


class PrimaryBySentinelWait(PrimaryReplicaWait, PrimaryBySentinel):
    """Asks the primary alone, and waits as `PrimaryReplicaWait` does."""


LOCK = PrimaryBySentinelWait

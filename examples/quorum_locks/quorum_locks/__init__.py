"""Locks on a majority of independent Redis servers."""

from quorum_locks.asynchronous import AsyncQuorumLock, NotAcquiredError
from quorum_locks.quorum import Grant, QuorumLock

__all__ = ["AsyncQuorumLock", "Grant", "NotAcquiredError", "QuorumLock"]

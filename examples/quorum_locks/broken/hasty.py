"""A lock that is broken on purpose: it does not wait for a majority."""

from __future__ import annotations

from locks_under_test import Quorum
from quorum_locks import QuorumLock


class HastyLock(QuorumLock):
    majority = 2  # of five: two clients can both have two


class Hasty(Quorum):
    make = HastyLock

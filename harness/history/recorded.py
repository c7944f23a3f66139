"""A recorded run: the input of checkers, explanations and reports."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.history.cancelled_calls import CancelledCall, cancelled_calls
from harness.history.groups import Groups, codes_of
from harness.history.key_owners import Owners, find_owners
from harness.history.ledger import Ledger
from harness.history.lock_keys import lock_keys
from harness.history.overlaps import sections_by_key
from harness.history.quorum_support import Backing
from harness.history.run_tables import RunTables
from harness.history.sessions import granted_sessions_ms
from harness.history.unowned import Unowned


@dataclass(frozen=True, eq=False)
class Recorded(RunTables):
    """A recorded run as tables, and what they say together: the changes of keys, their owners, what backed sections."""

    @cached_property
    def owners(self) -> Owners | None:
        """Whose the keys on the nodes were; None if the nodes were not watched, or what went over the links is not on
        record."""
        watched = self.watched
        if watched is None or not watched.windows or self.ledger is None:
            return None
        return find_owners(self, watched, self.ledger, self.unowned)

    @cached_property
    def ledger(self) -> Ledger | None:
        """What changed the keys on the nodes; None if they were not watched, or what went over the links is not on
        record."""
        wire = None if self.watched is None else self.wire()
        return None if wire is None else Ledger.of(self, self.key_events(), wire)

    @cached_property
    def unowned(self) -> Unowned:
        """Which keys and values on the nodes no client owned; empty where there is no ledger."""
        return Unowned() if self.ledger is None else Unowned.of(self, self.ledger)

    def nodes_of(self, key: str) -> tuple[str, ...]:
        """Those of the lock's nodes that were asked for the key, of which a majority is needed: a lock may spread its
        keys over them. All if it does not: a node that was asked for none of them should have been."""
        asked = {} if self.ledger is None else self.ledger.nodes_of
        if key not in asked or not set().union(*asked.values()).issuperset(self.nodes):
            return self.nodes
        return tuple(node for node in self.nodes if node in asked[key]) or self.nodes

    @cached_property
    def whole_ledger(self) -> Ledger | None:
        """The same, where no request to a node of the lock is missing."""
        return self.ledger if self.ledger is not None and self.ledger.wire.recorded.issuperset(self.nodes) else None

    @cached_property
    def lock_keys(self) -> frozenset[str]:
        """The names on the nodes of the keys that clients ask for; empty where there is no ledger."""
        ledger = self.ledger
        return frozenset() if ledger is None else lock_keys(self, ledger, self.owners, self.unowned)

    @cached_property
    def cancelled(self) -> tuple[CancelledCall, ...]:
        """The calls that users cancelled, and that may have left something on the nodes."""
        return cancelled_calls(self, self.whole_ledger)

    @cached_property
    def backing(self) -> Backing | None:
        """What the nodes held for each section; None if they were not watched."""
        if self.watched is None or self.owners is None:
            return None
        asked_of = {} if self.whole_ledger is None else self.whole_ledger.nodes_of
        return Backing.of(self, self.watched, self.owners, asked_of)

    @cached_property
    def kept_ms(self) -> float:
        """How long something may be kept for a client that has gone: the lease, or the TTL if none was promised. Or as
        long as the nodes' server let a session last without its client, if that is longer."""
        lease_ms = self.config.ttl_ms if self.is_open_ended else self.lease_ms
        wire = self.wire()
        granted_ms = () if wire is None else granted_sessions_ms(wire.requests)
        return float(max([lease_ms, *granted_ms]))

    @cached_property
    def sections_by_key(self) -> Groups:
        """The rows of `sections` by key, and by start within each key. Ordered once for all checkers."""
        return sections_by_key(self.sections)

    @cached_property
    def writes_by_key(self) -> Groups:
        """The rows of `writes` by key, in the resource's order within each key."""
        return Groups.of(codes_of(self.writes["key"]))


def named(row: Any) -> dict[str, object]:
    """The section that a row of sections or of operations is about, as examples name it."""
    return {"client": str(row.client), "life": int(row.life), "section": int(row.section), "key": str(row.key)}

"""Leases that a lock granted again with the value that was already set: the key never disappeared between two sections
of a client.

A lock may keep a key for a while after its release, and let the same client in again while it is still there (it holds
for that client, or was never asked to go). From then on the key is the next section's. So what a release left behind
counts until the client asked for the grant that took the key over, and no longer. A grant that found the key gone, or
set it anew, took nothing over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of_sections
from harness.history.held_keys import HeldKey
from harness.history.key_owners import Owners

if TYPE_CHECKING:
    from harness.history.recorded import Recorded


class KeyUse(NamedTuple):
    """A section that used a key on a node, by its place in `sections`; -1 for whatever set it. `until_ns`: when the
    client asked for the grant that took the key over; forever if none did."""

    section: int
    until_ns: int


class HandedOn:
    """Which sections used each key on the nodes, one after the other."""

    def __init__(self, run: Recorded, owners: Owners) -> None:
        self._of_clients = owners.of_clients
        self._start: list[int] = run.sections["start_ns"].tolist()
        self._asked = _asked_ns(run)
        self._users: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        keys = run.sections["key"].astype(str).tolist()
        for section, values in owners.values.items():
            for value in values & owners.of_clients.keys():
                self._users[value, keys[section]].append(section)
        for users in self._users.values():
            users.sort(key=self._start.__getitem__)

    def uses(self, held: HeldKey) -> Iterator[KeyUse]:
        """The sections that used what a node held; first the one that set it."""
        section = held.section
        users = self._users.get((held.value or "", held.lock_key), [])
        times = held.from_max_ns, held.to_min_ns
        first, last = (bisect_right(users, at_ns, key=self._start.__getitem__) for at_ns in times)
        for after in users[first:last]:  # their grants found it there
            if after != section:
                yield KeyUse(section, self._asked.get(after, self._start[after]))
                section = after
        yield KeyUse(section, FOREVER_NS)


def _asked_ns(run: Recorded) -> dict[int, int]:
    """When the call was made that let each section in, by its place."""
    granted = rows_of_sections(run.sections, run.calls("acquire", "ok"), "invoke_ns")
    return {section: invoke_ns for section, invoke_ns in granted if section >= 0}

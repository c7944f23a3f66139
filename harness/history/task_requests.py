"""Which task of a process deleted a key.

Which task sent a request is not on record. But one that is inside asks the lock for nothing then, so what its process
deletes meanwhile, another task does: the one that releases then, if it sent no other request of this kind.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from fencepost.history import process_of

if TYPE_CHECKING:
    from harness.history.ledger import Change, Ledger
    from harness.history.recorded import Recorded


def is_anothers(run: Recorded, ledger: Ledger, change: Change, task: str, key: str) -> bool:
    """Whether surely not this task of the process sent the request: it names the value of the key that it deleted, and
    the task had no call for the lock's key under way."""
    wire, sent_ns = run.wire(), int(change["from_client_ns"])
    assert wire is not None, "else there would be no ledger"
    if change["value"] is None or change["value"] not in wire.requests["arguments"][int(change["request"])].as_py():
        return False
    under_way = ledger.calls.under_way(process_of(task), sent_ns, key)
    return all(ledger.calls.client[call] != task for call in under_way)


def release_that_sent(run: Recorded, ledger: Ledger, change: Change, key: str) -> int | None:
    """The only release for the lock's key that was under way in the process, if it sent the node no other request of
    this kind; None if that is not known."""
    wire, calls = run.wire(), ledger.calls
    assert wire is not None, "else there would be no ledger"
    under_way = calls.under_way(str(change["client"]), int(change["from_client_ns"]), key)
    releases = [call for call in under_way if calls.f[call] == "release"]
    if len(releases) != 1:
        return None
    names = ("client", "node", "command")
    is_alike = functools.reduce(pc.and_, (pc.equal(wire.requests[name], str(change[name])) for name in names))
    sent_ns = wire.requests["from_client_ns"].filter(is_alike).drop_null().to_numpy()
    is_within = (sent_ns >= calls.invoke_ns[releases[0]]) & (sent_ns <= calls.complete_ns[releases[0]])
    return releases[0] if is_within.sum() == 1 else None

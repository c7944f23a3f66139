"""Which task of a process uses which connection.

A request does not name its task. But the one that deletes a key of the lock while one task of the process is releasing,
and no other one, is that task's, and so is its connection. If many such requests agree, and none was sent over a
connection of another task, the tasks of that process share no connection.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from harness.history.groups import rows_of
from harness.history.lock_keys import lock_keys

if TYPE_CHECKING:
    from harness.history.ledger import Ledger
    from harness.history.recorded import Recorded

AGREE: Final = 20
"""How many requests must confirm what an earlier one over the same connection had shown."""


def task_connections(run: Recorded, ledger: Ledger) -> dict[str, dict[int, str]]:
    """By process whose tasks share no connection, the task of each connection that is known."""
    rows, calls = ledger.rows, ledger.calls
    deleted = (rows["what"] == "deleted") & (rows["request"] >= 0) & rows["key"].isin(list(lock_keys(run, ledger)))
    found: defaultdict[str, defaultdict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    names = ("client", "connection", "key", "from_client_ns")
    meant = calls.meant_by(rows["key"].astype(str).unique())
    for process, connection, name, sent_ns in rows_of(rows[deleted.to_numpy(bool)], *names):
        under_way = {call for key in meant[str(name)] for call in calls.under_way(str(process), sent_ns, key)}
        tasks = {str(calls.client[call]) for call in under_way if calls.f[call] == "release"}
        if len(tasks) == 1:
            found[str(process)][connection][tasks.pop()] += 1
    return {
        process: {connection: next(iter(tasks)) for connection, tasks in own.items()}
        for process, own in found.items()
        if all(len(tasks) == 1 for tasks in own.values()) and sum(tasks.total() - 1 for tasks in own.values()) >= AGREE
    }

"""A counter in the lock's own database, read and written in the transaction that holds the lock.

A write takes effect when the transaction commits, which releases the lock as well, so the release acknowledges it. A
client that has lost its session has lost its transaction, and cannot commit: no fencing is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from fencepost.errors import UsageError
from workloads.counter import Counter
from workloads.kinds.fenced_counter import CounterSteps
from workloads.lock_steps import LockSteps
from workloads.options import ClientOptions
from workloads.resource import Resource
from workloads.sql_counter import TABLES, SqlCounter
from workloads.workload import Workload


class _Transaction:
    """`Resource`: what the transaction that holds the lock is told to do."""

    def __init__(self, lock: LockSteps) -> None:
        self._lock = lock

    def run(self, script: str, keys: Sequence[str], args: Sequence[object]) -> object:
        return self._lock.run(script, [*keys, *cast(Sequence[str], args)])


class TransactionSteps(CounterSteps):
    steps = ("read", "write")
    is_committed_by_release = True

    def open_counter(self) -> Counter:
        return SqlCounter(_Transaction(self.lock))


class TransactionCounter(Workload):
    inside = TransactionSteps
    checkers = ("counter", "fencing")
    guards_data = True
    tables = TABLES

    def check(self, options: ClientOptions) -> None:
        super().check(options)
        if options.reentries:
            raise UsageError(f"--reenter means nothing to --workload {options.workload}: a transaction commits once")

    def final(self, resource: Resource, keys: Iterable[str]) -> Mapping[str, int]:
        return SqlCounter(resource).final(keys)

    def story(self, options: ClientOptions) -> str:
        return (
            "A client that acquired it, in a transaction of the database that grants it, read a counter there, stayed "
            f"inside for {options.stay_in_words}, wrote it back plus one, and committed, which released the lock."
        )


WORKLOAD = TransactionCounter()

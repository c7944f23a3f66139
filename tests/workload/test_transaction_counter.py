"""A counter whose writes are committed by the release of the lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from fencepost.errors import UsageError
from fencepost.history import Op
from tests.workload.test_fenced_counter import ScriptedResource
from tests.workload.test_lock_steps import Answering
from workloads.base import Lease, Lock
from workloads.control import Control
from workloads.kinds.transaction_counter import WORKLOAD
from workloads.lock_steps import LockSteps
from workloads.options import ClientOptions
from workloads.recorder import Recorder
from workloads.sql_counter import READ, WRITE


class InTransaction:
    """A lock with a database of one counter, whose release does as it is told."""

    def __init__(self, commit: Callable[[], bool]) -> None:
        self.commit, self.told = commit, list[tuple[str, tuple[str, ...]]]()

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        return Lease(key, "session-1", open_ended=True)

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        return None

    def release(self, lease: Lease) -> bool:
        return self.commit()

    def run(self, lease: Lease, statement: str, values: Sequence[str]) -> str | None:
        self.told.append((statement, tuple(values)))
        return "6" if statement == READ else None

    def close(self) -> None: ...

    def describe(self) -> dict[str, object]:
        return {}


def ops_of(folder: Path, lock: Lock) -> list[Op]:
    options = ClientOptions(workload="transaction-counter")
    steps = LockSteps("c1", options, lock, Recorder(folder / "ops"), Control.create(folder / "control"))
    steps.acquire("k1")
    WORKLOAD.inside(steps, ScriptedResource()).work(lambda: True)
    steps.release()
    return [msgspec.json.decode(line, type=Op) for line in (folder / "ops").read_bytes().splitlines()]


def lost() -> bool:
    raise TimeoutError("no reply")


@pytest.mark.parametrize(("commit", "outcome"), [(lambda: True, "ok"), (lambda: False, "fail"), (lost, "info")])
def test_a_write_is_acknowledged_by_the_release_and_only_by_that(
    tmp_path: Path, commit: Callable[[], bool], outcome: str
) -> None:
    lock = InTransaction(commit)
    acquire, read, write, release = ops_of(tmp_path, lock)
    assert [op.f for op in (acquire, read, write, release)] == ["acquire", "read", "write", "release"]
    assert (write.outcome, release.outcome, write.value) == (outcome, outcome, 7)
    assert write.complete_ns <= release.invoke_ns
    (read_first, read_values), (written, (key, value, record)) = lock.told
    assert (read_first, read_values, written) == (READ, ("k1",), WRITE)
    assert (key, value, msgspec.json.decode(record)["client"]) == ("k1", "7", "c1")


def test_a_lock_that_runs_no_statements_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no `run`"):
        ops_of(tmp_path, Answering(Lease("k1", "v")))

"""What a client records of its lock's answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.errors import UsageError
from fencepost.history import LATEST_NS
from harness.config import RunConfig
from workloads.base import Lease
from workloads.control import Control
from workloads.lock_steps import LockSteps
from workloads.recorder import Recorder


class Answering:
    """A lock that answers what it is told to."""

    def __init__(self, lease: Lease | None) -> None:
        self.lease = lease

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        return self.lease

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        return self.lease

    def release(self, lease: Lease) -> bool:
        return True

    def close(self) -> None:
        pass

    def describe(self) -> dict[str, object]:
        return {}

    def is_held(self, lease: Lease) -> bool:
        return self.lease is not None


def steps_of(lock: Answering, folder: Path) -> LockSteps:
    config = RunConfig(seed=1, ttl_ms=1_500)
    control = Control.create(folder / "control")
    return LockSteps("c1", config, lock, Recorder(folder / "ops"), control)


def test_a_lease_without_a_validity_is_recorded_with_the_time_that_was_asked_for(tmp_path: Path) -> None:
    steps = steps_of(Answering(Lease("k1", "v")), tmp_path)
    op = steps.acquire("k1")
    assert (op.validity_ms, op.granted_ms) == (None, 1_500)
    assert steps.lapses_ns == op.invoke_ns + 1_500_000_000, "as a careful user counts"


def test_a_granted_time_is_recorded_where_the_lock_says_it_and_only_there(tmp_path: Path) -> None:
    assert (
        steps_of(Answering(Lease("k1", "v", 1_990.0, granted_ms=2_000.0)), tmp_path).acquire("k1").granted_ms == 2_000
    )
    assert steps_of(Answering(Lease("k1", "v", 1_490.0)), tmp_path).acquire("k1").granted_ms is None


def test_of_a_lease_without_an_end_no_time_is_recorded_and_it_never_lapses(tmp_path: Path) -> None:
    steps = steps_of(Answering(Lease("k1", "v", open_ended=True)), tmp_path)
    op = steps.acquire("k1")
    assert (op.validity_ms, op.granted_ms, op.deadline_ns) == (None, None, None)
    assert steps.lapses_ns == LATEST_NS


def test_steps_that_do_not_fit_are_refused_and_not_recorded(tmp_path: Path) -> None:
    steps = steps_of(Answering(Lease("k1", "v")), tmp_path)
    for step in (steps.still_held, steps.reenter, steps.leave, steps.release):
        with pytest.raises(UsageError, match="is not inside"):
            step()
    steps.acquire("k1")
    with pytest.raises(UsageError, match="only once and cannot leave"):
        steps.leave()
    assert [steps.reenter().f, steps.leave().f, steps.still_held().f, steps.release().f] == [
        "reenter", "leave", "held", "release",
    ]  # fmt: skip


class Explaining(Answering):
    """Refuses everything, and says why once."""

    def __init__(self, lease: Lease | None, said: str | None) -> None:
        super().__init__(lease)
        self.said = said

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        return None

    def release(self, lease: Lease) -> bool:
        return False

    def take_error(self) -> str | None:
        return self.said


def test_what_a_lock_says_when_it_refuses_is_kept(tmp_path: Path) -> None:
    assert steps_of(Explaining(None, "no quorum: 2 of 5"), tmp_path).acquire("k1").error == "no quorum: 2 of 5"
    (tmp_path / "2").mkdir()
    assert steps_of(Explaining(None, None), tmp_path / "2").acquire("k1").error is None
    (tmp_path / "3").mkdir()
    steps = steps_of(Explaining(Lease("k1", "v"), "x" * 1_000), tmp_path / "3")
    assert steps.acquire("k1").error is None
    assert steps.extend().error == "x" * 300
    assert (op := steps.release()).outcome == "fail"
    assert op.error == "x" * 300

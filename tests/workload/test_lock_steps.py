"""What a client records of its lock's answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.errors import UsageError
from fencepost.history import LATEST_NS
from harness.config import RunConfig
from workloads.base import CancelledCallError, Lease
from workloads.control import Control, State
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


def test_while_it_acquires_once_more_and_undoes_that_a_client_says_so(tmp_path: Path) -> None:
    lock, control = Answering(Lease("k1", "v")), Control.create(tmp_path / "control")
    steps = LockSteps("c1", RunConfig(seed=1), lock, Recorder(tmp_path / "ops"), control)
    seen: list[State] = []
    lock.acquire = lambda key, ttl_ms: seen.append(control.state) or lock.lease  # type: ignore[func-returns-value]
    lock.release = lambda lease: seen.append(control.state) or True  # type: ignore[func-returns-value]
    for step in (lambda: steps.acquire("k1"), steps.reenter, steps.leave):
        step()
        seen.append(control.state)
    assert seen == [State.ACQUIRING, State.INSIDE, State.REENTERING, State.INSIDE, State.LEAVING, State.INSIDE]


class Cancelled(Answering):
    """Its user gives up each call that may be cancelled."""

    limit_ms: float | None = None

    def cancel_after(self, limit_ms: float) -> None:
        self.limit_ms = limit_ms

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        self.give_up()
        return super().acquire(key, ttl_ms)

    def release(self, lease: Lease) -> bool:
        self.give_up()
        return super().release(lease)

    def give_up(self) -> None:
        limit_ms, self.limit_ms = self.limit_ms, None
        if limit_ms is not None:
            raise CancelledCallError(f"after {limit_ms:g} ms")


def test_after_a_cancelled_acquire_the_client_does_not_hold_and_tries_again_for_the_same_section(
    tmp_path: Path,
) -> None:
    steps = steps_of(Cancelled(Lease("k1", "v")), tmp_path)
    op = steps.acquire("k1", cancel_after_ms=12)
    assert (op.outcome, op.cancelled, op.section) == ("info", True, 1)
    assert "after 12 ms" in str(op.error)
    with pytest.raises(UsageError, match="is not inside"):
        steps.release()
    again = steps.acquire("k1")
    assert (again.outcome, again.cancelled, again.section) == ("ok", False, 1)


def test_after_a_cancelled_release_the_client_no_longer_holds(tmp_path: Path) -> None:
    steps = steps_of(Cancelled(Lease("k1", "v")), tmp_path)
    steps.acquire("k1")
    op = steps.release(cancel_after_ms=12)
    assert (op.outcome, op.cancelled) == ("info", True)
    with pytest.raises(UsageError, match="is not inside"):
        steps.release()
    assert steps.acquire("k1").section == 2


def test_a_call_of_a_lock_that_cannot_be_cancelled_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--cancel: Answering has no cancel_after"):
        steps_of(Answering(None), tmp_path).acquire("k1", cancel_after_ms=12)


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

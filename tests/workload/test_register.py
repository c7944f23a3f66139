"""The register's steps, and what its scripts do in a real resource."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fencepost.errors import UsageError
from fencepost.history import Op
from workloads.base import Lease
from workloads.control import Control
from workloads.kinds.register import WORKLOAD, RegisterSteps
from workloads.lock_steps import LockSteps
from workloads.options import ClientOptions, Fencing
from workloads.recorder import Recorder
from workloads.redis_resource import RedisResource


class Granting:
    """A lock that grants everything, with these unique values and tokens."""

    def __init__(self, value: str, token: int | None = None) -> None:
        self.value, self.token = value, token

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        return Lease(key, self.value, 900.0, token=self.token)

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        return None

    def release(self, lease: Lease) -> bool:
        return True

    def close(self) -> None: ...

    def describe(self) -> dict[str, object]:
        return {}


class Holder:
    """A client that is inside, whether or not another one is."""

    def __init__(
        self, name: str, folder: Path, resource: RedisResource, fencing: Fencing, value: str, token: int | None = None
    ) -> None:
        self.log = folder / f"{name}.jsonl"
        options = ClientOptions(workload="register", fencing=fencing)
        control = Control.create(folder / f"{name}.control")
        self.lock = LockSteps(name, options, Granting(value, token), Recorder(self.log), control)
        self.lock.acquire("k1")
        self.steps = RegisterSteps(self.lock, resource)

    def recorded(self) -> list[Op]:
        return [msgspec.json.decode(line, type=Op) for line in self.log.read_bytes().splitlines()]


def two(folder: Path, resource: RedisResource, fencing: Fencing, *values: str) -> tuple[RegisterSteps, RegisterSteps]:
    one, other = (Holder(f"c{number}", folder, resource, fencing, value) for number, value in enumerate(values, 1))
    return one.steps, other.steps


def test_a_write_records_what_its_client_had_read_and_what_it_replaced(tmp_path: Path, resource: RedisResource) -> None:
    one, other = two(tmp_path, resource, "none", "a", "b")
    assert (one.read().value, other.read().value) == (0, 0)
    assert (one.write().value, other.write().value) == (1, 2)
    assert [(w.client, w.value, w.read, w.replaced) for w in resource.accepted_since(0)] == [
        ("c1", 1, 0, 0),
        ("c2", 2, 0, 1),
    ]
    assert WORKLOAD.final(resource, ["k1", "k2"]) == {"k1": 2, "k2": 0}


def test_a_write_goes_through_only_while_the_lease_s_unique_value_is_still_there(
    tmp_path: Path, resource: RedisResource
) -> None:
    one, other = two(tmp_path, resource, "unique", "a", "b")
    one.read()
    other.read()
    late = one.write()
    assert (late.outcome, late.stale) == ("fail", True)
    assert other.write().outcome == "ok"
    assert [w.client for w in resource.accepted_since(0)] == ["c2"]


def test_a_client_that_comes_late_builds_on_what_is_there(tmp_path: Path, resource: RedisResource) -> None:
    one, other = two(tmp_path, resource, "unique", "a", "b")
    other.read()
    other.write()
    one.read()
    assert one.write().outcome == "ok"
    assert [(w.read, w.replaced) for w in resource.accepted_since(0)] == [(0, 0), (1, 1)]


@pytest.mark.parametrize("value", ["locked", ""])
def test_a_lock_without_unique_values_makes_the_check_worthless(
    value: str, tmp_path: Path, resource: RedisResource
) -> None:
    one, other = two(tmp_path, resource, "unique", value, value)
    one.read()
    other.read()
    assert (one.write().outcome, other.write().outcome) == ("ok", "ok")
    assert [(w.read, w.replaced) for w in resource.accepted_since(0)] == [(0, 0), (0, 1)]


def test_a_token_is_checked_as_for_the_counter(tmp_path: Path, resource: RedisResource) -> None:
    early = Holder("c1", tmp_path, resource, "all", "a", token=1).steps
    late = Holder("c2", tmp_path, resource, "all", "b", token=2).steps
    early.read()
    late.read()
    assert (early.write().stale, late.write().outcome) == (True, "ok")


def test_each_write_needs_a_read_of_its_own(tmp_path: Path, resource: RedisResource) -> None:
    one = Holder("c1", tmp_path, resource, "none", "a")
    one.steps.read()
    one.steps.write()
    with pytest.raises(UsageError, match="c1 has not read the register of k1; read it before each write"):
        one.steps.write()
    assert [op.f for op in one.recorded()] == ["acquire", "read", "write"]


def test_no_value_is_ever_written_twice(tmp_path: Path, resource: RedisResource) -> None:
    one, other = two(tmp_path, resource, "none", "a", "b")
    for _ in range(3):
        for steps in (one, other):
            steps.read()
            steps.write()
    values = [w.value for w in resource.accepted_since(0)]
    assert len(set(values)) == len(values) == 6

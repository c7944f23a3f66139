"""What a client does with the load of the moment: who works, on which keys, for how long, and when it rests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from time import monotonic_ns
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from fencepost.history import Op
from tests.workload.test_fenced_counter import LEASE_MS, ScriptedLock, ScriptedResource, short
from workloads.base import Lease
from workloads.control import Control, State
from workloads.hold import Hold
from workloads.kinds.fenced_counter import WORKLOAD
from workloads.load import LoadPhase, load_at
from workloads.lock_steps import LockSteps
from workloads.options import ClientOptions
from workloads.recorder import Recorder
from workloads.workload import Client, reenter

NOTHING = Hold("fixed", 0, 0)


@pytest.fixture
def control(tmp_path: Path) -> Control:
    control = Control.create(tmp_path / "control")
    control.start_ns = monotonic_ns()
    return control


class _AnyKey(ScriptedLock):
    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        lease = super().acquire(key, ttl_ms)
        return lease and replace(lease, key=key)


def played(tmp_path: Path, control: Control, options: ClientOptions, sections: int, client: str = "c1") -> list[Op]:
    """So many sections of one client, whose leases can be extended nine times."""
    lock = _AnyKey(control, [short] * sections)
    lock.extensions = [short] * 9
    steps = LockSteps(client, options, lock, Recorder(tmp_path / "log.jsonl"), control)
    WORKLOAD.run(Client(options, steps, ScriptedResource(), control, Random(1)))
    return [msgspec.json.decode(line, type=Op) for line in (tmp_path / "log.jsonl").read_bytes().splitlines()]


def options(*loads: LoadPhase, **more: object) -> ClientOptions:
    return ClientOptions(ttl_ms=LEASE_MS, loads=loads, retry_delay_ms=1, **more)  # type: ignore[arg-type]


def lasting(leases: float) -> Hold:
    return Hold("fixed", leases * LEASE_MS, leases * LEASE_MS)


def test_the_load_is_the_last_one_that_has_begun() -> None:
    first, second = LoadPhase(hold=NOTHING), LoadPhase(hold=NOTHING, from_ms=100)
    assert [load_at((first, second), at) for at in (-1, 0, 99.9, 100, 1e9)] == [first, first, first, second, second]


def test_without_loads_the_options_are_the_load() -> None:
    plain = ClientOptions(keys=2, hold=Hold("fixed", 5, 5), think=Hold("fixed", 7, 7), extensions=3, extend_at=0.7)
    assert plain.all_loads == (
        LoadPhase(hold=Hold("fixed", 5, 5), think=Hold("fixed", 7, 7), keys=2, extensions=3, extend_at=0.7),
    )
    assert plain.key_names == ("k1", "k2")


def test_a_client_rests_after_each_section(tmp_path: Path, control: Control) -> None:
    ops = played(tmp_path, control, options(LoadPhase(hold=NOTHING, think=Hold("fixed", 30, 30))), 2)
    released, acquired = ops[3], ops[4]
    assert (released.f, acquired.f) == ("release", "acquire")
    assert acquired.invoke_ns - released.complete_ns >= 30e6
    assert control.state is State.RESTING


def test_a_rest_ends_when_the_time_to_stop_comes(tmp_path: Path, control: Control) -> None:
    began = monotonic_ns()
    played(tmp_path, control, options(LoadPhase(hold=NOTHING, think=Hold("fixed", 60_000, 60_000))), 1)
    assert monotonic_ns() - began < 30e9


def test_a_client_that_is_not_named_works_only_when_a_load_of_its_own_begins(tmp_path: Path, control: Control) -> None:
    ops = played(
        tmp_path,
        control,
        options(LoadPhase(hold=NOTHING, clients=("c2",)), LoadPhase(hold=NOTHING, from_ms=50)),
        1,
        "c1@2",
    )
    assert ops[0].invoke_ns - control.start_ns >= 50e6


def test_a_named_client_works_with_all_its_tasks(tmp_path: Path, control: Control) -> None:
    ops = played(
        tmp_path, control, options(LoadPhase(hold=NOTHING, clients=("c1",)), LoadPhase(hold=NOTHING, from_ms=5_000)), 1
    )
    assert ops[0].invoke_ns - control.start_ns < 5e9


def test_the_keys_are_those_of_the_load(tmp_path: Path, control: Control) -> None:
    chosen = options(LoadPhase(hold=NOTHING, keys=3))
    assert {op.key for op in played(tmp_path, control, chosen, 40)} == {"k1", "k2", "k3"}


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_the_lease_is_extended_when_its_share_is_gone(tmp_path: Path, control: Control, share: float) -> None:
    ops = played(tmp_path, control, options(LoadPhase(hold=lasting(1.75), extensions=1, extend_at=share)), 1)
    read, extension = ops[1], next(op for op in ops if op.f == "extend")
    # The share is taken of what is left when the work begins, right after the read.
    left_ns = LEASE_MS * 1e6 - (read.complete_ns - ops[0].complete_ns)
    assert extension.invoke_ns - read.complete_ns >= share * left_ns - 1e6


def test_a_share_above_one_extends_what_is_over(tmp_path: Path, control: Control) -> None:
    ops = played(tmp_path, control, options(LoadPhase(hold=lasting(2), extensions=1, extend_at=1.25)), 1)
    extension = next(op for op in ops if op.f == "extend")
    assert extension.invoke_ns - ops[0].complete_ns >= LEASE_MS * 1e6


@pytest.mark.parametrize(("stops_after", "calls"), [(0, 0), (2, 2), (9, 3)])
def test_nested_calls_end_at_the_time_to_stop(stops_after: int, calls: int) -> None:
    steps: list[str] = []
    yes = Op("reenter", "ok", "k1", 1, 1, 2)

    class Stops:
        @property
        def stop_ns(self) -> int:
            return 0 if len(steps) >= stops_after else 2**62

    lock = SimpleNamespace(reenter=lambda: steps.append("reenter") or yes, leave=lambda: steps.append("leave"))
    client: Any = SimpleNamespace(options=SimpleNamespace(reentries=3), control=Stops(), lock=lock)
    reenter(client)
    assert steps == ["reenter"] * calls + ["leave"] * calls


@pytest.mark.parametrize("leases", [0, 1.2])
def test_nested_calls_come_before_the_work_and_after_it_also_when_the_lease_is_over(
    tmp_path: Path, control: Control, leases: float
) -> None:
    ops = played(tmp_path, control, options(LoadPhase(hold=lasting(leases)), reentries=1), 3)
    nested = ["reenter", "leave"]
    assert [op.f for op in ops] == ["acquire", *nested, "read", "write", *nested, "release"]


def test_a_client_that_overstays_releases_after_its_lease_and_extends_no_more(tmp_path: Path, control: Control) -> None:
    load = LoadPhase(hold=lasting(0.1), extensions=9, extend_at=0.1)
    ops = played(tmp_path, control, options(load, overstay=1), 2)
    assert [op.f for op in ops] == ["acquire", "read", "write", "release"] * 2
    acquired, released = ops[0], ops[3]
    assert released.invoke_ns - acquired.complete_ns >= LEASE_MS * 1e6


def test_a_client_does_not_wait_for_the_end_of_a_lease_that_outlasts_the_ttl(tmp_path: Path, control: Control) -> None:
    chosen = msgspec.structs.replace(options(LoadPhase(hold=NOTHING), overstay=1), ttl_ms=LEASE_MS / 4)
    acquired, *_, released = played(tmp_path, control, chosen, 1)
    assert released.f == "release"
    assert released.invoke_ns - acquired.complete_ns < LEASE_MS * 1e6


def test_a_client_that_forgets_acquires_again_and_releases_what_it_got_in_time(
    tmp_path: Path, control: Control
) -> None:
    ops = played(tmp_path, control, options(LoadPhase(hold=lasting(1.2)), forget=1), 3)
    assert [op.f for op in ops] == [*["acquire", "read", "write"] * 3, "release"], "at the end it releases"
    assert [op.section for op in ops] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 3]
    (tmp_path / "log.jsonl").unlink()
    control.stop_ns = 2**62
    in_time = played(tmp_path, control, options(LoadPhase(hold=NOTHING), forget=1), 2)
    assert [op.f for op in in_time] == ["acquire", "read", "write", "release"] * 2


def test_a_client_does_not_forget_an_extension_that_may_have_taken_effect(tmp_path: Path, control: Control) -> None:
    """Its keys may live for another TTL, and the client would find them in its own way."""
    lock = _AnyKey(control, [short] * 2)  # refuses extensions
    chosen = options(LoadPhase(hold=lasting(2), extensions=1, extend_at=1.2), forget=1)
    steps = LockSteps("c1", chosen, lock, Recorder(tmp_path / "log.jsonl"), control)
    WORKLOAD.run(Client(chosen, steps, ScriptedResource(), control, Random(1)))
    ops = [msgspec.json.decode(line, type=Op) for line in (tmp_path / "log.jsonl").read_bytes().splitlines()]
    steps_taken = [(op.f, op.outcome) for op in ops if op.f in ("acquire", "extend", "release")]
    assert steps_taken == [("acquire", "ok"), ("extend", "fail"), ("release", "ok")] * 2


@pytest.mark.parametrize(("reopen_ms", "opened"), [(None, 0), (1, 3), (60_000, 0)])
def test_a_client_opens_its_lock_anew_between_two_sections_when_it_is_due(
    tmp_path: Path, control: Control, reopen_ms: float | None, opened: int
) -> None:
    lock = _AnyKey(control, [short] * 3)
    again: list[_AnyKey] = []

    def reopened() -> _AnyKey:
        again.append(lock)
        return lock

    chosen = options(LoadPhase(hold=Hold("fixed", 2, 2)), reopen_ms=reopen_ms)
    record = Recorder(tmp_path / "log.jsonl")
    steps = LockSteps("c1", chosen, lock, record, control, reopened=reopened)
    WORKLOAD.run(Client(chosen, steps, ScriptedResource(), control, Random(1)))
    assert len(again) == opened

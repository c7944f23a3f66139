from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest

from fencepost.errors import BrokenEnvironmentError
from fencepost.history import Op
from workloads.base import Lease, Lock
from workloads.control import Control
from workloads.fencing import DRAW_TOKEN
from workloads.hold import Hold
from workloads.kinds.fenced_counter import WORKLOAD
from workloads.lock_steps import LockSteps
from workloads.options import ClientOptions, Fencing
from workloads.recorder import Recorder
from workloads.redis_counter import READ, WRITE
from workloads.resource import StaleAccessError
from workloads.workload import Client


class ScriptedLock:
    """Answers acquire from a list; when the list is used up, it calls the end. Extensions are answered from another
    list, and refused when that is used up."""

    def __init__(self, control: Control, answers: list[Callable[[], Lease | None]]) -> None:
        self.control, self.answers, self.released = control, answers, 0
        self.extensions: list[Callable[[], Lease | None]] = []

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        answer = self.answers.pop(0)
        if not self.answers:
            self.control.stop_ns = 0
        return answer()

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        return self.extensions.pop(0)() if self.extensions else None

    def release(self, lease: Lease) -> bool:
        self.released += 1
        return True

    def close(self) -> None: ...

    def describe(self) -> dict[str, object]:
        return {}


class ScriptedResource:
    """A counter in memory that notes which tokens it was shown, and fails where it is told to."""

    def __init__(self, fail: dict[str, Exception] | None = None) -> None:
        self.value: object = 0
        self.tokens, self.fail = 0, fail or {}
        self.shown: list[tuple[str, object]] = []

    def run(self, script: str, keys: Sequence[str], args: Sequence[object]) -> object:
        step = {DRAW_TOKEN: "token", READ: "read", WRITE: "write"}[script]
        if step != "token":
            self.shown.append((step, None if args[0] == "" else args[0]))
        if step in self.fail:
            raise self.fail[step]
        if step == "token":
            self.tokens += 1
            return self.tokens
        if step == "write":
            self.value = args[1]
        return str(self.value)


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control.create(tmp_path / "control")


def play(
    tmp_path: Path,
    control: Control,
    answers: list[Callable[[], Lease | None]],
    resource: ScriptedResource,
    fencing: Fencing = "none",
) -> list[Op]:
    """Run the workload over scripted answers and return what was recorded."""
    log = tmp_path / "c1.jsonl"
    options = ClientOptions(hold=Hold("fixed", 0, 0), fencing=fencing, retry_delay_ms=1)
    work(options, ScriptedLock(control, answers), resource, log, control)
    return [msgspec.json.decode(line, type=Op) for line in log.read_bytes().splitlines()]


def work(options: ClientOptions, lock: Lock, resource: ScriptedResource, log: Path, control: Control) -> None:
    steps = LockSteps("c1", options, lock, Recorder(log), control)
    WORKLOAD.run(Client(options, steps, resource, control, Random(1)))


def granted(token: int | None = None) -> Lease:
    return Lease("k1", "v", 900.0, token=token)


def refused() -> None:
    return None


def broken() -> Lease | None:
    raise TimeoutError("no reply")


def test_a_section_is_acquire_read_write_release(tmp_path: Path, control: Control) -> None:
    resource = ScriptedResource()
    ops = play(tmp_path, control, [granted, granted], resource)
    assert [op.f for op in ops] == ["acquire", "read", "write", "release"] * 2
    assert [op.section for op in ops] == [1] * 4 + [2] * 4
    assert resource.value == 2


def test_every_step_is_recorded_with_times_that_follow_one_another(tmp_path: Path, control: Control) -> None:
    ops = play(tmp_path, control, [granted], ScriptedResource())
    stamps = [stamp for op in ops for stamp in (op.invoke_ns, op.complete_ns)]
    assert stamps == sorted(stamps)


def test_a_refused_try_carries_the_number_of_the_section_it_was_for(tmp_path: Path, control: Control) -> None:
    ops = play(tmp_path, control, [refused, refused, granted], ScriptedResource())
    assert [(op.f, op.outcome, op.section) for op in ops[:3]] == [
        ("acquire", "fail", 1),
        ("acquire", "fail", 1),
        ("acquire", "ok", 1),
    ]


def test_an_exception_from_the_lock_is_recorded_as_unknown_not_as_refused(tmp_path: Path, control: Control) -> None:
    ops = play(tmp_path, control, [broken, granted], ScriptedResource())
    assert (ops[0].outcome, ops[0].error) == ("info", "TimeoutError: no reply")


def test_a_lock_that_is_broken_for_good_ends_the_client(tmp_path: Path, control: Control) -> None:
    def dead() -> Lease | None:
        raise BrokenEnvironmentError("the lock command died")

    with pytest.raises(BrokenEnvironmentError):
        play(tmp_path, control, [dead, granted], ScriptedResource())


def test_a_write_that_timed_out_is_unknown_and_the_lock_is_still_released(tmp_path: Path, control: Control) -> None:
    ops = play(tmp_path, control, [granted], ScriptedResource({"write": TimeoutError("late")}))
    assert [(op.f, op.outcome) for op in ops] == [
        ("acquire", "ok"),
        ("read", "ok"),
        ("write", "info"),
        ("release", "ok"),
    ]


def test_a_failed_read_means_no_write(tmp_path: Path, control: Control) -> None:
    ops = play(tmp_path, control, [granted], ScriptedResource({"read": TimeoutError("late")}))
    assert [op.f for op in ops] == ["acquire", "read", "release"]


def test_a_stale_token_is_a_definite_refusal(tmp_path: Path, control: Control) -> None:
    ops = play(tmp_path, control, [granted], ScriptedResource({"write": StaleAccessError("STALE 9")}), fencing="all")
    write = next(op for op in ops if op.f == "write")
    assert (write.outcome, write.stale) == ("fail", True)


@pytest.mark.parametrize(
    ("fencing", "shown"),
    [
        ("none", [("read", None), ("write", None)]),
        ("writes", [("read", None), ("write", 1)]),
        ("all", [("read", 1), ("write", 1)]),
    ],
)
def test_fencing_decides_who_shows_the_token(
    tmp_path: Path, control: Control, fencing: Fencing, shown: list[tuple[str, object]]
) -> None:
    resource = ScriptedResource()
    play(tmp_path, control, [granted], resource, fencing)
    assert resource.shown == shown


def test_a_token_that_the_lock_granted_is_used_and_none_is_drawn(tmp_path: Path, control: Control) -> None:
    resource = ScriptedResource()
    ops = play(tmp_path, control, [lambda: granted(token=41)], resource, "all")
    assert resource.shown == [("read", 41), ("write", 41)]
    assert {op.token_source for op in ops if op.token is not None} == {"lock"}
    assert resource.tokens == 0


def test_a_token_drawn_from_the_resource_says_so(tmp_path: Path, control: Control) -> None:
    ops = play(tmp_path, control, [granted], ScriptedResource(), "all")
    assert {op.token_source for op in ops if op.token is not None} == {"resource"}


def test_without_a_token_nothing_is_read_or_written(tmp_path: Path, control: Control) -> None:
    ops = play(tmp_path, control, [granted], ScriptedResource({"token": TimeoutError("late")}), "all")
    assert [(op.f, op.outcome) for op in ops] == [("acquire", "ok"), ("token", "info"), ("release", "ok")]


LEASE_MS = 400
"""So long that a busy machine does not keep a client from waking up a few times before the next half of it is gone."""


def work_for(
    tmp_path: Path, control: Control, hold_ms: float, at_most: int, extensions: list[Callable[[], Lease | None]]
) -> list[Op]:
    """One section of so much work with a short lease, which may be extended so often, with these answers."""
    log = tmp_path / "c1.jsonl"
    hold = Hold("fixed", hold_ms, hold_ms)
    options = ClientOptions(ttl_ms=LEASE_MS, hold=hold, retry_delay_ms=1, extensions=at_most)
    lock = ScriptedLock(control, [short])
    lock.extensions = extensions
    work(options, lock, ScriptedResource(), log, control)
    return [msgspec.json.decode(line, type=Op) for line in log.read_bytes().splitlines()]


def short() -> Lease:
    return Lease("k1", "v", float(LEASE_MS))


def test_a_lease_is_prolonged_when_half_of_it_is_gone_until_the_work_is_done(tmp_path: Path, control: Control) -> None:
    ops = work_for(tmp_path, control, 1.75 * LEASE_MS, 9, [short] * 9)
    extensions = [op for op in ops if op.f == "extend"]
    assert [op.f for op in ops if op.f != "extend"] == ["acquire", "read", "write", "release"]
    assert 2 <= len(extensions) <= 3
    assert {(op.outcome, op.validity_ms, op.section) for op in extensions} == {("ok", LEASE_MS, 1)}
    read_ms = (ops[1].complete_ns - ops[0].complete_ns) / 1e6
    for before, after in zip([ops[0], *extensions], extensions, strict=False):
        assert (after.invoke_ns - before.complete_ns) / 1e6 >= (LEASE_MS - read_ms) / 2


def test_it_is_prolonged_at_most_so_often_and_then_the_work_goes_on(tmp_path: Path, control: Control) -> None:
    ops = work_for(tmp_path, control, 2 * LEASE_MS, 1, [short] * 9)
    assert [op.f for op in ops] == ["acquire", "read", "extend", "write", "release"]
    assert (ops[3].invoke_ns - ops[1].complete_ns) / 1e6 >= 2 * LEASE_MS


@pytest.mark.parametrize(("answer", "outcome"), [(refused, "fail"), (broken, "info")])
def test_without_its_extension_a_client_stops_its_work_and_releases(
    tmp_path: Path, control: Control, answer: Callable[[], Lease | None], outcome: str
) -> None:
    ops = work_for(tmp_path, control, 5_000, 9, [short, answer, short])
    assert [(op.f, op.outcome) for op in ops] == [
        ("acquire", "ok"),
        ("read", "ok"),
        ("extend", "ok"),
        ("extend", outcome),
        ("release", "ok"),
    ]


def test_work_that_is_done_before_half_the_lease_is_gone_needs_no_extension(tmp_path: Path, control: Control) -> None:
    assert [op.f for op in work_for(tmp_path, control, 5, 9, [short])] == ["acquire", "read", "write", "release"]


def test_a_deadline_that_the_lock_reports_decides_when_half_is_gone(tmp_path: Path, control: Control) -> None:
    def over() -> Lease:
        return Lease("k1", "v", 60_000.0, deadline_ns=1)

    lock = ScriptedLock(control, [over])
    log = tmp_path / "c1.jsonl"
    options = ClientOptions(ttl_ms=60_000, hold=Hold("fixed", 60_000, 60_000), retry_delay_ms=1, extensions=1)
    work(options, lock, ScriptedResource(), log, control)
    ops = [msgspec.json.decode(line, type=Op) for line in log.read_bytes().splitlines()]
    assert [(op.f, op.outcome) for op in ops][2:] == [("extend", "fail"), ("release", "ok")]
    assert ops[2].invoke_ns - ops[1].complete_ns < 10e9, "what is over already is asked for at once"

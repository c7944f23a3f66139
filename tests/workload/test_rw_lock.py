"""The workloads rw-lock and leader: who comes as a reader, how long a leader leads, and who judges them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.errors import UsageError
from harness.checkers import checkers_of
from harness.options import parse_run
from harness.run.prepare import check_input
from tests.workload.test_lock_steps import Answering, steps_of
from workloads.base import Lease
from workloads.hold import Hold
from workloads.kinds import find_workload
from workloads.load import LoadPhase


class ForReaders(Answering):
    def __init__(self, lease: Lease | None) -> None:
        super().__init__(lease)
        self.asked: list[str] = []

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        self.asked.append("writer")
        return self.lease

    def acquire_shared(self, key: str, ttl_ms: int) -> Lease | None:
        self.asked.append("reader")
        return self.lease


def test_a_reader_asks_as_a_reader_each_time_and_its_acquires_say_so(tmp_path: Path) -> None:
    lock = ForReaders(None)
    steps = steps_of(lock, tmp_path)
    assert steps.acquire("k1", shared=True).shared
    lock.lease = Lease("k1", "v")
    assert (op := steps.acquire("k1", shared=True)).shared
    assert op.section == 1, "the attempt after a refusal is of the same section"
    steps.reenter()
    steps.leave()
    assert lock.asked == ["reader"] * 3
    steps.release()
    assert not (op := steps.acquire("k1")).shared
    assert op.section == 2


def test_a_lock_that_knows_no_readers_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--lock redlock has no acquire_shared"):
        check_input(parse_run(["--workload", "rw-lock", "--lock", "redlock"]))
    check_input(parse_run(["--workload", "rw-lock", "--lock", "rw-lock"]))
    with pytest.raises(UsageError, match="cannot let readers in together"):
        steps_of(Answering(Lease("k1", "v")), tmp_path).acquire("k1", shared=True)


def test_three_of_four_sections_are_those_of_readers() -> None:
    assert find_workload("rw-lock").readers == 0.75
    options = parse_run(["--workload", "rw-lock", "--lock", "rw-lock", "--hold", "20ms"])
    assert "in 75% of its sections" in find_workload("rw-lock").story(options)


@pytest.mark.parametrize("workload", ["fenced-counter", "register", "acquire-release", "semaphore", "leader"])
def test_no_client_of_another_workload_comes_as_a_reader(workload: str) -> None:
    assert not find_workload(workload).readers


def test_both_are_judged_by_every_general_checker() -> None:
    general = set(checkers_of("acquire-release")) - {"contention"}
    assert set(checkers_of("rw-lock")) == general
    assert set(checkers_of("leader")) == {*general, "fencing"}


def leading(*words: str) -> list[LoadPhase]:
    return list(parse_run(["--workload", "leader", "--lock", "redlock", "--ttl", "500ms", *words]).all_loads)


def test_a_leader_stays_for_one_to_three_ttls_and_extends_its_lease_all_the_time() -> None:
    (load,) = leading()
    assert (load.hold, load.keys) == (Hold("uniform", 500, 1_500), 1)
    assert load.extensions > 1_000
    assert leading("--renewal", "100ms")[0].extensions == 0, "the lock extends it"


def test_a_term_that_is_longer_than_a_lease_is_kept() -> None:
    assert leading("--hold", "4s", "--keys", "2")[0].hold == Hold("fixed", 4_000, 4_000)
    assert leading("--hold", "4s", "--keys", "2")[0].keys == 2


def test_all_drawn_loads_are_those_of_leaders_of_one_key() -> None:
    loads = leading("--nemesis", "standard", "--seed", "3")
    assert len(loads) > 3
    assert {load.keys for load in loads} == {1}
    assert min(load.hold.high_ms for load in loads) > 500
    assert len({load.think for load in loads}) > 1

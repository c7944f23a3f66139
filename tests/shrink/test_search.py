"""The whole search, against simulated worlds in which the needed faults are known."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from fencepost.errors import BrokenEnvironmentError
from harness.replay.violation import Moment
from harness.shrink.search import search
from harness.shrink.trials import EnoughError, Tally, TrialOutcome, Trials
from nemesis.schedule import Planned, Schedule
from tests.shrink.schedules import crash, partition, pause_inside, schedule, times


class World:
    """A play takes its load plus three seconds; `chance` returns how likely a schedule shows the violation."""

    def __init__(self, chance: Callable[[Schedule], float], seed: int = 0) -> None:
        self._chance = chance
        self._rng = Random(seed)
        self.now_s = 0.0
        self.plays = 0

    def __call__(self, schedule: Schedule, told: str) -> TrialOutcome:
        self.plays += 1
        self.now_s += schedule.duration_ms / 1e3 + 3
        return TrialOutcome(self._rng.random() < self._chance(schedule))

    def trials(self, limit_s: float = 600) -> Trials:
        return Trials(self, 2, 3, ends_at=limit_s, clock=lambda: self.now_s)


def of_kind(schedule: Schedule, nemesis: str) -> list[Planned]:
    return [planned for planned in schedule.faults if planned.nemesis == nemesis]


NOISE = [crash(f"f{i}", 1_000 + 900 * i, 400, ("n1", "n2")) for i in range(18)]
BOTH = [partition("cut", 6_000, 5_000, [("c1", "n1"), ("c1", "n2"), ("c2", "n4")]), pause_inside("stop", 8_000, 3_000)]
TWENTY = schedule(*sorted([*NOISE, *BOTH], key=lambda planned: planned.at_ms), duration_ms=30_000)


def a_long_pause_behind_a_cut_of_one_link(schedule: Schedule) -> float:
    """Needs a pause of at least a second that starts while c1 cannot reach n1."""
    cuts = [cut for cut in of_kind(schedule, "partition") if ["c1", "n1"] in cut.fault["links"]]
    pauses = [pause for pause in of_kind(schedule, "pause") if pause.duration_ms >= 1_000]
    return float(any(cut.at_ms < pause.at_ms <= cut.end_ms for cut in cuts for pause in pauses))


@pytest.mark.parametrize("moments", [(), (Moment(8_000, 9_200),), (Moment(29_000, 29_500),), (Moment(8_500, 30_500),)])
def test_twenty_faults_shrink_to_the_two_that_are_needed_whatever_the_hints(
    moments: tuple[Moment, ...],
) -> None:
    world = World(a_long_pause_behind_a_cut_of_one_link)
    found = search(TWENTY, moments, world.trials(limit_s=3_600))
    assert found.ended is None
    assert found.confirmed == Tally(2, 2)
    assert found.schedule is not None
    cut, stop = found.schedule.faults
    assert (cut.id, cut.fault["links"]) == ("cut", [["c1", "n1"]])
    assert stop.id == "stop"
    assert 1_000 <= stop.duration_ms <= 1_250
    assert found.schedule.duration_ms <= 2_500


def test_the_search_ends_in_time_and_confirms_the_best_so_far() -> None:
    world = World(a_long_pause_behind_a_cut_of_one_link)
    trials = world.trials(limit_s=250)
    found = search(TWENTY, (), trials)
    assert found.ended == "time"
    assert found.confirmed == Tally(2, 2)
    assert found.schedule is not None
    assert 2 <= len(found.schedule.faults) < 20
    assert world.now_s <= 250


def test_a_violation_that_does_not_come_again_is_not_shrunk() -> None:
    world = World(lambda _: 0.0)
    found = search(TWENTY, (Moment(8_000, 9_200),), world.trials())
    assert (found.schedule, found.ended) == (None, None)
    assert world.plays == 4  # the schedule up to the violation twice, and the whole schedule twice


def test_a_violation_that_needs_no_fault_shrinks_to_no_fault() -> None:
    found = search(TWENTY, (), World(lambda _: 1.0).trials())
    assert found.schedule is not None
    assert found.schedule.faults == ()
    assert 100 <= found.schedule.duration_ms <= 300


@pytest.mark.parametrize("seed", range(40))
def test_when_every_crash_may_suffice_few_remain_and_the_confirmation_shows_it(seed: int) -> None:
    world = World(lambda schedule: 1 - 0.3 ** len(of_kind(schedule, "crash")), seed)
    found = search(TWENTY, (Moment(8_000, 9_200),), world.trials())
    assert found.schedule is not None
    assert found.confirmed is not None
    assert found.confirmed.seen >= 2
    assert 1 <= len(found.schedule.faults) <= 4


def test_a_step_that_was_accepted_by_luck_is_undone() -> None:
    """Three crashes are needed; with fewer, a schedule shows only the first time that it is tried."""
    asked: set[bytes] = set()

    def chance(schedule: Schedule) -> float:
        if len(schedule.faults) >= 3:
            return 1.0
        key = schedule.to_bytes()
        lucky = sum(known.startswith(key) for known in asked) < 1
        asked.add(key)
        return float(lucky)

    world = World(chance)
    trials = Trials(world, 1, 1, ends_at=10_000, clock=lambda: world.now_s)
    found = search(schedule(*NOISE), (), trials)
    assert found.schedule is not None
    assert len(found.schedule.faults) >= 3
    assert found.confirmed == Tally(1, 1)


def test_ctrl_c_leaves_the_best_so_far_unconfirmed() -> None:
    world = World(a_long_pause_behind_a_cut_of_one_link)
    trials = world.trials()

    def play(schedule: Schedule, told: str) -> TrialOutcome:
        if world.plays == 9:
            raise EnoughError("interrupted")
        return world(schedule, told)

    trials.play = play
    found = search(TWENTY, (), trials)
    assert found.ended == "interrupted"
    assert found.confirmed is None
    assert found.schedule == trials.best
    assert found.schedule is not None
    assert len(found.schedule.faults) < 20


@pytest.mark.parametrize("plays", [0, 9, 200])
def test_when_runs_no_longer_succeed_the_best_so_far_is_kept(plays: int) -> None:
    world = World(a_long_pause_behind_a_cut_of_one_link)
    trials = world.trials(limit_s=3_600)

    def play(schedule: Schedule, told: str) -> TrialOutcome:
        if world.plays == plays or "confirmation" in told:
            raise BrokenEnvironmentError("the disk is full")
        return world(schedule, told)

    trials.play = play
    if plays == 0:
        with pytest.raises(BrokenEnvironmentError, match="the disk is full"):
            search(TWENTY, (), trials)
        return
    found = search(TWENTY, (), trials)
    assert (found.ended, found.confirmed) == ("broken", None)
    assert found.schedule == trials.best


def test_a_guess_from_the_record_saves_most_plays() -> None:
    blind, seeing = World(a_long_pause_behind_a_cut_of_one_link), World(a_long_pause_behind_a_cut_of_one_link)
    search(TWENTY, (), blind.trials(limit_s=3_600))
    search(TWENTY, (Moment(8_000, 9_200),), seeing.trials(limit_s=3_600))
    assert seeing.now_s < min(600, blind.now_s / 2)


def test_the_first_guess_is_only_the_faults_active_at_the_violation() -> None:
    late = schedule(*NOISE, pause_inside("stop", 25_000, 2_000), duration_ms=30_000)
    trials = World(lambda played: float(any(p.duration_ms > 1_000 for p in of_kind(played, "pause")))).trials()
    search(late, (Moment(24_950, 26_100),), trials)
    whole, guess = trials.record[:2]
    assert (len(whole.faults), whole.load_ms) == (19, 27_100)
    assert (guess.step, guess.faults, guess.kept) == ("faults near the violation", ("stop",), True)
    assert guess.load_ms < 5_000


def test_the_faults_that_remain_keep_their_names_and_order() -> None:
    found = search(TWENTY, (Moment(8_000, 9_200),), World(a_long_pause_behind_a_cut_of_one_link).trials())
    assert found.schedule is not None
    assert [name for name, _, _ in times(found.schedule)] == ["cut", "stop"]

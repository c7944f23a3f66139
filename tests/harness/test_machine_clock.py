"""The machine's wall clock is set while a run is on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cluster.polling import becomes_true
from cluster.wall_clock import ClockSetting, WallClock, find_clock_library
from fencepost.errors import BrokenEnvironmentError
from fencepost.files import matching
from harness.run.machine_clock import LEAST_STEP_NS, MachineClock
from tests.harness import runs


class Clocks:
    """`wall_ns` and `now_ns` as a test sets them; reading one takes `slow_ns`."""

    def __init__(self) -> None:
        self.wall, self.now, self.slow = 10**18, 10**12, 0

    def wall_ns(self) -> int:
        return self.wall

    def now_ns(self) -> int:
        self.now += self.slow
        return self.now

    def passes(self, ns: int, wall_ns: int | None = None) -> None:
        self.now += ns
        self.wall += ns if wall_ns is None else wall_ns


@pytest.mark.parametrize(("step_ns", "said"), [(3_600 * 10**9, "forward by 60 min"), (-250 * 10**6, "back by 250 ms")])
def test_a_step_says_which_way_and_how_far(step_ns: int, said: str) -> None:
    clocks = Clocks()
    clock = MachineClock(clocks.wall_ns, clocks.now_ns)
    clock.check()
    clocks.passes(10**8, 10**8 + step_ns)
    with pytest.raises(BrokenEnvironmentError, match=re.escape(f"was set {said} while the run was on")):
        clock.check()
    clock.check()  # it was said


@pytest.mark.parametrize(("step_ns", "is_step"), [(LEAST_STEP_NS - 1, False), (LEAST_STEP_NS, True)])
def test_a_clock_that_is_slewed_was_not_set(step_ns: int, is_step: bool) -> None:
    clocks = Clocks()
    clock = MachineClock(clocks.wall_ns, clocks.now_ns)
    clock.check()
    clocks.passes(10**9, 10**9 + step_ns)
    if is_step:
        with pytest.raises(BrokenEnvironmentError):
            clock.check()
    else:
        clock.check()


def test_a_process_that_stood_still_between_the_two_readings_says_nothing() -> None:
    clocks = Clocks()
    clock = MachineClock(clocks.wall_ns, clocks.now_ns)
    clock.check()
    clocks.slow = 40_000_000
    clock.check()
    clocks.slow = 0
    clocks.wall += 80_000_000  # it went on meanwhile
    clock.check()


def test_the_clock_of_this_machine_is_not_set_now() -> None:
    clock = MachineClock()
    for _ in range(1_000):
        clock.check()


@pytest.mark.needs("clock")
def test_a_run_breaks_off_when_the_clock_of_its_machine_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command and all that it starts see a wall clock of ours."""
    clock = WallClock(tmp_path / "clock", find_clock_library())
    for name, path in clock.files.items():
        monkeypatch.setenv(name, str(path))
    process = runs.start(tmp_path, *runs.short_run("--nemesis", "none", "--duration", "60s"))
    try:
        assert becomes_true(lambda: bool(matching(tmp_path, "results/runs/2*/timeline.json")), within_s=60)
        clock.set(ClockSetting(ahead_ms=3_600_000))
        code, out, err = runs.finish(process)
    finally:
        process.kill()
    assert code == 255, out + err
    assert "the machine's clock was set forward by 60 min" in err

"""One play of a candidate: what counts, what is repeated, what is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from cluster.programs import ServerProgram, ToxiproxyProgram
from cluster.site import Site
from cluster.spec import ClusterSpec
from fencepost.errors import BrokenEnvironmentError
from fencepost.history import Op, Timeline
from harness.config import RunConfig
from harness.replay.violation import Kind, Moment
from harness.run.plan import Setup
from harness.run.scheduled import Prepared
from harness.shrink.play import TrialPlayer
from harness.shrink.trials import EnoughError, TrialOutcome
from harness.store.append_log import AppendLog
from harness.store.manifest import recording
from harness.store.run_folder import RunFolder
from nemesis.schedule import Schedule
from tests.peers.recorded import complete
from tests.shrink.schedules import crash, schedule

Record = Callable[[Prepared, RunFolder, object], None]
ONE, TWO = (
    schedule(crash("f1", 100), duration_ms=1_000),
    schedule(crash("f1", 100), crash("f2", 300), duration_ms=1_000),
)


def nothing(_: Prepared, folder: RunFolder, __: object) -> None:
    folder.write_timeline(Timeline(start_ns=1, healed_ns=2, stop_ns=3, end_ns=10**9))
    complete(folder, 10**9)


def overlap(prepared: Prepared, folder: RunFolder, progress: object) -> None:
    """c1 is inside from 1 to 400 ms, c2 from 101 to 500 ms, with leases of a second."""
    for client, at_ms in (("c1", 1), ("c2", 101)):
        with AppendLog(folder.client_log(client, 1)) as log:
            at_ns, end_ns = at_ms * 10**6, (at_ms + 399) * 10**6
            log.append(Op("acquire", "ok", "k1", 1, at_ns - 1000, at_ns, validity_ms=1_000, deadline_ns=at_ns + 10**9))
            log.append(Op("release", "ok", "k1", 1, end_ns, end_ns + 1000))
    nothing(prepared, folder, progress)


def stopped(prepared: Prepared, folder: RunFolder, progress: object) -> None:
    folder.write_timeline(Timeline(start_ns=1, interrupted=True))


def breaks(prepared: Prepared, folder: RunFolder, progress: object) -> None:
    raise BrokenEnvironmentError("a port was taken")


@pytest.fixture
def plays(monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """The outcomes of the runs, one after the other."""
    coming: list[Record] = []

    def record_run(prepared: Prepared, folder: RunFolder, progress: object) -> None:
        with recording(folder):
            coming.pop(0)(prepared, folder, progress)

    monkeypatch.setattr("harness.shrink.play.record_run", record_run)
    return coming


def player(folder: Path, best: Schedule | None = None) -> TrialPlayer:
    redis = ServerProgram(folder, "redis", "7")
    spec = ClusterSpec(redis, redis, ToxiproxyProgram(folder, "2"), ("n1",), ("c1",))
    setup = Setup(RunConfig(seed=1, lock="redlock"), spec, Site("process"))
    kind = Kind("exclusion", "overlap", "lock")
    return TrialPlayer(setup, kind, folder, lambda *_: "", lambda: best, lambda: False, Console(quiet=True))


def folders(scratch: Path) -> set[str]:
    return {path.name for path in scratch.glob("2*")}


def test_a_play_that_shows_it_returns_when_and_keeps_its_folder(plays: list[Record], tmp_path: Path) -> None:
    plays += [overlap]
    one = player(tmp_path)
    assert one(ONE, "") == TrialOutcome(True, (Moment(pytest.approx(1, abs=0.1), pytest.approx(101, abs=0.1)),))
    assert folders(tmp_path) == {one.showed[ONE.to_bytes()].name}
    assert one.showed[ONE.to_bytes()].read_config().duration_ms == 1_000


def test_a_play_that_does_not_show_it_leaves_nothing(plays: list[Record], tmp_path: Path) -> None:
    plays += [nothing]
    assert player(tmp_path)(ONE, "") == TrialOutcome(False)
    assert folders(tmp_path) == set()


def test_only_the_newest_runs_of_the_best_and_the_current_schedule_are_kept(
    plays: list[Record], tmp_path: Path
) -> None:
    plays += [overlap] * 5
    one = player(tmp_path, best=TWO)
    one(TWO, "")
    one(TWO, "")
    best = one.showed[TWO.to_bytes()]
    one(schedule(duration_ms=1_000), "")
    one(ONE, "")
    one(ONE, "")
    assert one.showed[TWO.to_bytes()] == best
    assert folders(tmp_path) == {best.name, one.showed[ONE.to_bytes()].name}


def test_a_run_that_broke_off_is_repeated(plays: list[Record], tmp_path: Path) -> None:
    plays += [breaks, breaks, overlap]
    assert player(tmp_path)(ONE, "").seen
    assert len(folders(tmp_path)) == 1


def test_three_runs_that_break_off_in_a_row_end_the_play(plays: list[Record], tmp_path: Path) -> None:
    plays += [breaks, breaks, breaks]
    with pytest.raises(BrokenEnvironmentError, match="a port was taken"):
        player(tmp_path)(ONE, "")
    assert folders(tmp_path) == set()


def test_a_run_that_the_user_stopped_does_not_count(plays: list[Record], tmp_path: Path) -> None:
    plays += [stopped]
    with pytest.raises(EnoughError):
        player(tmp_path)(ONE, "")

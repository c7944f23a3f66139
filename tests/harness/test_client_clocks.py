"""The clocks of clients go wrong in a real run: who measures by them is found, who does not is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost import Run
from harness.checkers.explained import explain
from harness.checkers.judge import judge_folder
from harness.store.run_folder import RunFolder
from tests.harness.failures import faults_of
from tests.harness.second_tries import played

WRONG = (
    "clock:targets=clients,kind=strobe,way=behind,step=200ms-400ms,interval=300ms,duration=1500ms"
    "+latency:kind=delay,delay=4ms-8ms,targets=all,interval=300ms,duration=1500ms"
)
"""The clock must go back *during* an acquire: a lone client acquires hundreds of times, and takes some 30 ms for it."""


def under_wrong_clocks(folder: Path, lock: str, expect: int) -> Run:
    load = ("--ttl", "500ms", "--node-timeout", "250ms", "--clients", "1", "--hold", "uniform:5ms-20ms")
    for_how_long = ("--duration", "8s", "--recovery", "1s", "--seed", "3")
    given = ["test", "--cluster", "process", "--lock", lock, *load, *for_how_long, "--nemesis", WRONG]
    # On a busy machine nobody may look at a clock while it is wrong. A lock that is blamed by mistake counts at once.
    code, said, run = played(
        folder, given, lambda each: (each.code == expect and not unseen(each.run)) or each.code == 1 > expect
    )
    assert code == expect, said
    assert unseen(run) == []
    return run


def unseen(run: Run) -> list[str]:
    """What was seen of the clocks that were not seen to go wrong, or to be right again."""
    clocks = [event for event in faults_of(run.path) if event.nemesis == "clock"]
    assert {event.event for event in clocks} == {"injected", "healed"}
    return [event.seen for event in clocks if not event.holds]


@pytest.mark.needs("clock")
@pytest.mark.parametrize("lock", ["control-wall-clock", "redlock-ng"])
def test_a_lock_that_measures_by_the_wall_clock_of_its_client(lock: str, tmp_path: Path) -> None:
    """In the client's process, or in that of a foreign library, which is a child of it."""
    folder = RunFolder.open(under_wrong_clocks(tmp_path, lock, expect=1).path)
    recorded, verdict = judge_folder(folder)
    assert "overstated-validity" in {found.kind for found in verdict.findings if found.blame == "lock"}
    sentences = [one.sentence for of in explain(recorded, verdict) for one in of.explanations]
    assert any("The clock of c" in sentence for sentence in sentences), sentences


@pytest.mark.needs("clock")
def test_a_lock_that_measures_by_the_monotonic_clock(tmp_path: Path) -> None:
    run = under_wrong_clocks(tmp_path, "redlock", expect=0)
    assert not [found.text for found in run.verdict.findings if found.blame == "lock"]

"""The clocks of clients go wrong in a real run: who measures by them is found, who does not is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checkers.judge import judge_folder
from harness.explain.explanation import explain
from harness.history.recorded import Recorded
from harness.store.run_folder import RunFolder
from harness.verdict import Verdict
from tests.harness import runs

WRONG = (
    "clock:targets=clients,kind=strobe,way=behind,step=200ms-400ms,interval=300ms,duration=1500ms"
    "+latency:kind=delay,delay=4ms-8ms,targets=all,interval=300ms,duration=1500ms"
)
"""The clock must go back *during* an acquire: a lone client acquires hundreds of times, and takes some 30 ms for it."""


def played(folder: Path, lock: str) -> tuple[RunFolder, Recorded, Verdict]:
    load = ("--ttl", "500ms", "--node-timeout", "250ms", "--clients", "1", "--hold", "uniform:5ms-20ms")
    for_how_long = ("--duration", "8s", "--recovery", "1s", "--seed", "3")
    code, out, err = runs.fencepost(
        folder, "test", "--cluster", "process", "--lock", lock, *load, *for_how_long, "--nemesis", WRONG
    )
    assert code in (0, 1), out + err
    run = RunFolder.open(runs.only_run(folder))
    recorded, verdict = judge_folder(run)
    clocks = [fault for fault in recorded.faults if fault.nemesis == "clock"]
    assert {fault.event for fault in clocks} == {"injected", "healed"}
    assert all(fault.holds for fault in clocks), [fault.seen for fault in clocks]
    return run, recorded, verdict


@pytest.mark.needs("clock")
@pytest.mark.parametrize("lock", ["control-wall-clock", "redlock-ng"])
def test_a_lock_that_measures_by_the_wall_clock_of_its_client(lock: str, tmp_path: Path) -> None:
    """In the client's process, or in that of a foreign library, which is a child of it."""
    run, recorded, verdict = played(tmp_path, lock)
    assert "overstated-validity" in {found.kind for found in verdict.findings if found.blame == "lock"}
    sentences = [one.sentence for of in explain(recorded, verdict, run) for one in of.explanations]
    assert any("The clock of c" in sentence for sentence in sentences), sentences


@pytest.mark.needs("clock")
def test_a_lock_that_measures_by_the_monotonic_clock(tmp_path: Path) -> None:
    _, _, verdict = played(tmp_path, "redlock")
    assert not [found.text for found in verdict.findings if found.blame == "lock"]

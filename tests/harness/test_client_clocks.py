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
    "clock:targets=clients,kind=strobe,way=behind,interval=800ms,duration=2s"
    "+latency:kind=delay,delay=60ms-120ms,targets=all,interval=1s,duration=2s"
)


def played(folder: Path, lock: str) -> tuple[RunFolder, Recorded, Verdict]:
    load = ("--ttl", "500ms", "--node-timeout", "250ms", "--clients", "2", "--hold", "uniform:5ms-20ms")
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
def test_a_lock_that_measures_by_the_wall_clock_of_its_client(tmp_path: Path) -> None:
    run, recorded, verdict = played(tmp_path, "control-wall-clock")
    assert "overstated-validity" in {found.kind for found in verdict.findings if found.blame == "lock"}
    sentences = [one.sentence for of in explain(recorded, verdict, run) for one in of.explanations]
    assert any("The clock of c" in sentence for sentence in sentences), sentences


@pytest.mark.needs("clock")
def test_a_lock_that_measures_by_the_monotonic_clock(tmp_path: Path) -> None:
    _, _, verdict = played(tmp_path, "redlock")
    assert not [found.text for found in verdict.findings if found.blame == "lock"]

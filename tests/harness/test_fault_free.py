"""Without faults nothing is found: the harness itself must not be what makes findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checkers.judge import recorded_verdict
from harness.store.run_folder import RunFolder
from harness.store.tables import load_recorded
from tests.harness import runs

SECTIONS = 10_000


@pytest.mark.timeout(400)  # so many sections take a busy machine a while
def test_ten_thousand_fault_free_sections_of_the_reference_give_no_finding(tmp_path: Path) -> None:
    sections = 0
    for seed in range(1, 100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        load = ["--nemesis", "none", "--clients", "4", "--keys", "16", "--hold", "0", "--duration", "8s"]
        code, out, err = runs.fencepost(folder, *runs.short_run(*load, "--recovery", "0s", "--seed", str(seed)))
        run = RunFolder.open(runs.only_run(folder))
        verdict = recorded_verdict(run)
        assert verdict is not None
        assert verdict.findings == ()
        assert code == 0, out + err
        sections += len(load_recorded(run).sections)
        if sections >= SECTIONS:
            return
    raise AssertionError(f"only {sections} sections were made")

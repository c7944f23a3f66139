"""Without faults nothing is found: the harness itself must not be what makes findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import runs
from tests.harness.second_tries import spared

SECTIONS = 3_000


@pytest.mark.timeout(200)  # so many sections take a busy machine a while
def test_thousands_of_fault_free_sections_of_the_reference_give_no_finding(tmp_path: Path) -> None:
    sections = 0
    for seed in range(1, 100):
        load = ["--nemesis", "none", "--clients", "4", "--keys", "16", "--hold", "0", "--duration", "8s"]
        arguments = runs.short_run(*load, "--recovery", "0s", "--seed", str(seed))
        # A client that stands still for a lease is inside together with the next one.
        code, said, run = spared(tmp_path / str(seed), arguments, lambda run: run.verdict.findings == ())
        assert (code, run.verdict.findings) == (0, ()), said
        sections += len(run.sections)
        if sections >= SECTIONS:
            return
    raise AssertionError(f"only {sections} sections were made")

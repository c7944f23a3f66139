"""Runs in which a client loses its connections between two requests: a lock that goes on over new ones is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.second_tries import caught, valid

FAULTS = "pause:targets=acquiring,connection=lost,duration=0.4ttl,interval=600ms"


@pytest.mark.parametrize(
    ("lock", "is_found"),
    [
        ("tests.careless_locks:WatchesOverAnotherConnection", True),
        ("tests.correct_locks:TransactionLock", False),
    ],
)
def test_a_transaction_that_ends_on_another_connection_is_found(tmp_path: Path, lock: str, is_found: bool) -> None:
    few = ["--clients", "5", "--nodes", "1", "--ttl", "500ms", "--hold", "uniform:20ms-120ms", "--duration", "8s"]
    given = ["test", "--cluster", "process", "--lock", lock, "--nemesis", FAULTS, "--seed", "1", *few]
    code, out, run = caught(tmp_path, given) if is_found else valid(tmp_path, given, lambda _: True)
    assert code == int(is_found), out
    faults = run.verdict.figures["faults"]
    assert faults.injected == faults.healed > 3
    blamed = {finding.kind for finding in run.verdict.findings if finding.blame == "lock"}
    assert ("overlap" in blamed) == is_found
    assert bool(blamed) == is_found

"""Clients are stopped while they acquire, about fifty times per lock, on real servers: no correct lock is ever
blamed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import fencepost
from nemesis.base import Topology
from nemesis.pause import Pause
from nemesis.schedule import Planned, PlannedFor, Schedule
from tests.harness.second_tries import spared

LOAD_MS = 9_000
EVERY_MS = 150
TTL_MS = 50
CLIENTS = tuple(f"c{number}" for number in range(1, 6))
NODES = tuple(f"n{number}" for number in range(1, 6))


def dense_schedule() -> Schedule:
    """Pauses of up to a little more than a TTL, much closer together than a nemesis would draw them."""
    rng = Random(5)
    where = Topology(CLIENTS, NODES, TTL_MS)
    faults = []
    for number, at_ms in enumerate(range(100, LOAD_MS - 300, EVERY_MS), 1):
        pause = Pause(acquiring=True, first=rng.randrange(len(CLIENTS)), clients=CLIENTS)
        data = {"acquiring": True, "first": pause.first, "clients": list(CLIENTS)}
        faults.append(Planned(f"f{number}", at_ms, rng.randint(15, 60), "pause", data))
    drawn_over = PlannedFor(where.clients, where.nodes, where.ttl_ms)
    return Schedule(1, 5, "pause:targets=acquiring", drawn_over, LOAD_MS, tuple(faults))


def is_proof(run: fencepost.Run) -> bool:
    """Whether the lock was put to the test: enough clients were caught, and others had the time to come in."""
    return run.verdict.figures["faults"].observed >= 30 and len(run.sections) >= 50


@pytest.mark.timeout(300)
@pytest.mark.parametrize("lock", ["redlock", "redlock-ng"])
def test_stopping_clients_while_they_acquire_never_blames_a_correct_lock(tmp_path: Path, lock: str) -> None:
    schedule = tmp_path / "schedule.json"
    schedule.write_bytes(dense_schedule().to_bytes())
    load = ["--ttl", f"{TTL_MS}ms", "--node-timeout", "20ms", "--retry-delay", "10ms", "--hold", "uniform:1ms-5ms"]
    arguments = ["test", "--cluster", "process", "--lock", lock, "--clients", "5", "--seed", "5", *load]
    arguments += ["--duration", f"{LOAD_MS}ms", "--recovery", "500ms", "--schedule", str(schedule)]
    code, said, run = spared(tmp_path, arguments, is_proof)
    assert code == 0, said
    assert run.verdict.figures["exclusion"].overlaps["lock"] == 0
    assert run.verdict.figures["lease_validity"].overstated == 0
    assert is_proof(run), "too few pauses took effect, or too few sections were granted, to prove anything"

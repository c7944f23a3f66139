"""Real runs of semaphores: the correct ones are never blamed, and the broken one is caught."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.schedule import Planned
from tests.harness import runs
from tests.harness.second_tries import caught, spared

FAULTS = (
    "latency:interval=300ms,duration=200ms",
    "partition:interval=400ms,duration=300ms+pause:interval=500ms,duration=200ms",
)
"""The second one has partitions without a pause, pauses without a partition, and times without a fault, too."""


def of(lock: str, *arguments: str, permits: int = 2) -> list[str]:
    load = ["--clients", "6", "--duration", "3s", "--recovery", "1s", "--ttl", "500ms", "--hold", "uniform:5ms-40ms"]
    what = ["--workload", "semaphore", "--lock", lock, "--permits", str(permits)]
    return ["test", "--cluster", "process", *what, "--seed", "5", *load, *arguments]


@pytest.mark.parametrize("lock", ["semaphore", "semaphore-counted"])
@pytest.mark.parametrize("nemesis", FAULTS)
def test_a_correct_semaphore_uses_its_permits_and_is_never_blamed(tmp_path: Path, lock: str, nemesis: str) -> None:
    code, said, run = spared(tmp_path, of(lock, "--nemesis", nemesis))
    blamed = [finding for finding in run.verdict.findings if finding.blame == "lock"]
    assert (code, blamed) == (0, []), said
    figures = run.verdict.figures["capacity"]
    assert figures.most_inside >= 2
    assert figures.sections > 10
    assert "exclusion" not in run.verdict.figures
    assert "counter" not in run.verdict.figures


def test_a_majority_of_counting_nodes_is_caught_and_explained(tmp_path: Path) -> None:
    # Each of three clients reaches a majority of its own, and no node is in all three.
    cut_off = {"c1": ("n4", "n5"), "c2": ("n2", "n3"), "c3": ("n1", "n5")}
    links = [[client, node] for client, nodes in cut_off.items() for node in nodes]
    fault = {"shape": "some-links", "kind": "refuse", "direction": "both", "links": links}
    schedule = runs.schedule_of(tmp_path, Planned("f1", 100, 2_500, "partition", fault))
    given = of("control-semaphore-by-majority", "--schedule", str(schedule), "--clients", "3")
    code, out, run = caught(tmp_path, given)
    assert code == 1, out
    (finding, *_) = [finding for finding in run.verdict.findings if finding.kind == "over-capacity"]
    assert finding.blame == "lock"
    assert run.verdict.figures["capacity"].most_inside > 2
    code, said, _ = runs.fencepost(tmp_path, "explain", str(run.path))
    assert "for 2 permits" in " ".join(said.split())
    assert "a majority of 3 of 5 nodes" in " ".join(said.split())
    assert "Entries beyond the permits" in out


def test_a_lock_that_never_counts_is_caught(tmp_path: Path) -> None:
    code, said, run = caught(tmp_path, of("no-op", "--nemesis", "none", permits=3))
    assert code == 1, said
    assert run.verdict.figures["capacity"].most_inside == 6


def test_nodes_that_forget_their_slots_are_found_to_have_let_in_one_too_many(tmp_path: Path) -> None:
    given = of("semaphore", "--nemesis", "hunt:interval=300ms", "--hold", "uniform:80ms-160ms")
    code, said, run = caught(tmp_path, given)
    assert code == 1, said
    hunted = run.verdict.figures["opportunities"]
    assert 0 < hunted.violated_opportunities <= hunted.opportunities <= hunted.crashes
    code, said, _ = runs.fencepost(tmp_path, "explain", str(run.path))
    assert "had the same slot (k1#" in " ".join(said.split())


def test_an_exclusive_lock_is_a_semaphore_with_one_permit(tmp_path: Path) -> None:
    # A client that stands still for a lease is inside together with the next one.
    given = of("redlock", "--nemesis", "none", permits=1)
    code, said, run = spared(tmp_path, given, lambda run: run.verdict.figures["capacity"].most_inside == 1)
    assert (code, run.verdict.figures["capacity"].most_inside) == (0, 1), said
    assert "no promise broken by the lock" in " ".join(said.split())


def test_data_cannot_be_required_of_a_workload_that_writes_none(tmp_path: Path) -> None:
    arguments = ["test", "--workload", "semaphore", "--lock", "semaphore", "--require", "data", "--cluster", "process"]
    code, _, err = runs.fencepost(tmp_path, *arguments)
    assert code == 254
    assert "--require data" in err

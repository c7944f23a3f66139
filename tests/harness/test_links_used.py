"""Real runs of a lock that dials the nodes by itself: no fault of a link reaches it, and the run says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.extensions import VARIABLE
from harness.api import Run, load
from harness.checkers.link_use import Figures
from tests.harness import runs
from tests.test_extensions import TOYS

CLUSTERS = ["process", pytest.param("docker", marks=pytest.mark.needs("engine"))]


def made(folder: Path, *arguments: str, lock: str = "around-links", cluster: str = "process") -> tuple[int, str, Run]:
    given = ["--nemesis", "partition:interval=600ms,duration=600ms", "--lock", lock, *arguments]
    code, out, err = runs.fencepost(folder, *runs.short_run(*given, cluster=cluster))
    return code, out + err, load(runs.only_run(folder))


def around(run: Run) -> dict[str, tuple[str, ...]]:
    figures = run.verdict.of(Figures)
    assert figures is not None
    return {each.client: each.nodes for each in figures.around}


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(TOYS))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_lock_that_dials_the_nodes_by_itself_is_not_tested_by_partitions(cluster: str, tmp_path: Path) -> None:
    code, said, run = made(tmp_path, cluster=cluster)
    assert code == 2, said
    assert set(around(run)) == {"c1", "c2", "c3"}
    assert all(len(nodes) == 5 for nodes in around(run).values())
    assert any("faults of links did not reach the lock" in reason for reason in run.verdict.unknown)
    assert "links" in said


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_lock_that_uses_its_links_is_tested(cluster: str, tmp_path: Path) -> None:
    _, said, run = made(tmp_path, lock="redlock", cluster=cluster)
    assert around(run) == {}, said
    figures = run.verdict.of(Figures)
    assert figures is not None
    assert figures.requests is not None
    assert figures.requests >= len(run.sections)


@pytest.mark.parametrize(
    ("names", "expected"),
    [("c1", {"c1": ("n1", "n2", "n3", "n4", "n5")}), ("n1", dict.fromkeys(("c1", "c2", "c3"), ("n1",)))],
)
def test_some_clients_and_some_nodes_are_told_apart(
    names: str, expected: dict[str, tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AROUND", names)
    _, said, run = made(tmp_path, "--nemesis", "partition:shape=one-node,interval=600ms,duration=300ms")
    assert around(run) == expected, said


def test_without_a_fault_of_a_link_it_is_mentioned(tmp_path: Path) -> None:
    _, said, run = made(tmp_path, "--nemesis", "pause:interval=600ms,duration=300ms")
    assert set(around(run)) == {"c1", "c2", "c3"}
    assert not any("faults of links" in reason for reason in run.verdict.unknown)
    assert "without their links" in " ".join(said.split())

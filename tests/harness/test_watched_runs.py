"""Runs whose nodes are watched, end to end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import fencepost
from harness.checkers.orphans import Figures
from harness.verdict import Finding
from tests.harness import runs

BACKENDS = ["process", pytest.param("docker", marks=pytest.mark.needs("engine"))]
OURS = ("acquire_timeouts", "key_losses", "orphans", "quorum_backing")


def findings(folder: Path) -> dict[str, Finding]:
    """Those of the checkers of this area, by kind and blame."""
    found = fencepost.load(folder).verdict.findings
    return {f"{finding.kind} {finding.blame}": finding for finding in found if finding.checker in OURS}


@pytest.mark.parametrize("backend", BACKENDS)
def test_nodes_that_crash_and_come_back_are_watched_and_the_reference_is_not_blamed(
    tmp_path: Path, backend: str
) -> None:
    faults = ("--nemesis", "crash:interval=700ms,restart-delay=200ms", "--persistence", "aof-always")
    code, out, err = runs.fencepost(tmp_path, *runs.short_run(*faults, cluster=backend))
    assert code == 0, out + err
    folder = runs.only_run(tmp_path)
    assert (folder / "logs" / "witness.log").read_text() == ""
    run = fencepost.load(folder)
    orphans, backing = run.verdict.figures["orphans"], run.verdict.figures["quorum_backing"]
    assert orphans.watched
    assert backing.sections == len(run.sections) > 10
    assert backing.unfounded == 0
    hit = {node for fault in run.faults.itertuples() for node in fault.nodes}
    unseen = {node for node, own in orphans.by_node.items() if own.unseen_ms > 0}
    assert unseen <= hit, "only what was down was out of sight"
    assert findings(folder) == {}
    assert "not backed by a majority" in " ".join(out.split())


def test_a_run_goes_on_without_a_witness_that_cannot_start_and_says_so(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    ends = "import os, sys; 'harness.run.witness' in sys.orig_argv and (os.write(2, b'no witness'), os._exit(1))"
    (site / "sitecustomize.py").write_text(ends)
    before = ("env", f"PYTHONPATH={site}{os.pathsep}{runs.ROOT}")
    code, out, err = runs.finish(runs.start(tmp_path, *runs.short_run("--nemesis", "none"), before=before))
    assert code == 0, out + err
    assert "the nodes were not watched: logs/witness.log says why" in " ".join(out.split())
    folder = runs.only_run(tmp_path)
    assert (folder / "logs" / "witness.log").read_text() == "no witness"
    assert not fencepost.load(folder).verdict.figures["orphans"].watched


def test_a_lock_that_deletes_whatever_is_there_is_named(tmp_path: Path) -> None:
    # They stay for long enough that even on a busy machine most keys are read before they are deleted.
    lock = ["--lock", "control-release-without-comparing", "--hold", "uniform:30ms-60ms"]
    code, out, err = runs.fencepost(tmp_path, *runs.short_run(*lock, "--nemesis", "none"))
    assert code == 1, out + err
    folder = runs.only_run(tmp_path)
    found = findings(folder)
    unfounded = found["lease-without-majority lock"]
    assert unfounded.breaks == "lease"
    backing = fencepost.load(folder).verdict.figures["quorum_backing"]
    assert backing.by_cause["deleted"] > 5
    assert f"deleted {backing.by_cause['deleted']}" in unfounded.text
    assert found["deleted-while-held undecided"].count > 5


def test_values_that_everybody_shares_are_named(tmp_path: Path) -> None:
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--lock", "control-no-unique-value", "--nemesis", "none"))
    assert code == 1, out + err
    assert findings(runs.only_run(tmp_path))["shared-value lock"].examples[0]["value"] == "locked"


def test_a_run_that_is_not_watched_says_nothing_of_its_nodes(tmp_path: Path) -> None:
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--nemesis", "none", "--witness", "off"))
    assert code == 0, out + err
    folder = runs.only_run(tmp_path)
    assert not (folder / "nodes.jsonl").exists()
    assert fencepost.load(folder).verdict.figures["orphans"] == Figures(watched=False, asked=False)
    assert "  keys " not in out

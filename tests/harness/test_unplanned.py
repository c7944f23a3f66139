"""What fails in a run without the nemesis is noticed within a second, recorded, shown, and blamed on nobody."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from time import monotonic_ns, sleep

import psutil
import pytest

import fencepost
from cluster.waiting import becomes_true
from fencepost.history import FaultEvent, Gap
from harness.history.fault_windows import longest_windows
from harness.history.gaps import SLACK_NS
from harness.store.append_log import read_lines
from harness.store.run_folder import RunFolder
from harness.store.tables import load_recorded
from nemesis.schedule import Planned
from tests.harness import runs
from tests.harness.failures import Outsider, await_fault, client_of, faults_of
from tests.harness.test_whole_runs import await_load

BACKENDS = ["process", pytest.param("docker", marks=pytest.mark.needs("engine"))]
WITHIN_S = 1.0
"""The promise; what the test itself needs to see it comes on top."""


@dataclass
class Live:
    process: Popen[str]
    folder: Path
    outsider: Outsider

    def is_noticed(self, kind: str, node: str, since_ns: int) -> FaultEvent:
        def wanted(event: FaultEvent) -> bool:
            return event.unplanned and event.event == kind and node in event.nodes and event.done_ns > since_ns

        event = await_fault(self.folder, wanted, within_s=10)
        assert (event.done_ns - since_ns) / 1e9 < WITHIN_S
        return event


@pytest.fixture(params=BACKENDS)
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    """A run under load, without faults unless the test asks for some by `parametrize`."""
    backend = str(request.param)
    process = runs.start(tmp_path, *runs.short_run("--nemesis", "none", "--duration", "60s", cluster=backend))
    try:
        folder = await_load(process, tmp_path)
        yield Live(process, folder, Outsider(folder, backend))
    finally:
        process.kill()
        process.communicate()
        assert runs.is_gone(tmp_path, folder)


def ended(live: Live) -> tuple[int, str, str]:
    """The run's end after Ctrl-C."""
    live.process.terminate()
    return runs.finish(live.process)


def test_nodes_that_stall_and_die_are_noticed_told_and_not_brought_back(live: Live) -> None:
    at_ns = live.outsider.pause("n2")
    stall = live.is_noticed("injected", "n2", at_ns)
    assert stall.began_ns <= monotonic_ns()
    at_ns = live.outsider.resume("n2")
    over = live.is_noticed("healed", "n2", at_ns)
    assert over.fault == stall.fault

    at_ns = live.outsider.kill("n3")
    death = live.is_noticed("injected", "n3", at_ns)
    assert death.how_down == "unasked"

    progress = live.process.stdout
    assert progress is not None
    assert any("unplanned: n3 went down" in line for line in progress), "the live progress shows it"
    code, out, err = ended(live)
    assert code == 2, out + err
    text = " ".join(out.split())
    verdict = fencepost.load(live.folder).verdict
    failures = verdict.figures["unplanned"].failures
    # A busy machine may let others fall silent.
    assert [one.what for one in failures if one.what[:2] in ("n2", "n3")] == ["n2 was stopped", "n3 went down"]
    assert f"{len(failures)} failures that no fault caused: " in text
    assert "n2 was stopped (" in text
    assert "n3 went down (from" in text
    events = [event for event in faults_of(live.folder) if {"n2", "n3"} & {*event.nodes}]
    assert [event.fault for event in events if event.event == "injected"] == [stall.fault, death.fault]
    assert not any(event.event == "healed" and event.fault == death.fault for event in events)
    assert "Ready to accept connections" in (live.folder / "logs" / "n3.log").read_text()
    assert (live.folder / "logs" / "n3.log").read_text().count("Ready to accept connections") == 1
    assert not [finding for finding in verdict.findings if finding.blame == "lock"]


@pytest.mark.parametrize("live", ["process"], indirect=True)
def test_a_client_that_somebody_stops_is_noticed_and_nobody_is_blamed(live: Live) -> None:
    client = client_of(live.folder, "c1")
    assert client.nice() > psutil.Process().nice(), "clients give way to what they are judged on"
    at_ns = monotonic_ns()
    os.killpg(client.pid, signal.SIGSTOP)
    stop = await_fault(
        live.folder, lambda e: e.event == "injected" and e.paused_clients == ("c1",) and e.done_ns > at_ns, within_s=10
    )
    assert stop.unplanned
    assert (stop.done_ns - at_ns) / 1e9 < WITHIN_S
    os.killpg(client.pid, signal.SIGCONT)
    over = await_fault(live.folder, lambda e: e.event == "healed" and e.fault == stop.fault, within_s=10)
    # The first stop explains gaps until a while later, and a gap begins with the beat before it.
    assert becomes_true(lambda: works_since(live.folder, "c1", over.done_ns + SLACK_NS + 50_000_000))

    live_ns = monotonic_ns()
    os.killpg(client.pid, signal.SIGSTOP)
    assert becomes_true(client_is_stopped(client))
    sleep(0.25)  # too short to be noticed from outside
    os.killpg(client.pid, signal.SIGCONT)
    log = live.folder / "gaps" / "c1.1.jsonl"
    assert becomes_true(log.exists)
    assert becomes_true(lambda: any(gap.to_ns > live_ns for piece in read_lines(log, Gap) for gap in piece))

    code, out, err = ended(live)
    assert code == 2, out + err
    assert "c1 was stopped" in out
    run = fencepost.load(live.folder)
    failures = run.verdict.figures["unplanned"].failures
    assert [failure.what for failure in failures if "c1" in failure.what] == ["c1 was stopped"] * 2
    assert not [finding for finding in run.verdict.findings if finding.blame == "lock"]


def works_since(run: Path, client: str, at_ns: int) -> bool:
    """Whether the client began an operation after this moment."""
    whole, _, _ = (run / "clients" / f"{client}.1.jsonl").read_text().rpartition("\n")
    return any(op.get("invoke_ns", 0) > at_ns for op in map(json.loads, whole.splitlines()))


def client_is_stopped(client: psutil.Process) -> Callable[[], bool]:
    return lambda: client.status() == psutil.STATUS_STOPPED


@pytest.mark.parametrize("part", ["toxiproxy", "resource"])
def test_a_run_whose_proxy_or_resource_dies_breaks_off_and_says_what_died(live: Live, part: str) -> None:
    live.outsider.kill(part)
    code, _, err = runs.finish(live.process)
    assert code == 255, err
    assert "resource" in err if part == "resource" else "Toxiproxy" in err
    assert any(event.unplanned and event.cut_links for event in faults_of(live.folder))
    assert "UNKNOWN" in runs.fencepost(live.folder.parent.parent.parent, "analyze", str(live.folder))[1]


def test_a_proxy_that_stalls_for_a_while_is_a_fault_that_the_run_survives(live: Live) -> None:
    at_ns = live.outsider.pause("toxiproxy")
    stalled = await_fault(
        live.folder,
        lambda e: e.event == "injected" and e.what.startswith("Toxiproxy") and e.done_ns > at_ns,
        within_s=10,
    )
    assert stalled.unplanned
    assert stalled.cut_links
    live.outsider.resume("toxiproxy")
    await_fault(live.folder, lambda e: e.event == "healed" and e.fault == stalled.fault, within_s=10)
    code, out, err = ended(live)
    assert code == 2, out + err
    assert "Toxiproxy was stopped" in " ".join(out.split())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_pause_that_somebody_undoes_is_seen_not_to_have_held(tmp_path: Path, backend: str) -> None:
    schedule = runs.schedule_of(tmp_path, Planned("f1", 300, 20_000, "pause", {"nodes": ["n1", "n2"]}))
    process = runs.start(tmp_path, *runs.short_run("--schedule", str(schedule), "--duration", "30s", cluster=backend))
    try:
        folder = await_load(process, tmp_path)
        await_fault(folder, lambda event: event.event == "injected" and event.fault == "f1", within_s=10)
        at_ns = Outsider(folder, backend).resume("n1")
        undone = await_fault(folder, lambda event: event.event == "undone" and event.done_ns > at_ns, within_s=10)
        assert (undone.fault, undone.nodes) == ("f1", ("n1",))
        assert (undone.done_ns - at_ns) / 1e9 < WITHIN_S
        process.terminate()
        code, out, err = runs.finish(process)
        assert code == 2, out + err
        assert "somebody else ended a fault early: pause n1,n2 no longer held for n1" in " ".join(out.split())
    finally:
        process.kill()
        process.communicate()


def test_a_crash_that_finds_its_node_dead_leaves_it_so(tmp_path: Path) -> None:
    schedule = runs.schedule_of(tmp_path, Planned("f1", 4_000, 500, "crash", {"nodes": ["n1", "n2"]}))
    process = runs.start(tmp_path, *runs.short_run("--schedule", str(schedule), "--duration", "6s"))
    folder = await_load(process, tmp_path)
    Outsider(folder, "process").kill("n1")
    code, out, err = runs.finish(process)
    assert code == 2, out + err
    crash = next(event for event in faults_of(folder) if event.fault == "f1")
    assert crash.nodes == ("n2",)
    assert (folder / "logs" / "n1.log").read_text().count("Ready to accept connections") == 1
    assert (folder / "logs" / "n2.log").read_text().count("Ready to accept connections") == 2
    assert becomes_true(lambda: runs.processes_of(folder) == [])


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_nemesis_does_is_not_taken_for_a_failure(tmp_path: Path, backend: str) -> None:
    faults = "pause:interval=300ms,duration=600ms+crash:interval=700ms,restart-delay=200ms"
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--nemesis", faults, "--duration", "4s", cluster=backend))
    assert code in {0, 1}, out + err  # servers that forget may break the lock: that is not what is asked here
    faults = load_recorded(RunFolder.open(runs.only_run(tmp_path))).faults
    assert len(faults) > 10
    assert taken_for_failures(faults) == []


def taken_for_failures(faults: Sequence[FaultEvent]) -> list[str]:
    """What is said to have failed of a node or client while a planned fault hit it. Others may have failed: a disk may
    have made the resource wait."""
    slack_ns = int(WITHIN_S * 1e9)
    planned = [window for window in longest_windows(faults) if not window[0].unplanned]
    return [
        f"{event.event} {event.what}: {event.seen}"
        for event in faults
        if event.unplanned
        and any(
            began - slack_ns <= event.done_ns and event.began_ns <= done + slack_ns
            for fault, began, done in planned
            if {*fault.nodes, *fault.paused_clients} & {*event.nodes, *event.paused_clients}
        )
    ]

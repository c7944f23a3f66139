"""Asking to stop reaches everybody who watches, and nobody else."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from cluster.polling import becomes_true
from fencepost.files import matching
from harness.run.interruption import Interruption
from nemesis.schedule import Planned
from tests.harness import runs


def test_a_run_among_many_and_what_makes_them_are_both_told() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption().watch() as outer:
        with Interruption().watch() as inner:
            signal.raise_signal(signal.SIGINT)
            assert inner
        assert outer
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_handler_that_was_there_before_is_not_called_while_somebody_watches(number: signal.Signals) -> None:
    with Interruption().watch() as interruption:
        signal.raise_signal(number)
        assert interruption


def test_nobody_asked_nobody_is_told() -> None:
    with Interruption().watch() as interruption:
        pass
    assert not interruption


def test_what_was_ignored_before_stays_ignored() -> None:
    """As SIGHUP is under nohup, and Ctrl-C in a job that a script started in the background."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption().watch() as interruption:
            signal.raise_signal(signal.SIGHUP)
            assert not interruption
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_node_that_is_down_when_the_run_is_stopped_does_not_come_back_before_its_leases_are_over(
    tmp_path: Path,
) -> None:
    """It has forgotten them, and clients work until they have ended: it would grant the lock twice."""
    plan = runs.schedule_of(tmp_path, Planned("f1", 300, 60_000, "crash", {"nodes": ["n1"], "clients": []}))
    long = ["--ttl", "30s", "--duration", "120s", "--schedule", str(plan)]
    process = runs.start(tmp_path, *runs.short_run(), *long)

    def logged() -> list[dict[str, object]]:
        logs = matching(tmp_path, "results/runs/latest/nemesis.jsonl")
        return [json.loads(line) for log in logs for line in log.read_text().splitlines()]

    assert becomes_true(lambda: bool(logged()), within_s=60)
    process.send_signal(signal.SIGINT)
    code, out, err = runs.finish(process)
    assert code == 2, out + err
    assert "the run was interrupted" in " ".join(out.split())
    assert [(event["event"], event["nodes"], event.get("unplanned", False)) for event in logged()] == [
        ("injected", ["n1"], False)
    ]
    assert runs.is_gone(tmp_path, runs.only_run(tmp_path))

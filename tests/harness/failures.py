"""Doing to the parts of a live run, from outside, what no fault of it does: with signals, or with the engine."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns

import msgspec
import psutil
from docker.models.containers import Container

from cluster.engine import connect
from cluster.engine_address import find_engine
from cluster.polling import becomes_true
from cluster.run_processes import RUN_VARIABLE
from fencepost.history import FaultEvent
from harness.store.append_log import read_lines
from tests.processes import every_process


class Outsider:
    """Somebody with the rights to do it. `part`: `n1` …, `toxiproxy` or `resource`. What is done returns when it was
    begun, after the part had been found."""

    def __init__(self, run: Path, backend: str) -> None:
        self._run = run
        self._backend = backend

    def pause(self, part: str) -> int:
        return self._do(part, signal.SIGSTOP, lambda container: container.pause())

    def resume(self, part: str) -> int:
        return self._do(part, signal.SIGCONT, lambda container: container.unpause())

    def kill(self, part: str) -> int:
        return self._do(part, signal.SIGKILL, lambda container: container.kill())

    def _do(self, part: str, number: signal.Signals, act: Callable[[Container], None]) -> int:
        if self._backend == "docker":
            engine = connect(find_engine())
            container = engine.containers.get(f"fencepost-{self._run.name}-{part}")
            at_ns = monotonic_ns()
            act(container)
            engine.close()
            return at_ns
        for process in self.processes():
            words = process.cmdline()
            if part in ("toxiproxy", "resource", *(f"n{n}" for n in range(1, 10))) and _is(part, process, words):
                at_ns = monotonic_ns()
                process.send_signal(number)
                return at_ns
        raise AssertionError(f"the run has no process {part}")

    def processes(self) -> list[psutil.Process]:
        found = []
        for process in every_process():
            try:
                if process.environ().get(RUN_VARIABLE) == self._run.name:
                    found.append(process)
            except psutil.Error:
                continue
        return found


def _is(part: str, process: psutil.Process, words: list[str]) -> bool:
    if part == "toxiproxy":
        return bool(words) and "toxiproxy" in Path(words[0]).name
    return bool(words) and "server" in words[0] and Path(process.cwd()).name == part


def client_of(run: Path, name: str) -> psutil.Process:
    """The process of a client in its first life."""
    for process in Outsider(run, "process").processes():
        words = process.cmdline()
        if "workloads.client" in words and words[-1].endswith(f"/{name}.1.spec.json"):
            return process
    raise AssertionError(f"the run has no client {name}")


def faults_of(run: Path) -> list[FaultEvent]:
    log = run / "nemesis.jsonl"
    return [event for piece in read_lines(log, FaultEvent) for event in piece] if log.exists() else []


def await_fault(run: Path, wanted: Callable[[FaultEvent], bool], within_s: float) -> FaultEvent:
    """The first such event, once it is recorded; fails if it is not there in time."""
    found: list[FaultEvent] = []

    def is_there() -> bool:
        found.extend(event for event in faults_of(run) if wanted(event))
        return bool(found)

    assert becomes_true(is_there, within_s=within_s, every_s=0.01), [msgspec.to_builtins(e) for e in faults_of(run)]
    return found[0]

"""Signals at random moments of a run: is anything of it left five seconds later, without any further command?

    python -m tests.signals --count 200 --cluster both

Each trial starts a short run, sends its command one of four signals at a random moment between the first import and the
last line, and looks five seconds later for processes, containers, networks, volumes, mounts, loop devices, network
namespaces and temporary folders. What had been recorded by then must be whole. Ends with 1 if anything was left.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil

from cluster.engine import connect
from cluster.engine_address import find_engine
from cluster.engine_sweep import RUN_LABEL
from cluster.polling import becomes_true
from fencepost.files import matching
from tests.cluster.reapers import WITHIN_S, left_of
from tests.foreground import obey_signals
from tests.harness import runs
from tests.harness.test_whole_runs import assert_nothing_missing_but_the_last
from tests.processes import every_process

ENDS_WITHIN_S = 60
"""How long the command may go on after the signal: it still judges what was recorded, and draws the page."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
CLUSTERS = ("process", "docker")


@dataclass(frozen=True, slots=True)
class Trial:
    """`gone_s`: how long after the signal nothing was left; None: something stayed, which `left` names. `torn`: what is
    wrong with what had been recorded. `code`: how the command ended. `said`: its last line."""

    number: signal.Signals
    after_s: float
    gone_s: float | None
    left: Sequence[str]
    torn: Sequence[str]
    code: int
    said: str

    @property
    def is_clean(self) -> bool:
        return self.gone_s is not None and not self.torn

    def __str__(self) -> str:
        outcome = (
            f"left: {', '.join(self.left)}; it said: {self.said}"
            if self.gone_s is None
            else f"nothing left {self.gone_s:.1f} s later"
        )
        return f"{self.number.name} after {self.after_s:.2f} s: {outcome}" + "".join(f"; {line}" for line in self.torn)


def arguments(cluster: str, *, disks: bool = False) -> Sequence[str]:
    extra = ("--disks", "--persistence", "aof-everysec") if disks else ()
    faults = ("--nemesis", "pause+crash:restart-delay=300ms", "--duration", "1s", "--recovery", "0")
    return runs.short_run(*faults, *extra, cluster=cluster)


def length_s(folder: Path, cluster: str) -> float:
    """How long such a run takes if nobody disturbs it."""
    folder.mkdir()
    began_s = time.monotonic()
    code, out, err = runs.fencepost(folder, *arguments(cluster))
    if code not in (0, 1, 2):
        raise AssertionError(out + err)
    return time.monotonic() - began_s


def strike(
    folder: Path,
    cluster: str,
    number: signal.Signals,
    after_s: float,
    *,
    disks: bool = False,
    words: Sequence[str] = (),
) -> Trial:
    """One trial in a folder that does not exist yet. `words`: the run's command, if not a short one."""
    folder.mkdir()
    process = runs.start(folder, *(words or arguments(cluster, disks=disks)))
    with suppress(subprocess.TimeoutExpired):
        process.wait(after_s)
    family = [process, *_descendants(process.pid)]
    spaces = {space for each in family if (space := _network_namespace(each.pid)) is not None}
    volumes = _volumes(folder) if cluster == "docker" else []
    others = family if number == signal.SIGKILL else family[1:]
    process.send_signal(number)
    struck_s, struck_at = time.monotonic(), time.time()

    def left() -> list[str]:
        found = [f"process {each.pid}" for each in others if _lives(each)]
        found += [line for state in matching(folder, "tmp/fencepost-*/[!.]*") for line in left_of(state)]
        for run in folder.glob("results/runs/2*"):
            found += runs.processes_of(run)
        found += [f"network namespace {space}" for space in spaces & _inhabited_namespaces(struck_at)]
        return found + (in_the_engine(folder, volumes) if cluster == "docker" else [])

    # By then only the command itself may be there, and nothing may come after it.
    gone = becomes_true(lambda: not _lives(process) and not left(), within_s=WITHIN_S, every_s=0.1) or not left()
    took_s, remaining = time.monotonic() - struck_s, [] if gone else left()
    try:
        out, err = process.communicate(timeout=ENDS_WITHIN_S)
        remaining = remaining or left()
    except subprocess.TimeoutExpired:
        remaining = [*remaining, f"process {process.pid}"]
        process.kill()
        out, err = process.communicate()
    said = (out + err).strip().splitlines()[-1:] or ["nothing"]
    gone_s = took_s if gone and not remaining else None
    return Trial(number, after_s, gone_s, remaining, _torn(folder), process.returncode, said[0])


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _lives(process: subprocess.Popen[str] | psutil.Process) -> bool:
    if isinstance(process, subprocess.Popen):
        return process.poll() is None
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _network_namespace(pid: int) -> str | None:
    """The network namespace of a process, unless it is ours."""
    with suppress(OSError):
        if (space := Path(f"/proc/{pid}/ns/net").readlink()) != Path("/proc/self/ns/net").readlink():
            return str(space)
    return None


def _inhabited_namespaces(struck_at: float) -> set[str]:
    """The network namespaces of the processes that are older than the signal: another run's new namespace may have got
    the number of one that is gone."""
    found = set()
    for process in every_process():
        with suppress(psutil.Error):
            if process.create_time() <= struck_at and (space := _network_namespace(process.pid)) is not None:
                found.add(space)
    return found


def _run_ids(folder: Path) -> set[str]:
    return {path.name for pattern in ("tmp/fencepost-*/[!.]*", "results/runs/2*") for path in matching(folder, pattern)}


def _volumes(folder: Path) -> list[str]:
    """The volumes of the containers that there are; a volume has no label of its own."""
    engine = connect(find_engine())
    try:
        named = {"label": [RUN_LABEL]}
        there = [
            each
            for each in engine.api.containers(all=True, filters=named)
            if each["Labels"][RUN_LABEL] in _run_ids(folder)
        ]
        return [mount["Name"] for each in there for mount in each["Mounts"] if mount["Type"] == "volume"]
    finally:
        engine.close()


def in_the_engine(folder: Path, volumes: Sequence[str]) -> list[str]:
    engine = connect(find_engine())
    try:
        found = []
        for run in _run_ids(folder):
            named = {"label": f"{RUN_LABEL}={run}"}
            found += [f"container {each['Id'][:12]}" for each in engine.api.containers(all=True, filters=named)]
            found += [f"network {each['Name']}" for each in engine.api.networks(filters=named)]
        there = {each["Name"] for each in engine.api.volumes()["Volumes"] or []}
        return found + [f"volume {name}" for name in volumes if name in there]
    finally:
        engine.close()


def _torn(folder: Path) -> list[str]:
    """What is missing of the clients' records, but the operation that was under way."""
    problems = []
    for log in folder.glob("results/runs/2*/clients/*.jsonl"):
        text = log.read_text()
        if text and not text.endswith("\n"):
            problems.append(f"{log.name} ends within a line")
            continue
        ops = [op for op in map(json.loads, text.splitlines()) if "f" in op]
        try:
            if ops:
                columns = ([op[name] for op in ops] for name in ("f", "outcome", "section"))
                forgets = bool(json.loads((log.parents[1] / "config.json").read_text())["forget"])
                assert_nothing_missing_but_the_last(*columns, forgets=forgets)
        except AssertionError as error:
            problems.append(f"{log.name}: {error}")
    return problems


@dataclass(frozen=True, slots=True)
class Plan:
    """One trial that is to be made. `moment`: when, as a share of the undisturbed run."""

    name: str
    cluster: str
    number: signal.Signals
    moment: float
    disks: bool

    @property
    def where(self) -> str:
        return f"{self.cluster}{' with disks' if self.disks else ''}"

    def strike(self, place: Path, lengths: Mapping[str, float]) -> Trial:
        return strike(
            place / self.name, self.cluster, self.number, self.moment * lengths[self.cluster], disks=self.disks
        )


def _planned(number: int, clusters: Sequence[str], seed: int) -> Plan:
    random = Random(f"{seed} {number}")
    cluster, sent = clusters[number % len(clusters)], SIGNALS[number // len(clusters) % len(SIGNALS)]
    disks = cluster == "process" and psutil.Process().uids().effective == 0 and random.random() < 0.25
    return Plan(f"{number}", cluster, sent, random.random(), disks)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=20, help="signals in all")
    parser.add_argument("--cluster", choices=(*CLUSTERS, "both"), default="both")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=1, help="runs at the same time: each finds a busier machine")
    given = parser.parse_args(argv)
    obey_signals()
    clusters = CLUSTERS if given.cluster == "both" else (given.cluster,)
    bad = 0
    with tempfile.TemporaryDirectory(prefix="fencepost-signals-") as name, ThreadPoolExecutor(given.at_once) as pool:
        place = Path(name)
        lengths = {
            cluster: max(pool.map(lambda n, on=cluster: length_s(place / f"{on}-{n}", on), range(given.at_once)))  # type: ignore[misc]
            for cluster in clusters
        }
        planned = [_planned(number, clusters, given.seed) for number in range(given.count)]
        trials = pool.map(lambda each: each.strike(place, lengths), planned)
        for number, (plan, trial) in enumerate(zip(planned, trials, strict=True)):
            bad += not trial.is_clean
            print(f"{number + 1} of {given.count}, {plan.where}: {trial}", flush=True)  # noqa: T201
    print(f"{given.count} signals, {bad} of them left something behind or tore a record")  # noqa: T201
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

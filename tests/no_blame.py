"""Is a correct lock ever blamed? `python -m tests.no_blame [--seconds 20] [--locks redlock,redlock-ng] [--clients 64]`

Plays correct locks where timestamps go wrong most easily: many clients on a busy machine, too little of a processor,
clients and processes of locks that somebody stops, and a run that is frozen as a whole. Prints one line per run, and
exits with 1 if anything was blamed on a lock. Needs root for the control groups.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import psutil

import fencepost
from tests.harness import runs
from tests.harness.cgroups import group, why_not
from tests.harness.failures import Outsider, faults_of

Disturb = Callable[[Path, Random], None]
"""One disturbance of a run that is on. Returns when it is over."""


def stop_clients(run: Path, rng: Random) -> None:
    """Some clients are stopped by hand: their whole group, the client alone, or the process of its lock alone."""
    clients = [each for each in Outsider(run, "process").processes() if "workloads.client" in _words(each)]
    stopped: list[psutil.Process] = []
    for client in rng.sample(clients, min(len(clients), rng.randint(1, 5))):
        family = [client, *client.children(recursive=True)]
        stopped += rng.choice([family, family[:1], family[1:] or family])
    _stop(stopped, rng.uniform(0.1, 1.6))


def stop_anything(run: Path, rng: Random) -> None:
    """Any process of the run is stopped by hand, servers and the harness included."""
    left = Outsider(run, "process").processes()  # none once the run has ended
    _stop(rng.sample(left, min(len(left), 1)), rng.uniform(0.1, 1.6))


def freeze_everything(run: Path, rng: Random) -> None:
    """The cgroup of the run is frozen."""
    _freeze(Outsider(run, "process").processes(), rng)


def freeze_clients(run: Path, rng: Random) -> None:
    """Some clients are frozen with their cgroup."""
    clients = [each for each in Outsider(run, "process").processes() if "workloads.client" in _words(each)]
    chosen = rng.sample(clients, min(len(clients), 5))
    _freeze([process for client in chosen for process in (client, *client.children(recursive=True))], rng)


def leave_alone(run: Path, rng: Random) -> None:
    time.sleep(0.1)


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _stop(processes: Sequence[psutil.Process], for_s: float) -> None:
    for act in (psutil.Process.suspend, psutil.Process.resume):
        for process in processes:
            try:
                act(process)
            except psutil.Error:
                continue
        if act is psutil.Process.suspend:
            time.sleep(for_s)
    time.sleep(0.3)


def _freeze(processes: Sequence[psutil.Process], rng: Random) -> None:
    with group(f"fencepost-frozen-{rng.getrandbits(32):x}") as cgroup:
        cgroup.add(process.pid for process in processes)
        cgroup.freeze()
        time.sleep(rng.uniform(0.2, 1.6))
        cgroup.thaw()
        time.sleep(0.3)


@contextmanager
def busy_processors() -> Iterator[None]:
    """Every processor has something else to do."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(psutil.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


SCENARIOS: dict[str, tuple[Disturb, bool, float | None]] = {
    "busy": (leave_alone, True, None),
    "quota": (leave_alone, False, 0.7),
    "stops": (stop_clients, False, None),
    "stops on a busy machine": (stop_clients, True, None),
    "any process stops": (stop_anything, False, None),
    "frozen clients": (freeze_clients, False, None),
    "frozen run": (freeze_everything, False, None),
}
"""What disturbs, whether all processors are busy, and how much of them the run may have."""


def play(lock: str, scenario: str, clients: int, seconds: float, seed: int, folder: Path) -> list[str]:
    """What was blamed on the lock."""
    disturb, is_busy, quota = SCENARIOS[scenario]
    rng = Random(f"{scenario} {lock} {seed}")
    settings = ["--lock", lock, "--nemesis", "none", "--clients", str(clients), "--duration", f"{seconds:g}s"]
    # Clients that stay inside for longer than their leases last make every mistake about deadlines an overlap.
    settings += ["--ttl", "500ms", "--hold", "uniform:1ms-600ms", "--keys", "8"]
    settings += ["--recovery", "2s", "--seed", str(seed)]
    with ExitStack() as stack:
        if is_busy:
            stack.enter_context(busy_processors())
        process = runs.start(folder, "test", *settings)
        if quota is not None:
            limited = stack.enter_context(group(f"fencepost-quota-{process.pid}"))
            limited.allow(quota)
            limited.add([process.pid])
        while process.poll() is None:
            for run in folder.glob("results/runs/2*"):
                if (run / "timeline.json").exists():
                    with suppress(psutil.Error):  # somebody has just ended
                        disturb(run, rng)
            time.sleep(0.05)
        code, out, err = runs.finish(process)
    run = runs.only_run(folder)
    if code not in (0, 1, 2):
        return [f"exit code {code}: {err.strip().splitlines()[-1] if err.strip() else out}"]
    recorded = fencepost.load(run)
    blamed = [f"{each.kind}: {each.text}" for each in recorded.verdict.findings if each.blame == "lock"]
    noticed = sum(event.unplanned and event.event == "injected" for event in faults_of(run))
    gaps = len(list(run.glob("gaps/*")))
    _say(
        f"{lock:16} {scenario:24} exit {code}, {len(recorded.sections):6,} sections, {noticed} noticed failures, "
        f"{gaps} clients with gaps, {len(blamed)} findings blamed on the lock"
    )
    return blamed


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--locks", default="redlock,redlock-ng")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if reason := why_not():
        _say(reason)
        return 255
    blamed: list[str] = []
    for scenario in asked.scenarios.split(","):
        for lock in asked.locks.split(","):
            with tempfile.TemporaryDirectory() as folder:
                blamed += play(lock, scenario, asked.clients, asked.seconds, asked.seed, Path(folder))
    for finding in blamed:
        _say(f"BLAMED {finding}")
    return 1 if blamed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Is a correct lock ever blamed under the standard faults? `python -m tests.no_blame_standard [--runs 300]`

Plays the correct locks (`tests/correct_locks.py`) in turn under `standard` as users get it, without persistence: with 2
to 12 clients, leases of three lengths, another seed each time, several runs at once, on processes. Prints one line per
run and a summary by lock, and moves the folder of each run that blamed a lock to `results/runs/`. On a machine that is
too busy some runs are unknown; the summary says why. Exits with 1 if anything was blamed on a lock, with 2 if a run has
no verdict.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from tests.correct_locks import CORRECT
from tests.harness.runs import ROOT
from tests.no_blame_under_faults import Outcome, play, say

CLIENTS: Final = range(2, 13)
TTLS: Final = ("300ms", "500ms", "1s")


@dataclass(frozen=True, slots=True)
class Planned:
    """A run to be made."""

    lock: str
    seed: int
    clients: int
    ttl: str

    def __str__(self) -> str:
        return f"{self.lock}, seed {self.seed}, {self.clients} clients, TTL {self.ttl}"


def planned(locks: Sequence[str], first_seed: int) -> Iterator[Planned]:
    """Locks take turns, each with a seed of its own. Without end: every lock meets every number of clients with every
    TTL, because 11 and 3 have no divisor in common."""
    seed = first_seed
    while True:
        for number, lock in enumerate(locks):
            turn = seed - first_seed + 4 * number
            yield Planned(lock, seed, CLIENTS[turn % len(CLIENTS)], TTLS[turn % len(TTLS)])
        seed += 1


def make(run: Planned, options: Sequence[str], keep: Path) -> Outcome:
    """Make the run; its folder is kept if it blamed the lock."""
    drawn = ["--nemesis", "standard", "--ttl", run.ttl, "--clients", str(run.clients), "--seed", str(run.seed)]
    with tempfile.TemporaryDirectory() as scratch:
        outcome = play(run.lock, [*drawn, *options], Path(scratch))
        if outcome.blamed:
            folder = (Path(scratch) / "results/runs/latest").resolve()
            keep.mkdir(parents=True, exist_ok=True)
            shutil.move(folder, keep / folder.name)
            say(f"kept: {keep / folder.name}")
    return outcome


def summary(made: Mapping[Planned, Outcome]) -> Iterator[str]:
    """One line per lock, then why runs were unknown."""
    for lock in dict.fromkeys(run.lock for run in made):
        own = [outcome for run, outcome in made.items() if run.lock == lock]
        codes = Counter(outcome.code for outcome in own)
        sections = sum(outcome.sections for outcome in own)
        valid, violation, unknown = (codes.pop(code, 0) for code in (0, 1, 2))
        yield (
            f"{lock:28} {len(own):4} runs: {valid} valid, {violation} violation, {unknown} unknown, "
            f"{codes.total()} without a verdict; {sections:,} sections; "
            f"{sum(bool(outcome.blamed) for outcome in own)} blamed on the lock"
        )
    for why, number in Counter(why for outcome in made.values() for why in outcome.unknown).most_common():
        yield f"unknown in {number}: {why}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=20, help="of load, in each run")
    parser.add_argument("--at-once", type=int, default=3, help="so many runs at the same time")
    parser.add_argument("--locks", default=",".join(CORRECT))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cluster", default="process")
    parser.add_argument("--keep", type=Path, default=ROOT / "results/runs", help="where runs go that blamed a lock")
    asked = parser.parse_args()
    options = ["--duration", f"{asked.seconds:g}s", "--recovery", "2s", "--cluster", asked.cluster]
    made: dict[Planned, Outcome] = {}
    with ThreadPoolExecutor(asked.at_once) as pool:
        runs = list(islice(planned(asked.locks.split(","), asked.seed), asked.runs))
        under_way = {pool.submit(make, run, options, asked.keep): run for run in runs}
        for done in as_completed(under_way):
            run = under_way[done]
            made[run] = done.result()
            say(f"[{len(made)}/{len(runs)}] {run}: {made[run]}")
    say("")
    for line in summary({run: made[run] for run in runs}):
        say(line)
    blamed = [f"BLAMED {run}: {text}" for run, outcome in made.items() for text in outcome.blamed]
    broken = [f"NO VERDICT {run}: {outcome.broken}" for run, outcome in made.items() if outcome.broken]
    for line in blamed + broken:
        say(line)
    return 1 if blamed else 2 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

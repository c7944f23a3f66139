"""Is a correct lock ever blamed, whatever the nemeses do? `python -m tests.no_blame_under_faults [--at-once 3]`

Plays each of the correct locks (`tests/correct_locks.py`) under each nemesis alone, under several together and under
`standard`, with loads that are drawn from the seed. Servers come back later than the leases last, so nothing that a
server forgets is an excuse; and clocks drift by no more than Redlock allows for. Prints one line per run, and exits
with 1 if anything was blamed on a lock. `tests/no_blame_standard.py` plays `standard` alone, hundreds of times.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Final

import fencepost
from tests.correct_locks import CORRECT
from tests.harness import runs

FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "none": ("none",),
    "partition": ("partition:interval=1500ms,duration=1s",),
    "latency": ("latency:interval=1500ms,duration=1s",),
    "slice": ("slice:interval=1500ms,duration=1s",),
    "pause": ("pause:interval=1500ms",),
    "crash": ("crash:interval=1500ms",),
    "shutdown": ("shutdown:interval=1500ms",),
    "power": ("power:interval=2s",),
    "hunt": ("hunt:restart-delay=1.2ttl", "--hold", "uniform:50ms-400ms", "--clients", "2"),
    "lost-reply": ("lost-reply:interval=500ms",),
    "errors": ("errors:interval=1500ms,duration=1s",),
    "corrupt": ("corrupt:interval=2s", "--persistence", "aof-always"),
    "clock": ("clock:interval=1500ms,kind=drift,rate=1",),
    "late-write": ("late-write:interval=1500ms",),
    "combined": ("partition+latency+pause+crash",),
    "standard": ("standard",),
}
"""A spec for each, and further options."""

TRUE: Final = {("redlock-ng", "late-extension")}
"""What is rightly blamed: redlock-ng does not look at the time again after an extension, and its source says so."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run. `blamed`: what was blamed on the lock, as text; `others`: the other findings. `unknown`: why its verdict
    is unknown. `broken`: why there is no verdict."""

    code: int
    sections: int = 0
    blamed: tuple[str, ...] = ()
    others: str = ""
    unknown: tuple[str, ...] = ()
    broken: str = ""

    def __str__(self) -> str:
        words = "; ".join(filter(None, (self.others, *self.unknown, self.broken)))
        return f"exit {self.code}, {self.sections:6,} sections, {len(self.blamed)} blamed on it; {words}"


def play(lock: str, arguments: Sequence[str], folder: Path) -> Outcome:
    """Make one run of a correct lock in this folder."""
    code, out, err = runs.fencepost(folder, "test", *CORRECT[lock], *arguments, timeout_s=180)
    if code not in (0, 1, 2):
        return Outcome(code, broken=(err.strip() or out.strip()).splitlines()[-1])
    run = fencepost.load(folder / "results" / "runs" / "latest")  # with --keep, an earlier one may be there
    wrong = ("lock", "resource", "harness")
    blamed = [each for each in run.verdict.findings if each.blame == "lock" or (each.blame in wrong and each.breaks)]
    blamed = [each for each in blamed if (lock, each.kind) not in TRUE]
    other = Counter(f"{each.kind} ({each.blame})" for each in run.verdict.findings if each not in blamed)
    return Outcome(
        code,
        len(run.sections),
        tuple(f"{each.kind}: {each.text} {each.examples[:1]}" for each in blamed),
        ", ".join(f"{number} {kind}" for kind, number in other.items()),
        run.verdict.unknown if code == 2 else (),
    )


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--locks", default=",".join(CORRECT))
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cluster", default="process")
    parser.add_argument("--at-once", type=int, default=1, help="so many runs at the same time")
    parser.add_argument("--keep", type=Path, help="a folder for the runs; without it they are deleted")
    asked = parser.parse_args()
    settings = ["--duration", f"{asked.seconds:g}s", "--recovery", "2s", "--cluster", asked.cluster]

    def made(lock: str, faults: str) -> list[str]:
        with tempfile.TemporaryDirectory() as scratch:
            folder = asked.keep / f"{lock} {faults} {asked.seed}" if asked.keep else Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            spec, *more = FAULTS[faults]
            drawn = ["--ttl", "500ms", "--load", "drawn", "--nemesis", spec, "--seed", str(asked.seed)]
            outcome = play(lock, [*drawn, *more, *settings], folder)
        say(f"{lock:28} {faults:10} {outcome}")
        return [f"{lock}, {faults}: {text}" for text in (*outcome.blamed, *filter(None, [outcome.broken]))]

    with ThreadPoolExecutor(asked.at_once) as pool:
        blamed = list(
            chain(*pool.map(made, *zip(*product(asked.locks.split(","), asked.faults.split(",")), strict=True)))
        )
    for finding in blamed:
        say(f"BLAMED {finding}")
    return 1 if blamed else 0


if __name__ == "__main__":
    sys.exit(main())

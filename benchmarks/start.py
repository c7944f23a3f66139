"""How long commands and the processes of a run take to start, compared with a Python that does nothing:
`python benchmarks/start.py`.

Compare only the ratios within one run: a busy machine slows all commands alike.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from harness.config import RunConfig
from harness.store.run_folder import RunFolder

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "fencepost --help": [sys.executable, "-m", "fencepost", "--help"],
    "fencepost test --help": [sys.executable, "-m", "fencepost", "test", "--help"],
    "fencepost list (20 runs)": [sys.executable, "-m", "fencepost", "list"],
    "a client's imports": [sys.executable, "-c", "import workloads.client"],
    "a run's imports": [sys.executable, "-c", "import harness.run.scheduled_scenario"],
    "import pandas": [sys.executable, "-c", "import pandas"],
}


def seconds(words: Sequence[str], folder: Path) -> float:
    began = perf_counter()
    subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how often to run each command, in turn (20)")
    rounds = parser.parse_args().rounds
    took: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for seed in range(20):
            RunFolder.create(folder / "results" / "runs", RunConfig(seed=seed))
        for _ in range(rounds + 1):  # the first round writes the byte code
            for name, words in COMMANDS.items():
                took[name].append(seconds(words, folder))
    bare = median(took["python -c pass"][1:])
    for name, times in took.items():
        middle = median(times[1:])
        print(f"{name:<26} {1e3 * middle:5.0f} ms   {middle / bare:4.1f} × python")


if __name__ == "__main__":
    main()

"""Make the space-time diagrams in `docs/pictures/` again, of real runs: `make diagrams` (half a minute).

One is of a lock that is broken on purpose, for the README; the other one is of the tutorial's lock, by the tutorial's
own command.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PICTURES: Final = ROOT / "docs/pictures"
MOST_BYTES: Final = 30_000
FENCEPOST: Final = (sys.executable, "-m", "fencepost")
BROKEN: Final = (
    "fencepost test --lock control-release-without-comparing --nemesis none --nodes 3 --clients 3 --duration 3s "
    "--hold uniform:20ms-60ms --seed 7"
)
VIOLATION: Final = 1


def main() -> None:
    tutorial = (ROOT / "docs/tutorial.md").read_text()
    lock = re.search(r"```python\n(.*?)```", tutorial, re.DOTALL)
    command = re.search(r"^fencepost test --lock my_lock:MyLock .*$", tutorial, re.MULTILINE)
    assert lock is not None, "the tutorial begins with a lock"
    assert command is not None, "the tutorial plays its lock"
    for name, words in (("space-time", BROKEN), ("space-time-tutorial", command[0])):
        with TemporaryDirectory(prefix="fencepost-diagrams-") as folder:
            Path(folder, "my_lock.py").write_text(lock[1])
            draw(Path(folder), shlex.split(words), PICTURES / f"{name}.svg")


def draw(folder: Path, words: list[str], picture: Path) -> None:
    """The diagram of the first overlap in a run that is made in this folder."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    played = [*FENCEPOST, *words[1:], "--cluster", "process", "--results", "runs"]
    code = subprocess.run(played, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False).returncode
    if code != VIOLATION:
        raise SystemExit(f"{shlex.join(words)} ended with {code}, not with a violation")
    drawn = [*FENCEPOST, "explain", "runs/latest", "--kind", "overlap", "--limit", "1", "--svg", str(picture)]
    subprocess.run(drawn, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    size = picture.stat().st_size
    print(f"{picture.relative_to(ROOT)}: {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"that is more than {MOST_BYTES:,}")


if __name__ == "__main__":
    main()

"""The lock of the example that is broken on purpose, tested as its author would, on real servers."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.second_tries import first_that_counts
from tests.plugin.conftest import PLUGIN, ROOT

EXAMPLE = ROOT / "examples/quorum_locks"
PLAY_S = 120
"""The longest that one play may take."""
TOO_FEW = re.compile(
    r"c\d acquired the lock although (no node|only (n\d and )?n\d) had granted it"
    r"|(None|Only (n\d and )?n\d) had granted it"
)


def play(folder: Path) -> subprocess.CompletedProcess[str]:
    """Test the broken lock in a copy of the example."""
    shutil.copytree(EXAMPLE, folder / "locks", ignore=shutil.ignore_patterns("fencepost-runs", "__pycache__"))
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "fencepost"]
    environment = {"FENCEPOST": shlex.join(command), "PYTHONPATH": str(PLUGIN), "XDG_CACHE_HOME": str(folder)}
    return subprocess.run(
        [sys.executable, *("-m", "pytest", "-p", "pytest_fencepost.plugin", "--fencepost-cluster=process", "broken")],
        cwd=folder / "locks",
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PLAY_S,
    )


@pytest.mark.timeout(4 * PLAY_S)
def test_the_broken_lock_fails_with_a_message_that_says_how_two_clients_got_in(tmp_path: Path) -> None:
    # Every play draws partitions of its own, and under some the record may not show which nodes granted what.
    place, done = first_that_counts(
        tmp_path, lambda folder: (folder, play(folder)), lambda played: bool(TOO_FEW.search(played[1].stdout))
    )
    said = done.stdout
    assert done.returncode == 1, said + done.stderr
    assert "; the lock is to blame" in said
    assert TOO_FEW.search(said), said
    (folder,) = [path for path in (place / "locks/fencepost-runs").iterdir() if not path.is_symlink()]
    assert f"picture  {folder}/report.html" in said
    assert (folder / "report.html").is_file()
    replay = shlex.split(re.findall(r"^replay   (.*)$", said, re.MULTILINE)[0])
    assert f"{folder}/schedule.json" in replay

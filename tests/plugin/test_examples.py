"""The lock of the example that is broken on purpose, tested as its author would, on real servers."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.plugin.conftest import PLUGIN, ROOT


def test_the_broken_lock_fails_with_a_message_that_says_how_two_clients_got_in(tmp_path: Path) -> None:
    left = shutil.ignore_patterns("fencepost-runs", "__pycache__")
    shutil.copytree(ROOT / "examples/quorum_locks", tmp_path / "locks", ignore=left)
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "fencepost"]
    environment = {"FENCEPOST": shlex.join(command), "PYTHONPATH": str(PLUGIN), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *("-m", "pytest", "-p", "pytest_fencepost.plugin", "--fencepost-cluster=process", "broken")],
        cwd=tmp_path / "locks",
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=110,
    )
    said = done.stdout
    assert done.returncode == 1, said + done.stderr
    assert "VIOLATION — the lock is to blame: " in said
    assert re.search(r"c\d acquired the lock although (no node|only (n\d and )?n\d) had granted it", said), said
    (folder,) = [path for path in (tmp_path / "locks/fencepost-runs").iterdir() if not path.is_symlink()]
    assert f"picture  {folder}/report.html" in said
    assert (folder / "report.html").is_file()
    replay = shlex.split(re.findall(r"^replay   (.*)$", said, re.MULTILINE)[0])
    assert f"{folder}/schedule.json" in replay

"""A file system that is full is one honest line, and everybody looks for a run's state in the same place."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from cluster.lifetime import state_parent
from tests.harness.runs import ROOT

FULL = """
set -eu
mount -t tmpfs -o size=256k,mode=0777 none "$1"
{before}
dd if=/dev/zero of="$1/filler" bs=4k status=none 2>&1 || true
shift
exec "$@"
"""


def on_a_full_disk(
    folder: Path, *command: str, before: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in a mount namespace in which the folder is a small file system without any room."""
    script = FULL.format(before=before)
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(folder), *command],
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        capture_output=True, text=True, timeout=60, cwd=folder.parent,
    )  # fmt: skip


@pytest.fixture
def full(tmp_path: Path) -> Path:
    folder = tmp_path / "full"
    folder.mkdir()
    return folder


CREATE = """
import sys
from pathlib import Path
from workloads.control import Control
try:
    Control.create(Path(sys.argv[1]) / "control")
except OSError as error:
    sys.exit(f"refused: {error.strerror}")
"""


@pytest.mark.needs("mounts")
def test_a_control_block_without_room_is_refused_and_kills_nobody(full: Path) -> None:
    done = on_a_full_disk(full, sys.executable, "-c", CREATE, str(full))
    assert (done.returncode, done.stderr) == (1, "refused: No space left on device\n")


@pytest.mark.needs("mounts")
@pytest.mark.parametrize(
    "before", ["", 'mkdir -m 0700 "$1/fencepost-$(id -u)"'], ids=["nothing is there", "used before"]
)
def test_a_run_without_room_for_its_state_is_one_line_that_names_the_folder(before: str, full: Path) -> None:
    words = ["test", "--cluster", "process", "--lock", "redlock", "--clients", "2", "--duration", "1s"]
    done = on_a_full_disk(
        full, sys.executable, "-m", "fencepost", *words, before=before, environment={"TMPDIR": str(full)}
    )
    assert done.returncode == 255, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert str(full) in done.stderr
    assert "No space left" in done.stderr or "no space left" in done.stderr


@pytest.mark.needs("mounts")
def test_the_sweep_looks_where_the_run_was_also_when_that_is_full(full: Path) -> None:
    done = on_a_full_disk(
        full,
        *(sys.executable, "-m", "fencepost", "clean"),
        before='mkdir -m 0700 "$1/fencepost-$(id -u)" && mkdir "$1/fencepost-$(id -u)/dead"',
        environment={"TMPDIR": str(full)},
    )
    assert done.returncode == 0, done
    assert f"removed {full}/fencepost-{os.getuid()}/dead" in done.stdout.replace("\n", "")


def test_the_folder_for_state_is_named_and_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/no/such/folder")
    assert state_parent() == Path(f"/no/such/folder/fencepost-{os.getuid()}")
    monkeypatch.delenv("TMPDIR")
    assert state_parent() == Path(f"/tmp/fencepost-{os.getuid()}")

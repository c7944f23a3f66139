"""What a server takes of its machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cluster.footprint import footprint_of

MIB = 1 << 20


def test_its_disk_is_what_its_folder_takes_without_what_other_folders_share(tmp_path: Path) -> None:
    (folder := tmp_path / "server" / "data").mkdir(parents=True)
    (folder / "log").write_bytes(os.urandom(2 * MIB))
    (tmp_path / "program").write_bytes(os.urandom(3 * MIB))
    (folder / "program").hardlink_to(tmp_path / "program")
    assert 2 <= footprint_of(os.getpid(), folder.parent).disk_mib < 2.5


def test_its_memory_is_that_of_its_processes_and_what_they_share_counts_once(tmp_path: Path) -> None:
    """The parent fills 64 MiB, which its child has as well."""
    program = (
        "import os, sys\nheld = os.urandom(64 << 20)\npid = os.fork()\n"
        "sys.stdout.write('.' if pid else ''); sys.stdout.flush()\nsys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"."
        assert 64 < footprint_of(child.pid, tmp_path).memory_mib < 100
        child.communicate(b"")
    assert footprint_of(child.pid, tmp_path).memory_mib == 0

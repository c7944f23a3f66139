"""Modules that are started in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from fencepost.fresh import running

MODULE = """
import gc, sys
from fencepost.fresh import is_complete
print(__name__, sys.argv[1:], gc.isenabled())
is_complete()
print(gc.isenabled(), gc.get_freeze_count() > 0)
sys.exit(3)
"""


def test_a_module_is_run_with_its_arguments_and_looks_for_garbage_once_it_is_complete(tmp_path: Path) -> None:
    (tmp_path / "started.py").write_text(MODULE)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(running("started", "a", "-b"), env=environment, capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines() == ["__main__ ['a', '-b'] False", "True True"], ended.stderr
    assert ended.returncode == 3

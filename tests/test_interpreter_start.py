"""Modules that are started in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.interpreter_start import calling, running

ROOT = Path(__file__).parent.parent
MODULE = """
import gc, sys
from fencepost.interpreter_start import is_complete
print(__name__, sys.argv[1:], gc.isenabled())
is_complete()
print(gc.isenabled(), gc.get_freeze_count() > 0)
sys.exit(3)
"""


def test_a_module_is_run_with_its_arguments_and_looks_for_garbage_once_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "started.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    ended = subprocess.run(running("started", "a", "-b"), capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines() == ["__main__ ['a', '-b'] False", "True True"], ended.stderr
    assert ended.returncode == 3


def test_a_module_of_the_users_does_not_shadow_one_of_others_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even one of fencepost's own, which a finder of their own may find."""
    here, named = tmp_path / "here", tmp_path / "named"
    for folder in (here, named):
        folder.mkdir()
        for name in ("json", "queue", "msgspec", "harness"):
            (folder / f"{name}.py").write_text("raise RuntimeError(__file__)\n")
    (here / "mine.py").write_text("def main():\n    import harness, json, msgspec, queue\n    print('loaded')\n")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", str(named))
    monkeypatch.setattr(sys, "path", ["", str(named), str(here), *sys.path])
    ended = subprocess.run(calling("mine:main"), capture_output=True, text=True, check=False)
    assert ended.stdout == "loaded\n", ended.stderr


def test_what_is_compiled_where_files_are_too_short_for_it_is_not_kept(tmp_path: Path) -> None:
    """Python 3.11 would keep the first KiB of it, and fail to load that from then on."""
    (tmp_path / "long.py").write_text("\n".join(f"name_{number} = {number}" for number in range(1_000)))
    code = (
        "import resource, sys; from fencepost.interpreter_start import keep_no_torn_bytecode as keep; "
        f"sys.dont_write_bytecode = False; keep(); sys.path.append({str(tmp_path)!r}); import long"
    )
    limited = ["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", sys.executable, "-B", "-c", code]
    subprocess.run(limited, cwd=ROOT, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["long.py"]

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.errors import BrokenEnvironmentError, UsageError
from workloads import locks
from workloads.base import Lock, LockSettings
from workloads.locks.no_op import NoOp
from workloads.registry import check_lock, lock_names, open_lock

OWN_LOCK = """
class Mine:
    def __init__(self, nodes, settings): self.nodes = nodes
    def acquire(self, key, ttl_ms): return None
    def extend(self, lease, ttl_ms): return None
    def release(self, lease): return True
    def close(self): pass
    def describe(self): return {}

class NoArguments(Mine):
    def __init__(self): pass

class Half:
    def acquire(self, key, ttl_ms): return None

class Raising(Mine):
    def __init__(self, nodes, settings): raise OSError("no\\nroute")

helper = 7
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current directory; modules imported from it are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def refused(lock: str, lock_command: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        check_lock(lock, lock_command)
    with pytest.raises(UsageError):
        open_lock(lock, lock_command, [], LockSettings())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_lock_whose_file_changes_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "__path__", [str(tmp_path)])
    for summary in ("The first words", "Other words"):
        (tmp_path / "mine.py").write_text(f'"""{summary}. And more."""\n')
        assert [info.summary for info in lock_names()] == [summary]


def test_a_module_whose_name_is_taken_is_told_and_those_beside_it_are_found_last(here: Path) -> None:
    (here / "queue.py").write_text("class Mine: ...\n")
    assert "rename the latter" in refused("queue:Mine")
    (here / "colorsys.py").write_text("raise RuntimeError('imported')\n")
    (here / "helpers.py").write_text("import colorsys\n")
    (here / "beside.py").write_text(f"import colorsys, helpers\n{OWN_LOCK}")
    check_lock("beside:Mine", None)


def test_every_file_in_the_folder_is_a_lock_with_a_summary() -> None:
    infos = {info.name: info for info in lock_names()}
    assert {"redlock", "semaphore", "semaphore-counted", "set-nx-px", "no-op"} <= {
        name for name, info in infos.items() if info.kind == "recipe"
    }
    assert {"redlock-ng", "redlock-py", "pottery"} <= {name for name, info in infos.items() if info.kind == "foreign"}
    assert {name for name, info in infos.items() if info.kind == "control"} == {
        "control-extend-without-comparing",
        "control-quorum-of-two",
        "control-release-without-comparing",
        "control-no-validity-check",
        "control-no-unique-value",
        "control-rw-lock-first-reader-out",
        "control-semaphore-by-majority",
        "control-wall-clock",
    }
    assert all(info.summary for info in infos.values())


def test_looking_for_locks_imports_none() -> None:
    program = "import sys; from workloads.registry import lock_names; lock_names(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "workloads.registry" in loaded
    assert not [name for name in loaded if name.startswith(("redis", "pottery", "redlock", "workloads.locks."))]


def test_a_recipe_is_opened_by_its_name() -> None:
    check_lock("no-op", None)
    assert isinstance(open_lock("no-op", None, [], LockSettings()), NoOp)


def test_the_error_for_an_unknown_name_suggests_the_nearest_or_says_what_lists_all() -> None:
    message = refused("redlok-ng")
    assert message.endswith("did you mean redlock-ng?")
    assert "did you mean" not in refused("gibraltar")
    assert "`fencepost test --help` lists them" in refused("gibraltar")


def test_a_foreign_lock_that_is_not_installed_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_TOOLS", str(tmp_path))
    assert refused("redlock-ng") == "the lock redlock-ng is not installed: run `fencepost setup --lock redlock-ng`"


def test_a_class_in_the_current_directory_is_a_lock(here: Path) -> None:
    (here / "my_locks.py").write_text(OWN_LOCK)
    check_lock("my_locks:Mine", None)
    lock: Lock = open_lock("my_locks:Mine", None, [], LockSettings())
    assert lock.release(None) is True  # type: ignore[arg-type]


def test_a_class_that_does_not_open_is_a_broken_environment_in_one_line(here: Path) -> None:
    (here / "my_locks.py").write_text(OWN_LOCK)
    with pytest.raises(BrokenEnvironmentError, match="my_locks:Raising cannot be opened: OSError: no route"):
        open_lock("my_locks:Raising", None, [], LockSettings())


@pytest.mark.parametrize(
    ("lock", "expected"),
    [
        ("my_locks:Other", "my_locks has no 'Other'; its classes: Mine, NoArguments, Half, Raising"),
        ("my_locks:Half", "missing: extend, release, close, describe"),
        ("my_locks:helper", "is not a class with"),
        ("my_locks:NoArguments", "its constructor must take (nodes, settings)"),
        ("no_such_module:Mine", "'no_such_module' cannot be imported from"),
        ("broken_lock:Mine", "'broken_lock' cannot be imported from"),
        ("raising_lock:Mine", "RuntimeError: two lines"),
        (":Mine", "cannot be imported"),
    ],
)
def test_a_class_that_is_no_lock_is_refused_with_the_reason(here: Path, lock: str, expected: str) -> None:
    (here / "my_locks.py").write_text(OWN_LOCK)
    (here / "broken_lock.py").write_text("def (")
    (here / "raising_lock.py").write_text("raise RuntimeError('two\\nlines')")
    assert expected in refused(lock)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("no-such-program --fast", "no program 'no-such-program' was found"),
        ("./not-there", "no program './not-there' was found"),
        ("", "is empty"),
        ("python 'unbalanced", "cannot be split into words"),
    ],
)
def test_a_lock_command_that_cannot_be_run_is_refused(command: str, expected: str) -> None:
    assert expected in refused("redlock-ng", command)


def test_a_lock_command_replaces_the_lock() -> None:
    check_lock("no such lock", "sh -c true")

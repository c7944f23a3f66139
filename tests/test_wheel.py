"""fencepost installed from its wheel, in a folder that is no clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("cluster", "fencepost", "harness", "nemesis", "workloads")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the backend that pyproject.toml names, from the files that git knows: what is built leaves no traces."""
    place = tmp_path_factory.mktemp("wheel")
    names = subprocess.run(["git", "ls-files", "-z", *PACKAGES], cwd=ROOT, capture_output=True, check=True).stdout
    for name in (*names.decode().split("\0")[:-1], "pyproject.toml", "README.md"):
        if (ROOT / name).is_file():
            (place / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (place / "source" / name).write_bytes((ROOT / name).read_bytes())
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, str(place)], cwd=place / "source", capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr
    (built,) = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """What an installer does with a wheel of Python code: it unpacks it."""
    with ZipFile(wheel) as archive:
        archive.extractall(wheel.parent / "site")
    return wheel.parent / "site"


def fencepost(installed: Path, folder: Path, *words: str) -> tuple[int, str, str]:
    """The command from the wheel, for a user with a home of their own, and no server on PATH."""
    programs = installed.parent / "bin"
    programs.mkdir(exist_ok=True)
    if not (programs / "sleep").exists():
        (programs / "sleep").symlink_to(shutil.which("sleep") or "sleep")
    environment = {"PYTHONPATH": str(installed), "PATH": str(programs), "HOME": str(folder / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "fencepost", *words],
        cwd=folder,
        env=environment | {"COLUMNS": "500", "TMPDIR": os.environ.get("TMPDIR", "/tmp")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_wheel_holds_every_file_of_the_packages(installed: Path) -> None:
    """Adapters, pins, pages and the proxy's source: whatever git knows in them."""
    names = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wanted = [name for name in names.splitlines() if (ROOT / name).is_file()]
    assert [name for name in wanted if not (installed / name).is_file()] == []


def test_the_help_and_the_list_work_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    assert fencepost(installed, tmp_path, "--help")[0] == 0
    nothing = "no runs in fencepost-runs yet; `fencepost test` makes one\n"
    assert fencepost(installed, tmp_path, "list") == (0, nothing, "")
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_says_what_to_run_without_make(installed: Path, tmp_path: Path) -> None:
    code, out, err = fencepost(installed, tmp_path, "doctor")
    assert (code, err) == (255, "")
    assert f"no redis-server in {tmp_path}/home/.local/share/fencepost/bin; run `fencepost setup`" in " ".join(
        out.split()
    )
    assert "fencepost setup" in out
    assert "make " not in out
    assert not (tmp_path / "fencepost-runs").exists()


def test_a_run_needs_set_up_and_says_so(installed: Path, tmp_path: Path) -> None:
    code, out, err = fencepost(installed, tmp_path, "test", "--lock", "redlock", "--cluster", "process")
    assert (code, out, err.count("\n")) == (255, "", 1)
    assert "run `fencepost setup`" in err
    assert list(tmp_path.iterdir()) == []

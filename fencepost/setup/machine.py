"""What the machine brings: programs on PATH, and Debian's package manager for root."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import sys
import time
from pathlib import Path
from typing import Final

from fencepost.setup.workshop import SetupError, Workshop

BASE_PYTHON: Final = Path(getattr(sys, "_base_executable", None) or sys.executable)
"""The interpreter that environments are made from. Inside of an environment that is the one which that was made from,
because an environment without pip does not see a pip of the system."""
_APT_WAITS_S: Final = 600
_APT_LOCKS: Final = tuple(
    map(
        Path,
        (
            "/var/lib/dpkg/lock-frontend",
            "/var/lib/dpkg/lock",
            "/var/lib/apt/lists/lock",
            "/var/cache/apt/archives/lock",
        ),
    )
)
_FLOCK: Final = "hhqqi4x"
"""struct flock of a 64-bit Linux: kind, from where, start, length, pid (fcntl(2))."""
_WRITE_LOCK: Final = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_HOME: Final = Path(__file__).resolve().parent.parent.parent
IS_CLONE: Final = (_HOME / "Makefile").is_file()
"""Whether this is a clone, which `make` sets up; otherwise fencepost was installed as a package."""
SET_UP: Final = "make setup" if IS_CLONE else "fencepost setup"
"""What brings everything that the main job needs."""


def tools_folder() -> Path:
    """Where set-up puts programs and foreign locks: `$FENCEPOST_TOOLS`, else `.tools` in the clone, else `fencepost` in
    the user's data folder (XDG Base Directory Specification: `$XDG_DATA_HOME` if it is absolute, else ~/.local/share).
    """
    if named := os.environ.get("FENCEPOST_TOOLS"):
        return Path(named).absolute()
    if IS_CLONE:
        return _HOME / ".tools"
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (data if data.is_absolute() else Path.home() / ".local/share") / "fencepost"


def on_path(program: str, *, without: Path | None = None) -> Path | None:
    """The program on PATH; the folder `without` is not searched."""
    places = [place for place in os.get_exec_path() if without is None or Path(place).resolve() != without.resolve()]
    found = shutil.which(program, path=os.pathsep.join(places))
    return Path(found).absolute() if found else None


def has_apt() -> bool:
    return os.geteuid() == 0 and Path("/etc/debian_version").exists() and shutil.which("apt-get") is not None


def apt_install(shop: Workshop, step: str, package: str) -> None:
    """Raises SetupError, also if another program has held apt for ten minutes."""
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    apt = ("apt-get", "-q", "-o", f"DPkg::Lock::Timeout={_APT_WAITS_S}")
    with shop.apt:
        _wait_for_apt(shop, step)
        try:
            shop.run(step, *apt, "install", "-y", "--no-install-recommends", package, env=env)
        except SetupError:  # usually because the package lists are missing or too old
            shop.run(step, *apt, "update", env=env)
            shop.run(step, *apt, "install", "-y", "--no-install-recommends", package, env=env)


def _wait_for_apt(shop: Workshop, step: str) -> None:
    """Wait while another program holds one of apt's locks, and say who does. apt itself waits for dpkg's, but not for
    the one of the package lists."""
    deadline = time.monotonic() + _APT_WAITS_S
    told = False
    while (holder := _apt_holder()) and time.monotonic() < deadline and not shop.is_stopped:
        if not told:
            print(f"setup: {step} waits for {holder}, which is using apt", flush=True)
            told = True
        time.sleep(0.5)
    if holder and not shop.is_stopped:
        raise SetupError(f"{step}: {holder} has been using apt for {_APT_WAITS_S // 60} minutes; try again after it")


def _apt_holder() -> str | None:
    """The program that holds a lock of apt; None if none does."""
    for path in _APT_LOCKS:
        try:
            with path.open("a") as lock:
                held = fcntl.fcntl(lock, fcntl.F_GETLK, _WRITE_LOCK)
        except OSError:  # there is no such lock
            continue
        kind, _, _, _, pid = struct.unpack(_FLOCK, held)
        if kind != fcntl.F_UNLCK:
            return f"process {pid} ({_command_of(pid)})"
    return None


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # it is in another container, or has ended
        return "unknown"

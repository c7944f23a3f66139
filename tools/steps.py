"""The project's own Python environment, which only a clone needs. The servers are in `fencepost/setup/servers.py`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from fencepost.setup.python import base_python, make_environment
from fencepost.setup.workshop import Step, Workshop


def environment_step(root: Path) -> Step:
    """The project's own environment."""
    pins, target = root / "requirements.lock", root / ".venv"

    def make(shop: Workshop) -> str:
        return f".venv: {make_environment(shop, 'python', pins, target, root)}"

    products = (base_python(target), target / "bin/python", target / "bin/fencepost")
    brings = f"packages, checked against {pins.name}; source archives run their build"
    return Step("python", brings, (pins.read_text(), _project_facts(root)), products, make)


def _project_facts(root: Path) -> str:
    """The parts of pyproject.toml that an installation depends on; other parts may change without a new
    installation."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    about = {key: project["project"].get(key) for key in ("name", "version", "dependencies", "scripts", "entry-points")}
    return json.dumps([about, project["build-system"], project["tool"]["setuptools"]])

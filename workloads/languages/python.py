"""Python: an environment of its own for each lock, because several libraries install a module of the same name.

Only the packages are installed. The adapter runs where it is, and finds the protocol's half on PYTHONPATH, which
replaces what our own interpreter was told by it.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable
from pathlib import Path

from fencepost.setup.python import base_python, make_environment
from fencepost.setup.workshop import Workshop
from workloads.languages.base import Language, Launch, half
from workloads.manifest import Manifest


class Python(Language):
    title = "Python"

    def brings(self, lock: Manifest, tools: Path) -> str:
        return (
            f"packages, checked against {lock.packages}; source archives run their build"
            if lock.packages
            else "nothing"
        )

    def inputs(self, lock: Manifest) -> Iterable[Path]:
        return [lock.packages_path] if lock.packages_path else []

    def programs(self, installed: Path) -> tuple[Path, ...]:
        return base_python(installed), installed / "bin/python"

    def install(self, shop: Workshop, step: str, lock: Manifest, installed: Path) -> str:
        return make_environment(shop, step, lock.packages_path, installed)

    def launch(self, lock: Manifest, installed: Path) -> Launch:
        return Launch((str(installed / "bin/python"), str(lock.adapter_path)), {"PYTHONPATH": str(half("python"))})

    def flaw(self, lock: Manifest, installed: Path) -> str | None:
        """Whether every package has its pinned version."""
        if lock.packages_path is None:
            return None
        packages = importlib.metadata.distributions(path=[str(path) for path in installed.glob("lib/*/site-packages")])
        there = {_canonical(package.name): package.version for package in packages}
        pins = re.findall(r"^([\w.-]+)==([^\s;]+)\s*\\?$", lock.packages_path.read_text(), re.MULTILINE)
        for package, version in pins:
            if (found := there.get(_canonical(package))) != version:
                return f"{package} is {found or 'missing'}, pinned is {version}"
        return None


def _canonical(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


LANGUAGE = Python()

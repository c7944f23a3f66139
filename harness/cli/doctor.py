"""`fencepost doctor`: what this machine can do, and how to fix what is missing.

Every check tests the thing itself (the program answers, the signal stops a process, the engine hosts a small cluster),
and leaves nothing behind. The essential checks decide whether the main job can run on processes; the others are
abilities that some faults and backends need.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich import box
from rich.table import Table

from cluster import lifetime
from cluster.backend_registry import backends
from cluster.programs import find_server, find_toxiproxy
from cluster.registry import servers
from cluster.sandbox import why_not
from cluster.system_tools import find_tool
from cluster.wall_clock import find_clock_library
from fencepost.errors import BrokenEnvironmentError, FencepostError
from fencepost.setup.machine import IS_CLONE, SET_UP, tools_folder
from fencepost.setup.server_wheels import BROUGHT, is_on_demand, why_no_servers
from fencepost.setup.workshop import short
from harness.cli.command import Call, Command
from harness.config import RunConfig
from harness.report.terminal import Text
from workloads.installation import wrong_with
from workloads.languages.base import language_of
from workloads.manifest import Manifest
from workloads.options import ClientOptions
from workloads.registry import foreign_locks

_DEFAULT_SERVER = RunConfig(seed=0).server
_TOXIPROXY = "2.12."
_ROOM_MIB = 1024
_CLEAN = "make clean" if IS_CLONE else "fencepost clean"


@dataclass(frozen=True, slots=True)
class Check:
    """One ability of the machine. `found`: what was found. `fix`: what to do if `ok` is false, else empty.

    `essential`: without it the main job cannot run, not even on processes.
    """

    name: str
    ok: bool
    found: str
    fix: str = ""
    essential: bool = False


def examine() -> tuple[Check, ...]:
    """Run all checks, the essential ones first. Takes some seconds; a broken machine causes no exception."""
    return (
        _python(),
        _server(_DEFAULT_SERVER),
        _program("toxiproxy", _toxiproxy, SET_UP, essential=True),
        *_foreign_locks(),
        _sandbox(),
        _stopping(),
        _room(),
        *_other_servers(),
        *_backends(),
        _root(),
        _loop_devices(),
        _program("clocks", lambda: str(short(find_clock_library())), f"install a C compiler (gcc), then {SET_UP}"),
        _run_queue(),
        _leftovers(),
    )


def exit_code(checks: Sequence[Check]) -> int:
    """0 if the main job can run on processes, else 255."""
    return 0 if all(check.ok for check in checks if check.essential) else BrokenEnvironmentError.exit_code


def render(checks: Sequence[Check]) -> Table:
    """A table for `rich`, with a one-line conclusion below it."""
    able = exit_code(checks) == 0
    summary = "the main job can run here" if able else "the main job cannot run here: fix what is marked missing"
    table = Table(box=box.SIMPLE, caption=summary, caption_justify="left")
    for heading in ("", ""):
        table.add_column(heading, no_wrap=True)
    for heading in ("found", "how to fix it"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        word, style = ("ok", "green") if check.ok else ("missing", "red") if check.essential else ("absent", "yellow")
        table.add_row(Text(word, style), check.name, check.found, check.fix)
    return table


def _python() -> Check:
    version = sys.version.split()[0]
    ok = sys.version_info >= (3, 11) and sys.platform == "linux"
    found = f"{version} on {sys.platform}, {short(Path(sys.executable))}"
    return Check("Python", ok, found, "" if ok else "Python 3.11 or newer on Linux", essential=True)


def _program(name: str, ask: Callable[[], str], fix: str, *, essential: bool = False) -> Check:
    try:
        return Check(name, True, ask(), essential=essential)
    except FencepostError as error:
        return Check(name, False, str(error), fix, essential)


def _server(name: str) -> Check:
    """Whether a server is installed; the one that a run uses by default is essential."""

    def found() -> str:
        program = find_server(name)
        return f"{program.version}, {short(program.path)}"

    program = servers()[name].programs[0]
    fix = (why_no_servers() or SET_UP) if program in BROUGHT else f"install {program}"
    if is_on_demand(program):
        fix = f"fencepost setup --lock {_lock_on(name)}"
    return _program(program, found, fix, essential=name == _DEFAULT_SERVER)


def _other_servers() -> Iterator[Check]:
    """One line a program: Sentinel and Cluster groups run the Redis that a plain run takes."""
    seen = set(servers()[_DEFAULT_SERVER].programs)
    for name, server in servers().items():
        if seen.isdisjoint(server.programs) and server.programs:
            seen.update(server.programs)
            yield _server(name)


def _lock_on(server: str) -> str:
    """A lock that brings its server when it is installed."""
    try:
        return next((lock.name for lock in foreign_locks() if lock.server == server), "NAME")
    except FencepostError:
        return "NAME"


def _toxiproxy() -> str:
    program = find_toxiproxy()
    if not program.version.startswith(_TOXIPROXY):
        raise BrokenEnvironmentError(f"{program.path} is version {program.version}, not {_TOXIPROXY}x")
    return f"{program.version}, {short(program.path)}"


def _foreign_locks() -> Iterator[Check]:
    """The lock that the main job tests, and one line for each language."""
    try:
        locks = foreign_locks()
    except FencepostError as error:
        yield Check("foreign locks", False, str(error), "correct the file", essential=True)
        return
    default = ClientOptions().lock
    for lock in locks:
        if lock.name == default:
            wrong = wrong_with(lock)
            yield Check(f"lock {default}", wrong is None, wrong or lock.library, SET_UP if wrong else "", True)
    for name in sorted({lock.language for lock in locks}):
        yield _locks_in([lock for lock in locks if lock.language == name])


def _locks_in(locks: Sequence[Manifest]) -> Check:
    """Which locks of one language are installed, and what to do for the others."""
    language = language_of(locks[0])
    wrong = {lock.installed_as: what for lock in locks if (what := wrong_with(lock))}
    good = [lock.name for lock in locks if lock.installed_as not in wrong]
    found = [f"installed: {', '.join(good)}"] if good else []
    for what in dict.fromkeys(wrong.values()):
        names = ", ".join(name for name in wrong if wrong[name] == what)
        found.append(f"{what.removeprefix('is ')}: {names}")
    fix = ""
    if wrong:
        fix = language.missing(tools_folder()) or " ".join(["fencepost setup", *(f"--lock {name}" for name in wrong)])
    return Check(f"locks in {language.title}", not wrong, "; ".join(found), fix)


def _sandbox() -> Check:
    """Whether a run on processes can have its own namespaces, tested by starting an empty sandbox."""
    if (refused := why_not()) is None:
        return Check("sandbox", True, "PID, network and mount namespaces")
    return Check(
        "sandbox",
        False,
        f"{refused}: other programs on this machine can dial a run's servers, which then ask for a password",
        "allow user namespaces (user.max_user_namespaces, kernel.unprivileged_userns_clone, AppArmor), or run as root",
    )


def _stopping() -> Check:
    """Whether a child process can be stopped: some sandboxes forbid the signal."""
    sleeper = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
    child = subprocess.Popen(sleeper, stdin=subprocess.DEVNULL)
    try:
        os.kill(child.pid, signal.SIGSTOP)
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        ok = os.WIFSTOPPED(status)
        found = "a child stops" if ok else f"a child ended with status {status} instead of stopping"
    except OSError as error:
        ok, found = False, f"SIGSTOP: {error.strerror}"
    finally:
        child.kill()
        child.wait()
    return Check("pauses (SIGSTOP)", ok, found, "" if ok else "leave the sandbox that forbids signals")


def _room() -> Check:
    """Free space where runs are stored, and where servers keep their files during a run."""
    places = {Path.cwd(), lifetime.temporary_folder()}
    free_mib, place = min((shutil.disk_usage(place).free >> 20, place) for place in places)
    ok = free_mib >= _ROOM_MIB
    fix = "" if ok else f"free {_ROOM_MIB} MiB, or set TMPDIR"
    return Check("disk space", ok, f"{free_mib / 1024:.1f} GiB free at {place}", fix, essential=True)


def _backends() -> Iterator[Check]:
    """Abilities that not every machine can have."""
    for backend in backends().values():
        if (seen := backend.examine(_DEFAULT_SERVER)) is not None:
            yield Check(*seen)


def _root() -> Check:
    ok = os.geteuid() == 0
    found = "yes" if ok else f"no, user {os.geteuid()}"
    return Check("root", ok, found, "" if ok else "use sudo for power cuts")


def _loop_devices() -> Check:
    """What power cuts need: a separate file system on a loop device for each node."""
    control = Path("/dev/loop-control")
    if not control.exists():
        return Check("loop devices, ext4", False, f"no {control}", "modprobe loop, or --privileged in a container")
    if not os.access(control, os.R_OK | os.W_OK):
        return Check("loop devices, ext4", False, f"this user may not use {control}", "run as root")
    try:
        mkfs = find_tool("mkfs.ext4")
    except BrokenEnvironmentError:
        return Check("loop devices, ext4", False, "no mkfs.ext4", "apt-get install e2fsprogs")
    return Check("loop devices, ext4", True, f"{control}, {mkfs}")


def _run_queue() -> Check:
    """How long a process waited for a core, which bounds how late a client's timestamps can be."""
    path = Path("/proc/self/schedstat")
    try:
        on_core_ns, waited_ns, _slices = (int(word) for word in path.read_text().split())
    except (OSError, ValueError) as error:
        return Check("run queue times", False, f"{path}: {error}", "a kernel with CONFIG_SCHED_INFO")
    ok = on_core_ns > 0
    found = f"{path}: {waited_ns / 1e6:.1f} ms waited so far" if ok else f"{path} has no times"
    return Check("run queue times", ok, found, "" if ok else "a kernel with CONFIG_SCHED_INFO")


def _leftovers() -> Check:
    """State folders of runs whose harness is gone. The next run also removes them."""
    try:
        folders = [path for path in lifetime.state_parent().iterdir() if path.is_dir()]
    except FileNotFoundError:
        folders = []
    except OSError as error:
        return Check("leftovers", False, str(error), f"remove {lifetime.state_parent()}")
    dead = [path.name for path in folders if not lifetime.is_alive(path)]
    if dead:
        return Check("leftovers", False, f"of {len(dead)} crashed runs: {', '.join(sorted(dead)[:3])}", _CLEAN)
    return Check("leftovers", True, "none")


class Arguments(msgspec.Struct, frozen=True):
    """None."""


def _doctor(call: Call) -> int:
    checks = examine()
    call.out.print(render(checks))
    return exit_code(checks)


COMMAND = Command(
    description="Say what this machine can do, and how to fix what is missing.", arguments=Arguments, do=_doctor
)

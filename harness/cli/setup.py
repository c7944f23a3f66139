"""`fencepost setup`: install what runs need: servers and the proxy, and foreign locks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from fencepost.errors import BrokenEnvironmentError
from fencepost.options import Option
from harness.cli.command import Call, Command
from workloads.options import ClientOptions

if TYPE_CHECKING:
    from rich.console import Console

    from fencepost.setup.workshop import Step
    from harness.campaign.study import Study
    from workloads.manifest import Manifest


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    lock: Annotated[
        tuple[str, ...], Option("--lock", "a foreign lock to install; may be given more than once", metavar="NAME")
    ] = ()
    all: Annotated[bool, Option("--all", "install every foreign lock")] = False
    list: Annotated[bool, Option("--list", "list the foreign locks, and which are installed")] = False
    quiet: Annotated[bool, Option("--quiet", "say nothing about locks that are installed already")] = False


def _setup(call: Call) -> int:
    from workloads.registry import foreign_locks

    arguments: Arguments = call.arguments
    if arguments.list:
        _show(foreign_locks(), call.out)
        return 0
    wanted = list(foreign_locks()) if arguments.all else []
    for name in arguments.lock:
        wanted += _foreign(name, call.out, quiet=arguments.quiet)
    if arguments.lock or arguments.all:
        return install(wanted, quiet=arguments.quiet)
    return install(_foreign(ClientOptions().lock, call.out, quiet=arguments.quiet), servers=True, quiet=arguments.quiet)


def install(locks: Sequence[Manifest], *, servers: bool = False, quiet: bool = False) -> int:
    """Install what is not installed yet, and return the exit code. `servers`: these too, and the proxy. Prints a line
    for each lock; `quiet`: only for the ones that had to be installed. Needs no network, and no lock of another set-up,
    if nothing has to be installed."""
    from fencepost.setup.machine import tools_folder
    from fencepost.setup.progress import Clock, end_on_signals, perform_all
    from fencepost.setup.server_wheels import why_no_servers
    from fencepost.setup.servers import server_steps, wanted_steps
    from fencepost.setup.wall_clock import NO_COMPILER, clock_step
    from fencepost.setup.workshop import Workshop, short
    from workloads.installation import installed_folder, step_of, wrong_with

    end_on_signals()
    shop, clock = Workshop(tools_folder()), Clock()
    one_each = {lock.installed_as: lock for lock in locks}
    wrong = [lock for lock in one_each.values() if wrong_with(lock)]
    if not quiet:
        for lock in locks:
            if one_each[lock.installed_as] not in wrong:
                clock.say(f"{lock.name} is installed: {short(installed_folder(lock))}")
    steps: list[Step] = [*wanted_steps(shop, programs_of(locks))]
    if servers:
        clock_library = clock_step(shop)
        steps += [*server_steps(shop), *([clock_library] if clock_library else [])]
    if not wrong and all(shop.is_done(step) for step in steps):
        if servers and not quiet:
            clock.say(f"the servers and the proxy are installed: {short(shop.bin)}")
        return 0
    try:
        with shop.alone(waiting=lambda: clock.say("another set-up of this folder is running; waiting for it")):
            todo = [step for step in steps if not shop.is_done(step)]
            todo += [step_of(lock) for lock in wrong if wrong_with(lock)]
            clock.announce(todo)
            for note in (why_no_servers(), None if clock_library else NO_COMPILER) if servers else ():
                if note:
                    clock.say(note)
            shop.bin.mkdir(parents=True, exist_ok=True)
            return 0 if perform_all(shop, clock, todo) else BrokenEnvironmentError.exit_code
    except KeyboardInterrupt:
        shop.stop()
        raise BrokenEnvironmentError(
            "set-up was interrupted; finished steps are kept, run the command again to continue"
        ) from None
    except OSError as error:
        raise BrokenEnvironmentError(f"setup: {error}") from error


def install_missing(study: Study[Any]) -> None:
    """Install the locks that the study's runs want and that are missing. One that cannot be installed is said, and the
    study says later what that means to it."""
    from harness.campaign.play import missing_runs
    from workloads.registry import foreign_locks

    cells = dict.fromkeys(slot.cell for slot in missing_runs(study.grid, study.place))
    found = [study.grid.cells[cell] for cell in cells]
    wanted = {{**part.options, **cell.options}.get("lock") for part, cell in found}
    install([lock for lock in foreign_locks() if lock.name in wanted], quiet=True)


def programs_of(locks: Sequence[Manifest]) -> list[str]:
    """The programs of the servers that these locks name."""
    from cluster.registry import servers

    named = {lock.server for lock in locks if lock.server in servers()}
    return [program for name in sorted(filter(None, named)) for program in servers()[name].programs]


def _foreign(name: str, out: Console, *, quiet: bool) -> list[Manifest]:
    """The foreign lock of this name; nothing for a lock that needs no installation. Raises UsageError for an
    unknown name."""
    from workloads.registry import manifest_of

    manifest = manifest_of(name, None)
    if manifest is None and not quiet:
        out.print(f"setup: {name} needs no installation")
    return [manifest] if manifest else []


def _show(locks: Sequence[Manifest], out: Console) -> None:
    from rich.table import Table

    from workloads.installation import wrong_with

    table = Table(box=None, pad_edge=False)
    table.add_column("lock", no_wrap=True)  # so that a name can be copied
    for heading in ("language", "library", "state"):
        table.add_column(heading, overflow="fold")
    for lock in locks:
        table.add_row(lock.name, lock.language, lock.library, wrong_with(lock) or "is installed")
    out.print(table)


COMMAND = Command(
    description="""
Install what runs need. Without --lock and --all: the servers, the proxy, and the lock that is tested by default.
A foreign lock is installed with its toolchain, unless that is on PATH, and its pinned packages. What is installed needs
no network. Nothing needs root. Everything is in one folder: .tools in a clone, otherwise `fencepost` in your data
folder ($XDG_DATA_HOME, or ~/.local/share). FENCEPOST_TOOLS names another one, except to make, which
always uses the clone's.""",
    arguments=Arguments,
    do=_setup,
)

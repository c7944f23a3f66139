"""`fencepost shell`: look into a live run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from cluster.backend_registry import backend_named
from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.options import Option
from harness.cli.command import Call, Command

if TYPE_CHECKING:
    from cluster.live_run import LiveRun

_ASK_A_NODE = (
    "from os import environ as e; import redis; "
    "print(redis.Redis(e['N1_HOST'], int(e['N1_PORT']), password=e.get('REDISCLI_AUTH')).info())"
)


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    run: Annotated[str | None, Option("RUN", "a live run's folder or its name", shown_default="the newest")] = None


def _shell(call: Call) -> int:
    from cluster.live_run import find_live_run

    arguments: Arguments = call.arguments
    live = find_live_run(arguments.run)
    command = call.behind_dashes or [os.environ.get("SHELL") or "/bin/sh"]
    if shutil.which(command[0]) is None:
        raise UsageError(f"there is no program {command[0]!r} on PATH{_instead_of(command[0])}")
    _show(live)
    variables = _variables(live)
    if live.init is not None:
        _join(live.init)
    status = _run(command, os.environ | variables)
    if status == 128 + signal.SIGKILL and live.init is not None and not Path(f"/proc/{live.init}").exists():
        sys.stderr.write("fencepost: the run has ended, and everything in its namespaces with it\n")
    return status


def _variables(live: LiveRun) -> dict[str, str]:
    """`N1=127.0.0.1:10001`, `N1_HOST`, `N1_PORT`, and the same for each other server; the password for redis-cli, if
    one is asked for; the Docker engine of a run in containers; and Toxiproxy's socket."""
    password = live.access.clients
    addresses = {
        f"{name.upper()}{ending}": str(value)
        for name, address in live.addresses.items()
        for ending, value in (("", address), ("_HOST", address.host), ("_PORT", address.port))
    }
    login = {} if password is None else {"REDISCLI_AUTH": password}
    own = backend_named(live.site.backend).variables(live.site)
    return {**addresses, **login, **own, "PROXY_SOCKET": str(live.proxy_socket)}


def _show(live: LiveRun) -> None:
    """The addresses, on stderr: stdout is the command's."""
    place = backend_named(live.site.backend).whereabouts(live.site)
    lines = [f"{live.run_id}, {place}"]
    lines += [f"  {name.upper():<13} {address}" for name, address in live.addresses.items()]
    lines += [f"  {'PROXY_SOCKET':<13} {live.proxy_socket}"]
    if shutil.which("redis-cli"):
        lines.append('each also as …_HOST and …_PORT: redis-cli -h "$N1_HOST" -p "$N1_PORT"')
    else:
        lines.append(f"each also as …_HOST and …_PORT; there is no redis-cli on PATH{_instead_of('redis-cli')}")
    sys.stderr.write("\n".join(lines) + "\n")


def _instead_of(program: str) -> str:
    return f'; use {sys.executable} -c "{_ASK_A_NODE}"' if program == "redis-cli" else ""


def _join(init: int) -> None:
    from cluster.namespaces import join

    here = Path.cwd()
    try:
        join(init)
        os.chdir(here)  # joining a mount namespace leads to its root
    except ProcessLookupError:
        raise UsageError("the run has just ended; start another one, and look into it while it lasts") from None
    except OSError as error:
        raise BrokenEnvironmentError(f"the namespaces of the run cannot be joined: {error.strerror}") from error


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run it in the foreground; its exit status as a shell shows it. Ctrl-C is the command's."""
    signal.signal(signal.SIGINT, lambda *_: None)  # not ignored: that would be inherited
    try:
        status = subprocess.call(command, env=environment)
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started: {error.strerror}") from error
    return 128 - status if status < 0 else status


COMMAND = Command(
    description="""
Look into a live run: start a shell, or a COMMAND, where the run's servers can be reached, with their addresses in
variables: N1=127.0.0.1:10001, N1_HOST, N1_PORT; so for each node and RESOURCE. PROXY_SOCKET is where Toxiproxy's HTTP
interface listens. A run on processes has its own namespaces. The shell joins them and ends with them. Elsewhere the
servers ask for a password, which is in REDISCLI_AUTH, where redis-cli looks for it. For a run in containers DOCKER_HOST
is that run's engine, so `docker ps` shows them.""",
    arguments=Arguments,
    do=_shell,
    usage="fencepost shell [RUN] [-- COMMAND …]",
    with_dashes=True,
    epilog="""examples:
  fencepost shell -- sh -c 'redis-cli -p "$N1_PORT" info'
  fencepost shell -- sh -c 'curl -s --unix-socket "$PROXY_SOCKET" http://proxy/proxies'

exit codes: that of the shell or COMMAND; 254: there is no live run
""",
)

"""Find the programs that a cluster needs: those of its servers, and a Toxiproxy.

The tools folder of set-up (`<checkout>/.tools`, or $FENCEPOST_TOOLS) is searched before PATH. Each program is asked for
its version, so a program that is found here is known to run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from cluster.registry import server_named, servers
from cluster.server import Server
from fencepost.errors import BrokenEnvironmentError, InternalError, UsageError
from fencepost.files import checked_path, identity_of, kind_of
from fencepost.setup.machine import SET_UP, tools_folder

TOXIPROXY: Final = "fencepost-toxiproxy"
_TOXIPROXY_VERSION = re.compile(rf"{TOXIPROXY} version (\S+)")


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """The program of a server. `name`: which server it is; `version`: what the program says of itself.

    `by_path`: the user named this very file, so no other build of the same server may take its place. `is_sentinel`: it
    runs as a sentinel of such servers.
    """

    path: Path
    name: str
    version: str
    by_path: bool = False
    is_sentinel: bool = False

    @property
    def server(self) -> Server:
        """What it is when it runs. Raises InternalError for a sentinel of a server that has none."""
        server = server_named(self.name)
        if not self.is_sentinel:
            return server
        if server.sentinel is None:
            raise InternalError(f"{self.name} has no sentinel")
        return server.sentinel


@dataclass(frozen=True, slots=True)
class ToxiproxyProgram:
    path: Path
    version: str


def find_server(choice: str, option: str = "--server") -> ServerProgram:
    """The program that `--server` (or another `option`) means: the name of a server, or the path of a program.

    Raises UsageError for a path or a word that is no server, BrokenEnvironmentError if a known one is not installed.
    """
    if choice in servers():
        return _installed(servers()[choice])
    path = _user_path(choice)
    if os.sep not in choice and kind_of(path) is None:
        known = ", ".join(servers())
        raise UsageError(f"{option} {choice!r} is not known; write {known} or the path of a server program")
    if kind_of(path) != "file" or not os.access(path, os.X_OK):
        raise UsageError(f"{option} {choice}: there is no program at this path; give the path of a server program")
    try:
        # Not resolved: Debian's redis-server is a link to a program that looks at the name it is called by.
        return replace(_recognised(path.absolute(), servers().values()), by_path=True)
    except BrokenEnvironmentError as error:
        raise UsageError(f"{option} {choice}: {error}") from error


def _user_path(choice: str) -> Path:
    path = checked_path(choice)
    try:
        return path.expanduser()
    except RuntimeError as error:  # ~nobody-of-this-name
        raise UsageError(f"{choice}: {error}") from None


def find_toxiproxy() -> ToxiproxyProgram:
    """Our build of Toxiproxy (`fencepost/setup/toxiproxy`). Raises BrokenEnvironmentError if none runs."""
    path = _find(TOXIPROXY)
    said = _TOXIPROXY_VERSION.search(output := _answer(path, "-version"))
    if said is None:
        raise BrokenEnvironmentError(f"{path} -version answered {output[:80]!r}: that is no {TOXIPROXY}")
    return ToxiproxyProgram(path, said[1])


def _find(*names: str) -> Path:
    """The program with the first of these names that is installed."""
    ours = tools_folder() / "bin"
    for name in names:
        if (ours / name).is_file() and os.access(ours / name, os.X_OK):
            return ours / name
        if found := shutil.which(name):
            return Path(found)
    raise BrokenEnvironmentError(f"no {' or '.join(names)} in {ours} or on PATH; run `{SET_UP}`")


def _installed(server: Server) -> ServerProgram:
    return _recognised(_find(*server.programs), [server])


def _recognised(path: Path, candidates: Iterable[Server]) -> ServerProgram:
    """The program as the first candidate that recognises what it prints. Each option is tried once."""
    printed: dict[str, str] = {}
    candidates = tuple(candidates)
    for server in candidates:
        option = server.version_option
        if option not in printed:
            printed[option] = _answer(path, option)
        if version := server.version_in(printed[option]):
            return ServerProgram(path, server.name, version)
    said = "; ".join(f"{option} answered {output[:80]!r}" for option, output in printed.items())
    wanted = " or ".join(dict.fromkeys(server.programs[0] for server in candidates))
    raise BrokenEnvironmentError(f"{path} {said}: that is no {wanted}")


def _answer(path: Path, option: str) -> str:
    """What the program prints when asked for its version. A file is asked again only if it has changed: a plan of many
    runs asks for each of them."""
    try:
        identity = identity_of(path)
    except OSError as error:
        raise BrokenEnvironmentError(f"{path} {option} cannot be run: {error}; run `{SET_UP}`") from error
    return _asked(path, option, identity)


@cache
def _asked(path: Path, option: str, _identity: tuple[int, int, int]) -> str:
    try:
        done = subprocess.run(
            [path, option], stdin=subprocess.DEVNULL, capture_output=True, timeout=10, text=True, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokenEnvironmentError(f"{path} {option} cannot be run: {error}; run `{SET_UP}`") from error
    output = (done.stdout + done.stderr).strip()
    if done.returncode != 0:
        raise BrokenEnvironmentError(f"{path} {option} ended with {done.returncode}: {output[:200]!r}; run `{SET_UP}`")
    return output

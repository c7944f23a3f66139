"""Find the programs that a cluster needs: those of its servers, and a Toxiproxy.

They are in the tools folder of set-up (`<checkout>/.tools`, or $FENCEPOST_TOOLS). A Redis or Valkey of the machine is
taken only if the user names it; other programs may also be on PATH. Each program is asked for its version, so a program
that is found here is known to run.
"""

from __future__ import annotations

import hashlib
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
from fencepost.setup.server_wheels import BROUGHT, BUILT, ON_JAVA, is_on_demand, why_no_servers

SET_UP_LOCK: Final = "fencepost setup --lock NAME"
TOXIPROXY: Final = "fencepost-toxiproxy"
_IMAGE: Final = "image:"
_ONLY_OURS: Final = "only the one that set-up brings can be run; write the name alone"
_REFERENCE: Final = re.compile(r"[\w./:-]+(:[\w.-]+|@sha256:[0-9a-f]{64})")
_TOXIPROXY_VERSION = re.compile(rf"{TOXIPROXY} version (\S+)")


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """The program of a server. `name`: which server it is; `version`: what the program says of itself.

    `is_named`: the user named this very program. `image`: the container image that has it, at `path`; its version is
    known when it runs. None: an image is built from the program. `is_sentinel`: it runs as a sentinel of such servers.
    `is_elsewhere`: it runs already, and is not ours; `path` means nothing then.
    """

    path: Path
    name: str
    version: str
    is_named: bool = False
    image: str | None = None
    is_sentinel: bool = False
    is_elsewhere: bool = False

    @property
    def server(self) -> Server:
        """What it is when it runs. Raises InternalError for a sentinel of a server that has none, and for a server that
        cannot be elsewhere."""
        server = server_named(self.name)
        if self.is_elsewhere:
            if server.elsewhere is None:
                raise InternalError(f"{self.name} cannot be elsewhere")
            return server.elsewhere
        if not self.is_sentinel:
            return server
        if server.sentinel is None:
            raise InternalError(f"{self.name} has no sentinel")
        return server.sentinel

    def facts(self) -> dict[str, object]:
        """Which program it is, for the record of a run. Raises BrokenEnvironmentError if it cannot be read."""
        which: dict[str, object] = {"name": self.name, "version": self.version, "is_named": self.is_named}
        if self.image or self.is_elsewhere:
            return which
        return which | {"path": str(self.path), "sha256": _sha256(self.path, _identity(self.path))}

    def __str__(self) -> str:
        """`redis 8.2.3`; where the user named the program, also which one it is."""
        if self.image:
            return f"{self.name} of the image {self.image}"
        return f"{self.name} {self.version}" + (f" ({self.path})" if self.is_named else "")


@dataclass(frozen=True, slots=True)
class ToxiproxyProgram:
    path: Path
    version: str


def find_server(choice: str, option: str = "--server") -> ServerProgram:
    """The program that `--server` (or another `option`) means: the name of a server, the path of a program, or
    `name=path` or `name=image:reference` to say which server that is.

    Raises UsageError for a path or a word that is no server, BrokenEnvironmentError if a known one is not installed.
    """
    if choice in servers():
        return _installed(servers()[choice])
    name, equals, which = choice.partition("=")
    if equals and name in servers():
        if which.startswith(_IMAGE):
            return _in_image(servers()[name], which.removeprefix(_IMAGE), option)
        return _named(which, [servers()[name]], option, choice)
    if os.sep not in choice.partition("=")[0] and kind_of(_user_path(choice)) is None:
        known = ", ".join(servers())
        raise UsageError(f"{option} {choice!r} is not known; write {known} or the path of a server program")
    return _named(choice, servers().values(), option, choice)


def _named(which: str, candidates: Iterable[Server], option: str, choice: str) -> ServerProgram:
    """The program at a path that the user named."""
    candidates = tuple(candidates)
    path = _user_path(which) if which else Path()
    if kind_of(path) != "file" or not os.access(path, os.X_OK):
        raise UsageError(f"{option} {choice}: there is no program at this path; give the path of a server program")
    if any(server.needs_tree for server in candidates):
        candidates = [server for server in candidates if not server.needs_tree]
    if not candidates:
        raise UsageError(f"{option} {choice}: {_ONLY_OURS}")
    try:
        # Not resolved: Debian's redis-server is a link to a program that looks at the name it is called by.
        return replace(_recognised(path.absolute(), candidates), is_named=True)
    except BrokenEnvironmentError as error:
        raise UsageError(f"{option} {choice}: {error}") from error


def _in_image(server: Server, reference: str, option: str) -> ServerProgram:
    """The program in an image, where published images have it."""
    if not _REFERENCE.fullmatch(reference):
        raise UsageError(f"{option} {server.name}={_IMAGE}{reference}: write an image with its tag or digest")
    if server.needs_tree:
        raise UsageError(f"{option} {server.name}={_IMAGE}{reference}: {_ONLY_OURS}")
    path = Path("/usr/local/bin", server.programs[0])
    return ServerProgram(path, server.name, "unknown", is_named=True, image=reference)


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
        if name not in (*BROUGHT, *BUILT, *ON_JAVA) and (found := shutil.which(name)):
            return Path(found)
    if any(map(is_on_demand, names)):
        no_wheel = why_no_servers() if any(name in (*BROUGHT, *ON_JAVA) for name in names) else None
        how = no_wheel or f"`{SET_UP_LOCK}` with a lock that runs on it brings it"
        raise BrokenEnvironmentError(f"no {' or '.join(names)} in {ours}; {how}")
    if all(name in BROUGHT for name in names):
        raise BrokenEnvironmentError(f"no {' or '.join(names)} in {ours}; {why_no_servers() or f'run `{SET_UP}`'}")
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
    *most, last = dict.fromkeys(server.programs[0] for server in candidates)
    wanted = f"{', '.join(most)} or {last}" if most else last
    raise BrokenEnvironmentError(f"{path} {said}: that is no {wanted}")


def _answer(path: Path, option: str) -> str:
    """What the program prints when asked for its version. A file is asked again only if it has changed: a plan of many
    runs asks for each of them."""
    return _asked(path, option, _identity(path))


def _identity(path: Path) -> tuple[int, int, int]:
    try:
        return identity_of(path)
    except OSError as error:
        raise BrokenEnvironmentError(f"{path} cannot be run: {error}; run `{SET_UP}`") from error


@cache
def _sha256(path: Path, _identity: tuple[int, int, int]) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BrokenEnvironmentError(f"{path} cannot be read: {error}") from error


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

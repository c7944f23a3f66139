"""What a live run leaves in its state folder so that a user can look into it: where its servers listen, what they ask
for, and the process whose namespaces they live in."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from cluster.address import Address
from cluster.base import Cluster
from cluster.credentials import Access
from cluster.lifetime import StateFolder, is_alive, state_parent
from cluster.site import Site
from fencepost.errors import UsageError
from fencepost.files import matching, on_disk

_ADDRESSES: Final = "addresses.json"
_INIT: Final = "init.pid"


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run whose servers are up. `addresses`: by name: the nodes and `resource`. `access`: how to log in there.
    `proxy_socket`: where Toxiproxy's HTTP interface listens. `init`: the first process of its sandbox; None for a run
    without one. `site`: where its servers are."""

    run_id: str
    addresses: Mapping[str, Address]
    access: Access
    proxy_socket: Path
    init: int | None
    site: Site


class _Noted(msgspec.Struct, frozen=True):
    addresses: dict[str, Address]
    access: Access
    proxy_socket: str


def write_addresses(state: StateFolder, cluster: Cluster) -> None:
    """Record that the servers are up, and where. The state folder can be entered by its user alone."""
    noted = _Noted(dict(cluster.addresses), cluster.access, str(cluster.proxy_socket))
    temporary = state.path / f".{_ADDRESSES}"
    with on_disk(state.path / _ADDRESSES):
        temporary.write_bytes(msgspec.json.encode(noted))
        temporary.replace(state.path / _ADDRESSES)


def write_init(state: StateFolder, init: int) -> None:
    """Record the sandbox; called before the servers come up."""
    with on_disk(state.path / _INIT):
        (state.path / _INIT).write_text(str(init))


def find_live_run(run: str | None, parent: Path | None = None) -> LiveRun:
    """This user's live run of that name or path, or else the newest one. Raises UsageError if there is none, or if it
    is another user's."""
    parent = parent or state_parent()
    for path in (parent, *([Path(run)] if run is not None else [])):
        if (owner := _other_owner(path)) is not None:
            raise UsageError(f"{path} belongs to {owner}; fencepost shell joins no other user's run")
    folders = [path.parent for path in matching(parent, f"*/{_ADDRESSES}") if is_alive(path.parent)]
    if run is not None:
        name = Path(run).resolve().name
        folders = [folder for folder in folders if folder.name == name]
    found = [live for folder in sorted(folders, key=_started) if (live := _read(folder)) is not None]
    if not found:
        which = "no run of this user" if run is None else f"no run {Path(run).name!r} of this user"
        raise UsageError(f"{which} is alive with its servers up; start one, and look into it while it lasts")
    return found[-1]


def _other_owner(path: Path) -> str | None:
    """Whose this file is, if it is another user's."""
    try:
        owner = path.stat().st_uid
    except OSError:  # there is none, or it is hidden from this user
        return None
    if owner == os.getuid():
        return None
    try:
        return f"the user {pwd.getpwuid(owner).pw_name}"
    except KeyError:
        return f"the user with the id {owner}"


def _started(folder: Path) -> float:
    try:
        return (folder / _ADDRESSES).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _read(folder: Path) -> LiveRun | None:
    """None if the run has just ended."""
    try:
        noted = msgspec.json.decode((folder / _ADDRESSES).read_bytes(), type=_Noted)
        init = folder / _INIT
        pid = int(init.read_text()) if init.exists() else None
        if (site := StateFolder(folder).site) is None:
            return None
        return LiveRun(folder.name, noted.addresses, noted.access, Path(noted.proxy_socket), pid, site)
    except FileNotFoundError:
        return None

"""What a live run leaves in its state folder so that a user can look into it: where its servers listen, and the process
whose namespaces they live in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from cluster.base import Address
from cluster.lifetime import StateFolder, is_alive, state_parent
from fencepost.errors import UsageError
from fencepost.files import on_disk

_ADDRESSES: Final = "addresses.json"
_INIT: Final = "init.pid"


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run whose servers are up. `addresses`: by name: the nodes, `resource`, and `proxy` for Toxiproxy's HTTP
    interface. `init`: the first process of its sandbox; None for a run without one."""

    run_id: str
    addresses: Mapping[str, Address]
    init: int | None


def write_addresses(state: StateFolder, addresses: Mapping[str, Address]) -> None:
    """Record that the servers are up, and where."""
    temporary = state.path / f".{_ADDRESSES}"
    with on_disk(state.path / _ADDRESSES):
        temporary.write_bytes(msgspec.json.encode(dict(addresses)))
        temporary.replace(state.path / _ADDRESSES)


def write_init(state: StateFolder, init: int) -> None:
    """Record the sandbox; called before the servers come up."""
    with on_disk(state.path / _INIT):
        (state.path / _INIT).write_text(str(init))


def find_live_run(run: str | None, parent: Path | None = None) -> LiveRun:
    """The live run of that name or path, or else the newest one. Raises UsageError if there is none."""
    parent = parent or state_parent()
    folders = [path.parent for path in parent.glob(f"*/{_ADDRESSES}") if is_alive(path.parent)]
    if run is not None:
        name = Path(run).resolve().name
        folders = [folder for folder in folders if folder.name == name]
    found = [live for folder in sorted(folders, key=_started) if (live := _read(folder)) is not None]
    if not found:
        which = "no run of this user" if run is None else f"no run {Path(run).name!r} of this user"
        raise UsageError(f"{which} is alive with its servers up; start one, and look into it while it lasts")
    return found[-1]


def _started(folder: Path) -> float:
    try:
        return (folder / _ADDRESSES).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _read(folder: Path) -> LiveRun | None:
    """None if the run has just ended."""
    try:
        addresses = msgspec.json.decode((folder / _ADDRESSES).read_bytes(), type=dict[str, Address])
        init = folder / _INIT
        return LiveRun(folder.name, addresses, int(init.read_text()) if init.exists() else None)
    except FileNotFoundError:
        return None

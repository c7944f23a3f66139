"""What a machine makes runs with. All runs of a campaign are made with the same, or they could not be compared."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

import msgspec

from cluster.programs import find_server, find_toxiproxy

_ROOMS = ("fencepost", "cluster", "nemesis", "workloads", "harness")


class Equipment(msgspec.Struct, frozen=True):
    """`source`: a digest of fencepost's own Python files. `programs`: names and versions, by what the runs ask
    for."""

    fencepost: str
    source: str
    python: str
    programs: dict[str, str]

    def differences(self, other: Equipment) -> Iterator[str]:
        """How the other one differs, each in a few words."""
        if self.fencepost != other.fencepost:
            yield f"its fencepost is {other.fencepost}, here it is {self.fencepost}"
        elif self.source != other.source:
            yield f"its fencepost {other.fencepost} has other source files ({other.source}, here {self.source})"
        if self.python != other.python:
            yield f"its Python is {other.python}, here it is {self.python}"
        for what, found in other.programs.items():
            if found != (wanted := self.programs.get(what)):
                yield f"its {what} is {found}, here it is {wanted or 'missing'}"


def itself() -> Equipment:
    """Fencepost and Python on this machine."""
    return Equipment(version("fencepost"), _source(), platform.python_version(), {})


def equipment(servers: Iterable[str]) -> Equipment:
    """This machine's, for runs that choose these servers. Raises UsageError or BrokenEnvironmentError if something is
    missing."""
    programs = {choice: str(find_server(choice)) for choice in servers}
    programs["toxiproxy"] = f"Toxiproxy {find_toxiproxy().version}"
    return msgspec.structs.replace(itself(), programs=programs)


@cache
def _source() -> str:
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(path for room in _ROOMS for path in (root / room).rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]

"""Who is surveyed, as data. A library that is a lock of `workloads/locks/` is added here; nothing else needs an edit.

What the lock's own manifest says, its version and its language, is taken from there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

import msgspec

from fencepost.errors import UsageError
from workloads.registry import find_lock

Role = Literal["library", "correct", "broken"]
"""`correct`: a lock of ours that must not be blamed, `broken`: one that must be. They show what the survey sees."""


class Downloads(msgspec.Struct, frozen=True):
    """`a_month`: as `source` told it on `date` (YYYY-MM-DD)."""

    a_month: int
    source: str
    date: str


class Subject(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`lock`: its name for `--lock`. `nodes`: 1 for a lock of a single server. `algorithm`: in a few words. `extends`:
    its user can extend a lease; `renews`: it can renew its lease by itself. `downloads`: None if nobody could tell.
    `is_quick`: part of the quick form."""

    name: str
    lock: str
    algorithm: str
    homepage: str = ""
    nodes: int = 5
    extends: bool = False
    renews: bool = False
    role: Role = "library"
    downloads: Downloads | None = None
    is_quick: bool = False


@dataclass(frozen=True, slots=True)
class Library:
    """What is surveyed, as its users call it: `redlock`, `4.2.0`, `node`."""

    name: str
    version: str
    language: str


_REDLOCK_NODE: Final = "https://github.com/mike-marcacci/node-redlock"
_REDSYNC: Final = "https://github.com/go-redsync/redsync"

SUBJECTS: Final = (
    Subject(name="redlock", lock="redlock", algorithm="Redlock as its authors describe it", extends=True,
            role="correct", is_quick=True),
    Subject(name="redlock-renewing", lock="redlock-renewing", algorithm="Redlock with a thread that renews",
            extends=True, renews=True, role="correct"),
    Subject(name="redlock-token", lock="redlock-token", algorithm="Redlock whose nodes count their grants",
            extends=True, role="correct"),
    Subject(name="control-quorum-of-two", lock="control-quorum-of-two", algorithm="Redlock with two nodes as a quorum",
            extends=True, role="broken", is_quick=True),
    Subject(name="redlock-ng", lock="redlock-ng", algorithm="Redlock, one node after the other", extends=True,
            homepage="https://pypi.org/project/redlock-ng/", is_quick=True),
    Subject(name="redlock-py", lock="redlock-py", algorithm="Redlock, one node after the other",
            homepage="https://github.com/SPSCommerce/redlock-py", is_quick=True),
    Subject(name="pottery", lock="pottery", algorithm="Redlock, all nodes at once", extends=True,
            homepage="https://github.com/brainix/pottery", is_quick=True),
    Subject(name="redlock-node", lock="redlock-node", algorithm="Redlock, all nodes at once", extends=True,
            homepage=_REDLOCK_NODE, is_quick=True),
    Subject(name="redlock-node-timeouts", lock="redlock-node-timeouts", extends=True, homepage=_REDLOCK_NODE,
            algorithm="the same, and ioredis gives up after 50 ms"),
    Subject(name="redsync", lock="redsync", algorithm="Redlock, all nodes at once", extends=True, homepage=_REDSYNC),
    Subject(name="redsync-fail-fast", lock="redsync-fail-fast", extends=True, homepage=_REDSYNC,
            algorithm="the same, done as soon as a majority replied"),
    Subject(name="redsync-context-timeouts", lock="redsync-context-timeouts", extends=True, homepage=_REDSYNC,
            algorithm="the same, and go-redis obeys its time limits"),
    Subject(name="redis-semaphore", lock="redis-semaphore", algorithm="Redlock, all nodes at once", renews=True,
            homepage="https://github.com/swarthy/redis-semaphore"),
    Subject(name="redisson", lock="redisson", algorithm="RedLock over an RLock of each node",
            homepage="https://github.com/redisson/redisson"),
    Subject(name="rslock", lock="rslock", algorithm="Redlock, all nodes at once", extends=True,
            homepage="https://github.com/hexcowboy/rslock"),
    Subject(name="set-nx-px", lock="set-nx-px", algorithm="SET NX PX, deleted by a script that compares", extends=True,
            nodes=1, role="correct"),
    Subject(name="set-nx-px-del", lock="set-nx-px-del", algorithm="SET NX PX, deleted whosever it is", extends=True,
            nodes=1, role="broken"),
)  # fmt: skip


def library_of(subject: Subject) -> Library:
    """From the lock's manifest; a lock without one is ours. Raises UsageError for a lock that does not exist."""
    manifest = find_lock(subject.lock).manifest
    if manifest is None:
        return Library(subject.name, "", "python")
    name, _, version = manifest.library.rpartition(" ")
    return Library(name, version.removeprefix("v"), manifest.language)


def chosen(only: Collection[str], *, quick: bool) -> tuple[Subject, ...]:
    """The subjects of these names, in the table's order; if none is named, all of them, or those of the quick form.
    Raises UsageError."""
    known = [subject.name for subject in SUBJECTS]
    for name in only:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            question = f", did you mean {near[0]}?" if near else ";"
            raise UsageError(f"--only: nobody called {name!r} is surveyed{question} see `fencepost survey --list`")
    return tuple(s for s in SUBJECTS if (s.name in only if only else s.is_quick or not quick))

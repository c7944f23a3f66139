"""Who is surveyed, as data. A library that is a lock of `workloads/locks/` is added here; nothing else needs an edit.

What the lock's own manifest says, its version and its language, is taken from there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from fencepost.errors import UsageError
from fencepost.meant import question
from workloads.registry import find_lock

Role = Literal["library", "correct", "broken"]
"""`correct`: a lock of ours that must not be blamed, `broken`: one that must be. They show what the survey sees."""


class Downloads(msgspec.Struct, frozen=True):
    """`a_month`: how many. `source` and `date`: who says so, and of when."""

    a_month: int
    source: str
    date: str


class Subject(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`lock`: its name for `--lock`. `nodes`: 1 for a lock of a single server. `algorithm`: in a few words. `extends`:
    its user can extend a lease; `renews`: it can renew its lease by itself. `downloads`: None if unknown.
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


_POTTERY: Final = Downloads(257_000, "PyPI, by Cloudsmith Navigator: a week times 4.3", "December 2025")
_AIOREDLOCK: Final = Downloads(73_000, "PyPI, by Cloudsmith Navigator: a week times 4.3", "2026")
_REDIS_PY: Final = Downloads(237_307_530, "PyPI Stats; the whole client, of which the lock is a part", "mid-2026")
_REDLOCK_NODE: Final = Downloads(2_780_000, "npm, by Cloudsmith Navigator: a week times 4.3, all versions", "undated")
_WARLOCK: Final = Downloads(163_000, "npm, by Socket: a week times 4.3", "2024")
_REDIS_LOCK: Final = Downloads(176_000, "npm, by Socket: a week times 4.3", "2024")
_REDIS_SEMAPHORE: Final = Downloads(1_010_000, "npm, by Socket: a week times 4.3", "2024")

_IN_TURN: Final = "Redlock, one node after the other"
_AT_ONCE: Final = "Redlock, all nodes at once"
_MAJORITY: Final = "Redlock, done as soon as a majority replied"
_LIMITED: Final = "the same, and ioredis gives up after 50 ms"
_COMPARED: Final = "SET NX PX, deleted by a script that compares"

SUBJECTS: Final = (
    Subject(name="redlock", lock="redlock", algorithm="Redlock as its authors describe it", extends=True,
            role="correct", is_quick=True),
    Subject(name="redlock-renewing", lock="redlock-renewing", algorithm="Redlock with a thread that renews",
            extends=True, renews=True, role="correct"),
    Subject(name="redlock-token", lock="redlock-token", algorithm="Redlock whose nodes count their grants",
            extends=True, role="correct"),
    Subject(name="control-quorum-of-two", lock="control-quorum-of-two", algorithm="Redlock with two nodes as a quorum",
            extends=True, role="broken", is_quick=True),
    Subject(name="redlock-ng", lock="redlock-ng", algorithm=_IN_TURN, extends=True, is_quick=True,
            homepage="https://github.com/alwaysvivek/redlock-py"),
    Subject(name="redlock-ng-async", lock="redlock-ng-async", algorithm=_AT_ONCE,
            homepage="https://github.com/alwaysvivek/redlock-py"),
    Subject(name="redlock-py", lock="redlock-py", algorithm=_IN_TURN, is_quick=True,
            homepage="https://github.com/SPSCommerce/redlock-py"),
    Subject(name="redlock-pypi", lock="redlock-pypi", algorithm=_IN_TURN,
            homepage="https://github.com/glasslion/redlock"),
    Subject(name="pyredlock", lock="pyredlock", algorithm=_IN_TURN, extends=True,
            homepage="https://github.com/amazingchow/redlock-py"),
    Subject(name="pottery", lock="pottery", algorithm=_AT_ONCE, extends=True, is_quick=True, downloads=_POTTERY,
            homepage="https://github.com/brainix/pottery"),
    Subject(name="pottery-async", lock="pottery-async", algorithm=_AT_ONCE, extends=True, downloads=_POTTERY,
            homepage="https://github.com/brainix/pottery"),
    Subject(name="aioredlock", lock="aioredlock", algorithm=_AT_ONCE, extends=True, renews=True,
            downloads=_AIOREDLOCK, homepage="https://github.com/joanvila/aioredlock"),
    Subject(name="redlock-node", lock="redlock-node", algorithm=_AT_ONCE, extends=True, is_quick=True,
            downloads=_REDLOCK_NODE, homepage="https://github.com/mike-marcacci/node-redlock"),
    Subject(name="redlock-node-timeouts", lock="redlock-node-timeouts", extends=True, downloads=_REDLOCK_NODE,
            algorithm=_LIMITED,
            homepage="https://github.com/mike-marcacci/node-redlock"),
    Subject(name="redlock-node-5", lock="redlock-node-5", algorithm=_MAJORITY, extends=True, renews=True,
            downloads=_REDLOCK_NODE, homepage="https://github.com/mike-marcacci/node-redlock"),
    Subject(name="redlock-node-5-timeouts", lock="redlock-node-5-timeouts", extends=True, renews=True,
            algorithm=_LIMITED, downloads=_REDLOCK_NODE, homepage="https://github.com/mike-marcacci/node-redlock"),
    Subject(name="sesamecare-redlock", lock="sesamecare-redlock", algorithm=_MAJORITY, extends=True, renews=True,
            homepage="https://github.com/sesamecare/redlock"),
    Subject(name="sesamecare-redlock-timeouts", lock="sesamecare-redlock-timeouts", extends=True, renews=True,
            algorithm=_LIMITED, homepage="https://github.com/sesamecare/redlock"),
    Subject(name="redlock-universal", lock="redlock-universal", algorithm=_AT_ONCE, extends=True, renews=True,
            homepage="https://github.com/alexpota/redlock-universal"),
    Subject(name="redis-semaphore", lock="redis-semaphore", algorithm=_AT_ONCE, renews=True,
            downloads=_REDIS_SEMAPHORE, homepage="https://github.com/swarthy/redis-semaphore"),
    Subject(name="redsync", lock="redsync", algorithm=_AT_ONCE, extends=True,
            homepage="https://github.com/go-redsync/redsync"),
    Subject(name="redsync-fail-fast", lock="redsync-fail-fast", extends=True,
            algorithm="the same, done as soon as a majority replied", homepage="https://github.com/go-redsync/redsync"),
    Subject(name="redsync-context-timeouts", lock="redsync-context-timeouts", extends=True,
            algorithm="the same, and go-redis obeys its time limits", homepage="https://github.com/go-redsync/redsync"),
    Subject(name="redisson", lock="redisson", algorithm="RedLock over an RLock of each node",
            homepage="https://github.com/redisson/redisson"),
    Subject(name="rslock", lock="rslock", algorithm=_AT_ONCE, extends=True,
            homepage="https://github.com/hexcowboy/rslock"),
    Subject(name="set-nx-px", lock="set-nx-px", algorithm=_COMPARED, extends=True, nodes=1, role="correct"),
    Subject(name="set-nx-px-del", lock="set-nx-px-del", algorithm="SET NX PX, deleted whosever it is", extends=True,
            nodes=1, role="broken"),
    Subject(name="redis-semaphore-mutex", lock="redis-semaphore-mutex", algorithm=_COMPARED, renews=True, nodes=1,
            downloads=_REDIS_SEMAPHORE, homepage="https://github.com/swarthy/redis-semaphore"),
    Subject(name="redlock-universal-simple", lock="redlock-universal-simple", algorithm=_COMPARED, extends=True,
            renews=True, nodes=1, homepage="https://github.com/alexpota/redlock-universal"),
    Subject(name="node-redis-warlock", lock="node-redis-warlock", algorithm=_COMPARED, extends=True, nodes=1,
            downloads=_WARLOCK, homepage="https://github.com/TheDeveloper/warlock"),
    Subject(name="redis-lock-node", lock="redis-lock-node", algorithm="SET NX PX, deleted whosever it is", nodes=1,
            downloads=_REDIS_LOCK, homepage="https://github.com/errorception/redis-lock"),
    Subject(name="redis-py-lock", lock="redis-py-lock", algorithm=_COMPARED, extends=True, nodes=1,
            downloads=_REDIS_PY, homepage="https://github.com/redis/redis-py"),
    Subject(name="redis-py-lock-async", lock="redis-py-lock-async", algorithm=_COMPARED, extends=True, nodes=1,
            downloads=_REDIS_PY, homepage="https://github.com/redis/redis-py"),
    Subject(name="python-redis-lock", lock="python-redis-lock", algorithm="SET NX EX, and a list that wakes waiters",
            extends=True, renews=True, nodes=1, homepage="https://github.com/ionelmc/python-redis-lock"),
    Subject(name="redislock", lock="redislock", algorithm=_COMPARED, extends=True, nodes=1,
            homepage="https://github.com/bsm/redislock"),
    Subject(name="rueidislock", lock="rueidislock", algorithm="SET NX PX, with client-side caching", renews=True,
            nodes=1, homepage="https://github.com/redis/rueidis"),
    Subject(name="redisson-lock", lock="redisson-lock", algorithm="a hash that counts its owner's entries", renews=True,
            nodes=1, homepage="https://github.com/redisson/redisson"),
    Subject(name="redisson-fair-lock", lock="redisson-fair-lock", algorithm="the same, with a queue", renews=True,
            nodes=1, homepage="https://github.com/redisson/redisson"),
    Subject(name="redisson-fenced-lock", lock="redisson-fenced-lock", algorithm="the same, with a fencing token",
            renews=True, nodes=1, homepage="https://github.com/redisson/redisson"),
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
            listed = "see `fencepost survey --list`"
            raise UsageError(f"--only: no subject is called {name!r}{question(name, known, listed)}")
    return tuple(s for s in SUBJECTS if (s.name in only if only else s.is_quick or not quick))

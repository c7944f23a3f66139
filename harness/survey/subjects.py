"""Who is surveyed, as data. A library that is a lock of `workloads/locks/` is added here; nothing else needs an edit.

What the lock's own manifest says, its version and its language, is taken from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from fencepost.errors import UsageError
from fencepost.meant import question
from workloads.registry import find_lock

Role = Literal["library", "correct", "broken"]
"""`correct`: a lock of ours that must not be blamed, `broken`: one that must be. They show what the survey sees."""


class Downloads(msgspec.Struct, frozen=True, omit_defaults=True):
    """`a_month`: how many; None where only a `rank` is known, that among the most downloaded of its registry. `source`
    and `date`: who says so, and of when."""

    a_month: int | None
    source: str
    date: str
    rank: int | None = None


class Subject(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`lock`: its name for `--lock`. `nodes`: 1 for a lock of a single server. `algorithm`: in a few words. `extends`:
    its user can extend a lease; `renews`: it can renew its lease by itself. `downloads`: None if unknown.
    `has_tokens`: each grant comes with a fencing token. `known_broken`: of a correct lock, the promises that it cannot
    keep, as a claim shows. `is_quick`: part of the quick form."""

    name: str
    lock: str
    algorithm: str
    homepage: str = ""
    nodes: int = 5
    extends: bool = False
    renews: bool = False
    role: Role = "library"
    downloads: Downloads | None = None
    has_tokens: bool = False
    known_broken: tuple[str, ...] = ()
    is_quick: bool = False


@dataclass(frozen=True, slots=True)
class Library:
    """What is surveyed, as its users call it: `redlock`, `4.2.0`, `node`."""

    name: str
    version: str
    language: str


def _npm(a_month: int) -> Downloads:
    return Downloads(a_month, "npm, all versions of the package", "autumn 2026")


def _pypi(rank: int) -> Downloads:
    return Downloads(None, "PyPI's 15,000 most downloaded", "autumn 2026", rank)


_POTTERY: Final = _pypi(6_503)
_AIOREDLOCK: Final = _pypi(12_262)
_REDIS_PY: Final = _pypi(143)
_REDLOCK_NODE: Final = _npm(3_276_541)
_SESAMECARE: Final = _npm(454_723)
_UNIVERSAL: Final = _npm(70_204)
_WARLOCK: Final = _npm(135_217)
_REDIS_LOCK: Final = _npm(152_912)
_REDIS_SEMAPHORE: Final = _npm(1_277_309)

RELEASED: Final[Mapping[str, str]] = {
    "aioredlock": "2022-02",
    "go-zero": "2026-07",
    "pottery": "2025-03",
    "pyredlock": "2023-11",
    "python-redis-lock": "2026-04",
    "redis": "2026-07",
    "redlock-ng": "2026-01",
    "redlock-py": "2016-03",
    "redislock": "2023-07",
    "redsync": "2026-10",
    "rueidislock": "2026-10",
    "sherlock": "2023-02",
}
"""The month of each library's newest release, by PyPI and the Go module proxy. `redlock` of PyPI is in
`released_of`: npm has a library of the same name. npm, Maven and the registry of Rust are not asked."""
_OLD_YEARS: Final = 3
"""A library without a release for so long is called unmaintained."""

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
            extends=True, role="correct", has_tokens=True, known_broken=("tokens",)),
    Subject(name="control-quorum-of-two", lock="control-quorum-of-two", algorithm="Redlock with two nodes as a quorum",
            extends=True, role="broken", is_quick=True),
    Subject(name="redlock-ng", lock="redlock-ng", algorithm=_IN_TURN, extends=True, is_quick=True,
            homepage="https://github.com/alwaysvivek/redlock-py"),
    Subject(name="redlock-ng-async", lock="redlock-ng-async", algorithm=_AT_ONCE,
            homepage="https://github.com/alwaysvivek/redlock-py"),
    Subject(name="redlock-py", lock="redlock-py", algorithm=_IN_TURN, is_quick=True,
            downloads=_pypi(4_469),
            homepage="https://github.com/SPSCommerce/redlock-py"),
    Subject(name="redlock-pypi", lock="redlock-pypi", algorithm=_IN_TURN,
            downloads=_pypi(8_366),
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
            downloads=_SESAMECARE,
            homepage="https://github.com/sesamecare/redlock"),
    Subject(name="sesamecare-redlock-timeouts", lock="sesamecare-redlock-timeouts", extends=True, renews=True,
            algorithm=_LIMITED, downloads=_SESAMECARE,
            homepage="https://github.com/sesamecare/redlock"),
    Subject(name="redlock-universal", lock="redlock-universal", algorithm=_AT_ONCE, extends=True, renews=True,
            downloads=_UNIVERSAL,
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
    Subject(name="set-nx-px-del", lock="set-nx-px-del", algorithm="SET NX PX, deleted with any owner", extends=True,
            nodes=1, role="broken"),
    Subject(name="redis-semaphore-mutex", lock="redis-semaphore-mutex", algorithm=_COMPARED, renews=True, nodes=1,
            downloads=_REDIS_SEMAPHORE, homepage="https://github.com/swarthy/redis-semaphore"),
    Subject(name="redlock-universal-simple", lock="redlock-universal-simple", algorithm=_COMPARED, extends=True,
            renews=True, nodes=1, downloads=_UNIVERSAL,
            homepage="https://github.com/alexpota/redlock-universal"),
    Subject(name="node-redis-warlock", lock="node-redis-warlock", algorithm=_COMPARED, extends=True, nodes=1,
            downloads=_WARLOCK, homepage="https://github.com/TheDeveloper/warlock"),
    Subject(name="redis-lock-node", lock="redis-lock-node", algorithm="SET NX PX, deleted with any owner", nodes=1,
            downloads=_REDIS_LOCK, homepage="https://github.com/errorception/redis-lock"),
    Subject(name="redis-py-lock", lock="redis-py-lock", algorithm=_COMPARED, extends=True, nodes=1,
            downloads=_REDIS_PY, homepage="https://github.com/redis/redis-py"),
    Subject(name="redis-py-lock-async", lock="redis-py-lock-async", algorithm=_COMPARED, extends=True, nodes=1,
            downloads=_REDIS_PY, homepage="https://github.com/redis/redis-py"),
    Subject(name="python-redis-lock", lock="python-redis-lock", algorithm="SET NX EX, and a list that wakes waiters",
            extends=True, renews=True, nodes=1, downloads=_pypi(4_763),
            homepage="https://github.com/ionelmc/python-redis-lock"),
    Subject(name="redislock", lock="redislock", algorithm=_COMPARED, extends=True, nodes=1,
            homepage="https://github.com/bsm/redislock"),
    Subject(name="rueidislock", lock="rueidislock", algorithm="SET NX PX, with client-side caching", renews=True,
            nodes=1, homepage="https://github.com/redis/rueidis"),
    Subject(name="redisson-lock", lock="redisson-lock", algorithm="a hash that counts its owner's entries", renews=True,
            nodes=1, homepage="https://github.com/redisson/redisson"),
    Subject(name="redisson-fair-lock", lock="redisson-fair-lock", algorithm="the same, with a queue", renews=True,
            nodes=1, homepage="https://github.com/redisson/redisson"),
    Subject(name="redisson-fenced-lock", lock="redisson-fenced-lock", algorithm="the same, with a fencing token",
            has_tokens=True, renews=True, nodes=1, homepage="https://github.com/redisson/redisson"),
    Subject(name="sherlock", lock="sherlock", algorithm="SETNX and EXPIRE in a script", extends=True, nodes=1,
            homepage="https://github.com/py-sherlock/sherlock"),
    Subject(name="simple-redis-mutex", lock="simple-redis-mutex", algorithm=f"{_COMPARED}; then INCR for a token",
            has_tokens=True, nodes=1, downloads=_npm(65_546), homepage="https://github.com/AmrSaber/simple-redis-mutex"),
    Subject(name="ioredis-lock", lock="ioredis-lock", algorithm=_COMPARED, extends=True, nodes=1,
            downloads=_npm(23_846), homepage="https://github.com/microfleet/ioredis-lock"),
    Subject(name="go-zero", lock="go-zero", algorithm=_COMPARED, nodes=1,
            homepage="https://github.com/zeromicro/go-zero"),
    Subject(name="spring-integration", lock="spring-integration", algorithm="SET PX in a script that compares",
            extends=True, nodes=1, homepage="https://github.com/spring-projects/spring-integration"),
    Subject(name="spring-integration-pub-sub", lock="spring-integration-pub-sub", extends=True, nodes=1,
            algorithm="the same, and a message that wakes waiters",
            homepage="https://github.com/spring-projects/spring-integration"),
    Subject(name="shedlock", lock="shedlock", algorithm="SET NX PX, deleted without comparing", extends=True, nodes=1,
            homepage="https://github.com/lukas-krecan/ShedLock"),
    Subject(name="shedlock-safe-update", lock="shedlock-safe-update", algorithm=_COMPARED, extends=True, nodes=1,
            homepage="https://github.com/lukas-krecan/ShedLock"),
)  # fmt: skip


def released_of(library: Library) -> str:
    """The month of its newest release, as `2016-03`; empty where it is not known."""
    return "2015-12" if (library.name, library.language) == ("redlock", "python") else RELEASED.get(library.name, "")


def is_old(released: str, asked: str) -> bool:
    """Whether a release of that month is three years old on the date `asked`, as `2026-11-24`."""
    return bool(released and asked) and int(asked[:4]) * 12 + int(asked[5:7]) >= (
        int(released[:4]) + _OLD_YEARS
    ) * 12 + int(released[5:7])


def library_of(subject: Subject) -> Library:
    """From the lock's manifest; a lock without one is ours. Raises UsageError for a lock that does not exist."""
    manifest = find_lock(subject.lock).manifest
    if manifest is None:
        return Library(subject.name, "", "python")
    name, _, version = manifest.library.rpartition(" ")
    return Library(name, version.removeprefix("v"), manifest.language)


def tells_deadline(lock: str) -> bool:
    """Whether the lock of this name tells its user when a lease will be over."""
    manifest = find_lock(lock).manifest
    return manifest is not None and "deadline" in manifest.shows


def chosen(only: Collection[str], *, quick: bool) -> tuple[Subject, ...]:
    """The subjects of these names, in the table's order; if none is named, all of them, or those of the quick form.
    Raises UsageError."""
    known = [subject.name for subject in SUBJECTS]
    for name in only:
        if name not in known:
            listed = "see `fencepost survey --list`"
            raise UsageError(f"--only: no subject is called {name!r}{question(name, known, listed)}")
    return tuple(s for s in SUBJECTS if (s.name in only if only else s.is_quick or not quick))

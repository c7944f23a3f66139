"""Who is surveyed, as data. A library that is a lock of `workloads/locks/` is added here; nothing else needs an edit.

What the lock's own manifest says, its version and its language, is taken from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

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
_REDIS_PY: Final = _pypi(143)
_REDLOCK_NODE: Final = _npm(3_276_541)
_SESAMECARE: Final = _npm(454_723)
_UNIVERSAL: Final = _npm(70_204)
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
`released_of`: npm has a library of the same name. npm, Maven and the registries of Rust and PHP are not asked."""
_OLD_YEARS: Final = 3
"""A library without a release for so long is called unmaintained."""

_IN_TURN: Final = "Redlock, one node after the other"
_AT_ONCE: Final = "Redlock, all nodes at once"
_MAJORITY: Final = "Redlock, done as soon as a majority replied"
_LIMITED: Final = "the same, and ioredis gives up after 50 ms"
_COMPARED: Final = "SET NX PX, deleted by a script that compares"


def _subject(name: str, algorithm: str, project: str = "", **more: Any) -> Subject:
    """The lock of this name. `project`: on GitHub."""
    homepage = f"https://github.com/{project}" if project else ""
    return Subject(name=name, lock=name, algorithm=algorithm, homepage=homepage, **more)


SUBJECTS: Final = (
    _subject("redlock", "Redlock as its authors describe it", role="correct", extends=True, is_quick=True),
    _subject("redlock-renewing", "Redlock with a thread that renews", role="correct", extends=True, renews=True),
    _subject("redlock-token", "Redlock whose nodes count their grants", role="correct", has_tokens=True,
             known_broken=("tokens",), extends=True),
    _subject("control-quorum-of-two", "Redlock with two nodes as a quorum", role="broken", extends=True, is_quick=True),
    _subject("redlock-ng", _IN_TURN, "alwaysvivek/redlock-py", extends=True, is_quick=True),
    _subject("redlock-ng-async", _AT_ONCE, "alwaysvivek/redlock-py"),
    _subject("redlock-py", _IN_TURN, "SPSCommerce/redlock-py", downloads=_pypi(4_469), is_quick=True),
    _subject("redlock-pypi", _IN_TURN, "glasslion/redlock", downloads=_pypi(8_366)),
    _subject("pyredlock", _IN_TURN, "amazingchow/redlock-py", extends=True),
    _subject("pottery", _AT_ONCE, "brainix/pottery", extends=True, downloads=_POTTERY, is_quick=True),
    _subject("pottery-async", _AT_ONCE, "brainix/pottery", extends=True, downloads=_POTTERY),
    _subject("aioredlock", _AT_ONCE, "joanvila/aioredlock", extends=True, renews=True, downloads=_pypi(12_262)),
    _subject("redlock-node", _AT_ONCE, "mike-marcacci/node-redlock", extends=True, downloads=_REDLOCK_NODE,
             is_quick=True),
    _subject("redlock-node-timeouts", _LIMITED, "mike-marcacci/node-redlock", extends=True, downloads=_REDLOCK_NODE),
    _subject("redlock-node-5", _MAJORITY, "mike-marcacci/node-redlock", extends=True, renews=True,
             downloads=_REDLOCK_NODE),
    _subject("redlock-node-5-timeouts", _LIMITED, "mike-marcacci/node-redlock", extends=True, renews=True,
             downloads=_REDLOCK_NODE),
    _subject("sesamecare-redlock", _MAJORITY, "sesamecare/redlock", extends=True, renews=True, downloads=_SESAMECARE),
    _subject("sesamecare-redlock-timeouts", _LIMITED, "sesamecare/redlock", extends=True, renews=True,
             downloads=_SESAMECARE),
    _subject("redlock-universal", _AT_ONCE, "alexpota/redlock-universal", extends=True, renews=True,
             downloads=_UNIVERSAL),
    _subject("redis-semaphore", _AT_ONCE, "swarthy/redis-semaphore", renews=True, downloads=_REDIS_SEMAPHORE),
    _subject("redsync", _AT_ONCE, "go-redsync/redsync", extends=True),
    _subject("redsync-fail-fast", "the same, done as soon as a majority replied", "go-redsync/redsync", extends=True),
    _subject("redsync-context-timeouts", "the same, and go-redis obeys its time limits", "go-redsync/redsync",
             extends=True),
    _subject("redisson", "RedLock over an RLock of each node", "redisson/redisson"),
    _subject("symfony-lock-combined", "a majority of symfony-lock, one node after the other", "symfony/symfony",
             extends=True),
    _subject("rslock", _AT_ONCE, "hexcowboy/rslock", extends=True),
    _subject("set-nx-px", _COMPARED, role="correct", extends=True, nodes=1),
    _subject("set-nx-px-del", "SET NX PX, deleted with any owner", role="broken", extends=True, nodes=1),
    _subject("redis-semaphore-mutex", _COMPARED, "swarthy/redis-semaphore", renews=True, downloads=_REDIS_SEMAPHORE,
             nodes=1),
    _subject("redlock-universal-simple", _COMPARED, "alexpota/redlock-universal", extends=True, renews=True,
             downloads=_UNIVERSAL, nodes=1),
    _subject("node-redis-warlock", _COMPARED, "TheDeveloper/warlock", extends=True, downloads=_npm(135_217), nodes=1),
    _subject("redis-lock-node", "SET NX PX, deleted with any owner", "errorception/redis-lock", downloads=_npm(152_912),
             nodes=1),
    _subject("redis-py-lock", _COMPARED, "redis/redis-py", extends=True, downloads=_REDIS_PY, nodes=1),
    _subject("redis-py-lock-async", _COMPARED, "redis/redis-py", extends=True, downloads=_REDIS_PY, nodes=1),
    _subject("python-redis-lock", "SET NX EX, and a list that wakes waiters", "ionelmc/python-redis-lock",
             extends=True, renews=True, downloads=_pypi(4_763), nodes=1),
    _subject("redislock", _COMPARED, "bsm/redislock", extends=True, nodes=1),
    _subject("rueidislock", "SET NX PX, with client-side caching", "redis/rueidis", renews=True, nodes=1),
    _subject("redisson-lock", "a hash that counts its owner's entries", "redisson/redisson", renews=True, nodes=1),
    _subject("redisson-fair-lock", "the same, with a queue", "redisson/redisson", renews=True, nodes=1),
    _subject("redisson-fenced-lock", "the same, with a fencing token", "redisson/redisson", has_tokens=True,
             renews=True, nodes=1),
    _subject("sherlock", "SETNX and EXPIRE in a script", "py-sherlock/sherlock", extends=True, nodes=1),
    _subject("simple-redis-mutex", f"{_COMPARED}; then INCR for a token", "AmrSaber/simple-redis-mutex",
             has_tokens=True, downloads=_npm(65_546), nodes=1),
    _subject("ioredis-lock", _COMPARED, "microfleet/ioredis-lock", extends=True, downloads=_npm(23_846), nodes=1),
    _subject("go-zero", _COMPARED, "zeromicro/go-zero", nodes=1),
    _subject("laravel-cache-lock", "SET NX EX, deleted by a script that compares", "laravel/framework", nodes=1),
    _subject("symfony-lock", "a sorted set, which scripts compare and change", "symfony/symfony", extends=True,
             nodes=1),
    _subject("spring-integration", "SET PX in a script that compares", "spring-projects/spring-integration",
             extends=True, nodes=1),
    _subject("spring-integration-pub-sub", "the same, and a message that wakes waiters",
             "spring-projects/spring-integration", extends=True, nodes=1),
    _subject("shedlock", "SET NX PX, deleted without comparing", "lukas-krecan/ShedLock", extends=True, nodes=1),
    _subject("shedlock-safe-update", _COMPARED, "lukas-krecan/ShedLock", extends=True, nodes=1),
)  # fmt: skip


def released_of(library: Library) -> str:
    """The month of its newest release, as `2016-03`; empty where it is not known."""
    return "2015-12" if (library.name, library.language) == ("redlock", "python") else RELEASED.get(library.name, "")


def is_old(released: str, asked: str) -> bool:
    """Whether a release of that month is three years old on the date `asked`, as `2026-11-24`."""
    return bool(released and asked) and f"{int(released[:4]) + _OLD_YEARS}{released[4:]}" <= asked[:7]


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

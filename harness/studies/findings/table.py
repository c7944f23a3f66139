"""The commands of the published findings, as data: what shows each, and the same with the time to live (TTL) that the
library's own documentation shows or sets.

A finding of the survey (`results/survey/findings/NAME.md`) has its cells here under its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

TIGHT_TTL_MS: Final = 1_000
TIGHT: Final = f"tight: TTL {TIGHT_TTL_MS / 1000:g} s"
"""A TTL that is short, so that a fault of a second or two outlasts it."""


@dataclass(frozen=True, slots=True)
class Recommended:
    """`ttl_ms`: what the library's documentation shows, or its code sets if its user says nothing. `place`: where."""

    ttl_ms: int
    place: str

    @property
    def settings(self) -> str:
        return f"as documented: TTL {self.ttl_ms / 1000:g} s"


RECOMMENDED: Final[Mapping[str, Recommended]] = {
    "redlock-node": Recommended(1_000, "README, `var ttl = 1000`"),
    "redlock-node-timeouts": Recommended(1_000, "README, `var ttl = 1000`"),
    "redlock-node-5": Recommended(5_000, 'README, `redlock.acquire(["a"], 5000)`'),
    "redlock-node-5-timeouts": Recommended(5_000, 'README, `redlock.acquire(["a"], 5000)`'),
    "sesamecare-redlock": Recommended(5_000, 'README, `redlock.acquire(["a"], 5000)`'),
    "sesamecare-redlock-timeouts": Recommended(5_000, 'README, `redlock.acquire(["a"], 5000)`'),
    "redis-semaphore": Recommended(10_000, "README, the default of `lockTimeout`"),
    "redis-semaphore-mutex": Recommended(10_000, "README, the default of `lockTimeout`"),
    "redlock-universal": Recommended(30_000, "README, `ttl: 30000`"),
    "redlock-universal-simple": Recommended(30_000, "README, `ttl: 30000`"),
    "node-redis-warlock": Recommended(10_000, "README, `const ttl = 10000`"),
    "pottery-async": Recommended(10_000, "the default of `auto_release_time`"),
    "aioredlock": Recommended(10_000, "README, `lock_timeout=10`"),
    "redlock-py": Recommended(1_000, 'README, `dlm.lock("my_resource_name",1000)`'),
}


@dataclass(frozen=True, slots=True)
class Replay:
    """`finding`: its name. `kind`: of the judge's finding that each run must have, blamed on the lock. `nemesis`,
    `options`: of `fencepost test`; the faults' times are in TTLs where they have to outlast one. `slow`: the options
    that differ with the documented TTL; None: it is not played with that."""

    finding: str
    lock: str
    kind: str
    options: Mapping[str, str]
    slow: Mapping[str, str] | None = None


_OVERRUNS: Final = "late-reply-overruns-the-timeout"
_HELD: Final = {
    "clients": "8",  # so that a reply is under way when the hold begins
    "hold": "1ms",
    "duration": "15s",
    "nemesis": "partition:kind=hold,direction=from-node,interval=3ttl,duration=2ttl",
}


def _late(lock: str, *, nodes: str = "1") -> Replay:
    """Replies that are held for two TTLs."""
    return Replay("late-reply", lock, "late-grant", {"nodes": nodes, **_HELD}, {"duration": "6ttl"})


def _overruns(lock: str) -> Replay:
    return Replay(_OVERRUNS, lock, "acquire-overrun", {"nodes": "1", **_HELD, "duration": "60s"})


_UNANSWERED: Final = {"renewal": "100ms", "hold": "3s", "keys": "2", "clients": "3", "duration": "9s"}


def _unanswered(finding: str, lock: str, *, cut: str = "", nodes: str = "5") -> Replay:
    """One client's requests are dropped for three TTLs while the library renews its lease. `cut`: from which nodes."""
    where = f"targets={cut}," if cut else ""
    nemesis = f"partition:shape=one-client,{where}kind=drop,direction=both,interval=3s,duration=3s"
    options = _UNANSWERED | {"nodes": nodes} if nodes != "5" else _UNANSWERED
    return Replay(finding, lock, "lease-without-majority", options | {"nemesis": nemesis})


def _one_down(finding: str, lock: str, hold: str = "uniform:2ms-20ms") -> Replay:
    options = {"clients": "5", "duration": "10s", "hold": hold}
    crash = {"nemesis": "crash:targets=one,restart-delay=4ttl,interval=5s"}
    return Replay(finding, lock, "unavailable-while-free", options | crash, {"duration": "6ttl"})


def _one_hung(finding: str, lock: str, duration: str = "10s") -> Replay:
    options = {"clients": "5", "duration": duration, "hold": "uniform:2ms-20ms"}
    hung = {"nemesis": "pause:targets=one-node,duration=7ttl"}
    return Replay(finding, lock, "unavailable-while-free", options | hung, {"duration": "8ttl"})


def _renewing(finding: str, lock: str, slow: Mapping[str, str] | None = None) -> Replay:
    """One of five servers is stopped while holders let the library renew their leases."""
    options = {"clients": "4", "keys": "2", "renewal": "100ms", "hold": "4s", "duration": "8s"}
    hung = {"nemesis": "pause:targets=n5,duration=6s"}
    return Replay(finding, lock, "lease-without-majority", options | hung, slow)


@dataclass(frozen=True, slots=True)
class AlsoShown:
    """A finding that the runs of another one (`of`) show, too."""

    finding: str
    of: str
    locks: tuple[str, ...]
    kind: str


ALSO_SHOWN: Final = (
    AlsoShown(_OVERRUNS, "late-reply",
              ("redis-py-lock", "redis-py-lock-async", "redisson-lock", "redisson"), "acquire-overrun"),
    AlsoShown("late-reply", _OVERRUNS, ("redisson-fenced-lock",), "late-grant"),
    AlsoShown("sesamecare-redlock-one-server-hung", "sesamecare-redlock-waits-for-the-hung-server",
              ("sesamecare-redlock",), "unavailable-while-free"),
    AlsoShown("redlock-node-failed-extension-loses-the-lease", "redlock-node-failed-extension-releases",
              ("redlock-node-timeouts",), "lease-without-majority"),
)  # fmt: skip

PUBLISHED_AS: Final[Mapping[str, str]] = {
    f"{lock}-one-server-hung": f"{lock}-one-server-down"
    for lock in ("redlock-py", "redlock-pypi", "pottery-async", "redlock-node")
}
"""The findings that are told in the text of another one: a lock that waits for a server waits for one that is down and
for one that hangs."""

_PARTITIONED: Final = {"clients": "5", "duration": "10s", "hold": "uniform:500ms-1500ms", "extend": "3"}
_NO_FAULT: Final = {"nemesis": "none", "clients": "5", "duration": "10s", "hold": "uniform:2ms-20ms"}

REPLAYS: Final = (
    _late("redis-py-lock"),
    _late("redis-py-lock-async"),
    _late("node-redis-warlock"),
    _late("redis-semaphore-mutex"),
    _late("redislock"),
    _late("redisson-lock"),
    _late("redis-semaphore", nodes="5"),
    _late("redisson", nodes="5"),
    _overruns("redisson-fair-lock"),
    _overruns("redisson-fenced-lock"),
    Replay("redlock-node-5-late-grant", "redlock-node-5", "late-grant", _NO_FAULT, {}),
    Replay("redlock-node-5-late-grant", "redlock-node-5-timeouts", "late-grant", _NO_FAULT, {}),
    Replay("redlock-node-5-split-votes", "redlock-node-5", "unavailable-while-free", _NO_FAULT, {}),
    Replay("sesamecare-redlock-split-votes", "sesamecare-redlock", "unavailable-while-free", _NO_FAULT, {}),
    Replay("aioredlock-split-votes", "aioredlock", "unavailable-while-free", _NO_FAULT, {}),
    _one_down("redlock-py-one-server-down", "redlock-py"),
    _one_down("redlock-pypi-one-server-down", "redlock-pypi"),
    _one_down("pottery-async-one-server-down", "pottery-async"),
    _one_down("redlock-node-one-server-down", "redlock-node", "uniform:300ms-900ms"),
    _one_hung("redsync-one-server-hung", "redsync"),
    _one_hung("redisson-redlock-one-server-down", "redisson"),
    _one_hung("redlock-py-one-server-hung", "redlock-py", "30s"),
    _one_hung("redlock-pypi-one-server-hung", "redlock-pypi"),
    _one_hung("pottery-async-one-server-hung", "pottery-async"),
    _one_hung("redlock-node-one-server-hung", "redlock-node"),
    Replay("sesamecare-redlock-waits-for-the-hung-server", "sesamecare-redlock", "late-grant",
           {"nemesis": "pause:targets=one-node,duration=7ttl", "clients": "8", "duration": "60s",
            "hold": "uniform:2ms-20ms"}),
    _renewing("redis-semaphore-refresh-waits-for-every-node", "redis-semaphore",
              {"hold": "4ttl", "duration": "6ttl", "nemesis": "pause:targets=n5,duration=4ttl"}),
    _renewing("redlock-universal-extension-waits-for-every-node", "redlock-universal"),
    Replay("aioredlock-valid-after-expiry", "aioredlock", "lease-without-majority",
           {"nemesis": "partition", "renewal": "100ms", "hold": "1200ms", "clients": "4", "duration": "60s"}),
    _unanswered("sesamecare-redlock-using-is-not-aborted", "sesamecare-redlock", cut="n3,n4,n5"),
    _unanswered("sesamecare-redlock-using-is-not-aborted", "redlock-node-5-timeouts", cut="n3,n4,n5"),
    _unanswered("unanswered-renewal-keeps-the-lease", "redis-semaphore-mutex", nodes="1"),
    _unanswered("unanswered-renewal-keeps-the-lease", "redlock-universal-simple", nodes="1"),
    Replay("python-redis-lock-timeout-begins-anew", "python-redis-lock", "acquire-overrun",
           {"nodes": "1", "clients": "8", "hold": "uniform:100ms-500ms", "duration": "40s", "nemesis": "none"}),
    Replay("redlock-node-failed-extension-releases", "redlock-node-timeouts", "overlap",
           _PARTITIONED | {"nemesis": "partition:interval=2s,duration=1s,kind=drop,direction=from-node"}),
    Replay("redlock-node-failed-extension-loses-the-lease", "rslock", "lease-without-majority",
           _PARTITIONED | {"nemesis": "partition:interval=700ms,duration=300ms,kind=drop,direction=from-node",
                           "duration": "15s"}),
    Replay("rslock-failed-extension-releases", "rslock", "overlap",
           _PARTITIONED | {"nemesis": "partition:interval=2s,duration=1s"}),
    Replay("redisson-lock-timed-out-attempt-counts", "redisson-lock", "release-without-effect",
           {"nodes": "1", "nemesis": "pause:targets=one-node,duration=7ttl", "clients": "5", "duration": "10s",
            "hold": "uniform:300ms-900ms"}),
)  # fmt: skip

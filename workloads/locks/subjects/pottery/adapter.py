"""pottery, through a new `Redlock(key=…, masters={…}, auto_release_time=…)` for every acquire, as its README advises.

Its own defaults hold. Its faults are what is tested: nothing is mended here.

`acquire` says only yes or no; what pottery *tells* of the validity is `locked()`, asked right after it: the seconds
that are left. It uses threads, so the bounds of that moment are stamps right before and after `locked()`.
"""

import sys
import time
from importlib.metadata import version
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

import redis
from jsonl import Answer, Nodes, Settings, describe_redis, fail, info, ok, serve, warm_up
from pottery import ExtendUnlockedLock, Redlock, ReleaseUnlockedLock, TooManyExtensions

ACQUIRE_TIMEOUT_S = 1.0
"""The only setting that is ours: by default `acquire` waits without end, and a client must come back to be asked to
stop. The library looks at it only between its tries."""


class Pottery:
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        del settings  # the library's own timeouts and delays are part of what is tested
        self._masters = frozenset(redis.Redis(host=node["host"], port=node["port"]) for node in nodes)
        warm_up(self._masters)
        self._held = {}
        self._granted = 0

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        lock = Redlock(key=key, masters=self._masters, auto_release_time=ttl_ms / 1000)
        if not lock.acquire(timeout=ACQUIRE_TIMEOUT_S):
            return fail()
        self._granted += 1
        value = str(self._granted)  # the library keeps its unique value to itself
        self._held[value] = lock
        return ok(value=value, **_left(lock))

    def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        """pottery extends by the time that the lock was made with, whatever is asked for here."""
        del key, ttl_ms
        lock = self._held[value]
        try:
            lock.extend()
        except TooManyExtensions as error:
            return fail(error)
        except ExtendUnlockedLock as error:
            return info(error) if error.redis_errors else fail(error)
        return ok(value=value, **_left(lock))

    def release(self, key: str, value: str) -> Answer:
        del key
        try:
            self._held.pop(value).release()
        except ReleaseUnlockedLock as error:
            return info(error) if error.redis_errors else fail(error)
        return ok()

    def describe(self) -> Answer:
        return {
            "library": "pottery " + version("pottery"),
            "acquire_timeout_s": ACQUIRE_TIMEOUT_S,
            "retry_delay_max_s": Redlock._RETRY_DELAY,
            "extensions_max": Redlock._NUM_EXTENSIONS,
            **describe_redis(next(iter(self._masters))),
        }


def _left(lock: Redlock) -> dict[str, float]:
    before_ns = time.monotonic_ns()
    left_s = lock.locked()
    return {
        "validity_ms": left_s * 1000,
        "computed_after_ns": before_ns,
        "computed_before_ns": time.monotonic_ns(),
    }


serve(Pottery)

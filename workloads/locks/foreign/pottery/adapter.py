"""pottery, with a new `Redlock(key=…, masters={…}, auto_release_time=…)` for every acquire, as its README advises.

It uses the library's own defaults. The library's bugs are part of what is tested: nothing is fixed here.

`acquire` returns only yes or no. A yes guarantees the lock for `auto_release_time`, less the library's allowance for
drift, counted from some time within the call. The adapter reports that validity, with the start and end of the call as
bounds. To keep them tight, each call is one attempt, and the library's own retry loop with its random delay is repeated
here. `locked()` would return the remaining time, but it asks all nodes again: the answer would be about a later time,
and a user who only acquires does not pay that cost.
"""

import random
import time
from importlib.metadata import version

import redis
from fencepost_adapter import Answer, Nodes, Settings, describe_redis, fail, info, ok, serve, warm_up
from pottery import ExtendUnlockedLock, Redlock, ReleaseUnlockedLock, TooManyExtensions

ACQUIRE_TIMEOUT_S = 1.0
"""The only setting of ours: by default `acquire` waits forever, and a client must return to notice a request to stop.
It is checked only between attempts."""


class Pottery:
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        del settings  # the library's own timeouts and delays are part of what is tested
        self._masters = frozenset(redis.Redis(host=node["host"], port=node["port"]) for node in nodes)
        warm_up(self._masters)
        self._held = {}

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        lock = Redlock(key=key, masters=self._masters, auto_release_time=ttl_ms / 1000)
        give_up_s = time.monotonic() + ACQUIRE_TIMEOUT_S
        while True:
            before_ns = time.monotonic_ns()
            if lock.acquire(blocking=False):
                break
            if time.monotonic() >= give_up_s:
                return fail()
            time.sleep(random.uniform(0, Redlock._RETRY_DELAY))
        told = _vouched_for(lock, before_ns)
        value = lock._uuid  # the library does not expose its unique value, but everybody can see it on the nodes
        self._held[value] = lock
        return ok(value=value, **told)

    def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        """pottery extends by the time with which the lock was created, whatever TTL is requested here."""
        del key, ttl_ms
        lock = self._held[value]
        before_ns = time.monotonic_ns()
        try:
            lock.extend()
        except TooManyExtensions as error:
            return fail(error)
        except ExtendUnlockedLock as error:
            return info(error) if error.redis_errors else fail(error)
        return ok(value=value, **_vouched_for(lock, before_ns))

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
            "acquire_limit_ms": ACQUIRE_TIMEOUT_S * 1000,
            "retry_delay_max_s": Redlock._RETRY_DELAY,
            "extensions_max": Redlock._NUM_EXTENSIONS,
            **describe_redis(next(iter(self._masters))),
        }


def _vouched_for(lock: Redlock, before_ns: int) -> dict[str, float]:
    drift_s = lock.auto_release_time * Redlock._CLOCK_DRIFT_FACTOR + 0.002
    return {
        "validity_ms": (lock.auto_release_time - drift_s) * 1000,
        "computed_after_ns": before_ns,
        "computed_before_ns": time.monotonic_ns(),
    }


serve(Pottery)

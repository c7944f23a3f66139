"""pottery, with a new `Redlock(key=…, masters={…}, auto_release_time=…)` for every acquire, as its README advises.

It uses the library's own defaults. The library's bugs are part of what is tested: nothing is fixed here.

`acquire` and `extend` return only yes or no, so the adapter tells no validity: a yes is good for `auto_release_time`,
counted from some time between the start and the end of the call. To keep these two close, each call is one attempt, and
the library's own retry loop with its random delay is repeated here. `locked()` would return the remaining time, but it
asks all nodes again: the answer would be about a later time, and a user who only acquires does not pay that cost.
"""

import random
import time
from importlib.metadata import version

import redis
from fencepost_adapter import Answer, Nodes, Settings, describe_redis, fail, info, ok, serve, warm_up
from pottery import ExtendUnlockedLock, Redlock, ReleaseUnlockedLock, TooManyExtensions

ACQUIRE_TIMEOUT_S = 1.0
"""The only setting of ours: by default `acquire` waits forever, and a client must return to notice a request to stop.
It is checked only between attempts, and the library is not told of it, so it is not held to that."""


class Pottery:
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        del settings  # the library's own timeouts and delays are part of what is tested
        self._masters = frozenset(
            redis.Redis(host=node["host"], port=node["port"], password=node.get("password")) for node in nodes
        )
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
        after_ns = time.monotonic_ns()
        value = lock._uuid  # the library does not expose its unique value, but everybody can see it on the nodes
        self._held[value] = lock
        return ok(value=value, computed_after_ns=before_ns, computed_before_ns=after_ns)

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
        return ok(value=value, computed_after_ns=before_ns, computed_before_ns=time.monotonic_ns())

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
            "attempts_for_s": ACQUIRE_TIMEOUT_S,
            "retry_delay_max_s": Redlock._RETRY_DELAY,
            "extensions_max": Redlock._NUM_EXTENSIONS,
            **describe_redis(next(iter(self._masters))),
        }


serve(Pottery)

"""Mutants that send the nodes a wrong request."""

from __future__ import annotations

from workloads.connection import pack
from workloads.locks.redlock import Redlock
from workloads.mutants.declared import mutant


@mutant(
    "overwrites after an error",
    "SET only if the key does not exist (NX), even in a second attempt",
    conditions="busy",
    nemesis="partition",
    finding="overlap",
)
class OverwritesAfterAnError(Redlock):
    """While some node has not replied to the last request, it sets the key regardless of its owner."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        if self._pool.owing:
            return pack("SET", key, value, "PX", ttl_ms)
        return super().acquire_request(key, value, ttl_ms)


@mutant(
    "seconds for milliseconds",
    "PX takes milliseconds",
    conditions="busy",
    nemesis="partition",
    finding="overlap",
)
class SecondsForMilliseconds(Redlock):
    """The keys expire a thousand times too early."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return super().acquire_request(key, value, max(1, ttl_ms // 1000))


@mutant(
    "milliseconds for seconds",
    "EX takes seconds",
    conditions="alone",
    nemesis="crash",
    finding="refused-alone",
    liveness=True,
)
class ExpiresInSeconds(Redlock):
    """The keys that a client leaves behind when it dies or is cut off block all others for a thousand leases."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("SET", key, value, "NX", "EX", ttl_ms)

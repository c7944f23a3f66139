"""A control: a session's lock through a pool that resets a connection when it is given back, as several pools do. Each
call borrows one, so the lock is gone when `acquire` returns, and the lock says yes to everything."""

from adapter import Advisory
from fencepost_adapter import Answer, ok, serve


class Pooled(Advisory):
    def acquire(self, key: str, ttl_ms: int) -> Answer:
        answer = super().acquire(key, ttl_ms)
        self._lock.ask("SELECT pg_advisory_unlock_all()")
        return answer

    def release(self, key: str, value: str) -> Answer:
        super().release(key, value)
        return ok()


serve(Pooled)

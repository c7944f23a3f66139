"""A control: etcd's lock for a client that takes it for held until it releases it, and never looks whether its session,
the lease, has ended."""

from adapter import Lock
from fencepost_adapter import Answer, ok, serve


class Endless(Lock):
    def acquire(self, key: str, ttl_ms: int) -> Answer:
        answer = super().acquire(key, ttl_ms)
        return ok(value=answer["value"], open_ended=True) if answer["outcome"] == "ok" else answer

    def release(self, key: str, value: str) -> Answer:
        super().release(key, value)
        return ok()


serve(Endless)

"""A control: a lock whose connection opens anew by itself, as many drivers and pools do. The session that held the lock
is gone then, and the client works on as if it still had it: the release says yes, whatever the server answers."""

from adapter import Advisory
from fencepost_adapter import Answer, ok, serve


class Reconnecting(Advisory):
    def release(self, key: str, value: str) -> Answer:
        try:
            self._unlock(key)
        except Exception:
            self._unlock(key)  # in a new session
        return ok()

    def _unlock(self, key: str) -> None:
        self._lock.ask("SELECT pg_advisory_unlock(hashtext($1))", key)


serve(Reconnecting)

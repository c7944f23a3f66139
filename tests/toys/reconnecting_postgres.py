"""A control: a lock whose connection opens anew by itself, as many drivers and pools do. The session that held the lock
is gone then, and the client works on as if it still had it: as soon as the server is back, the release says yes,
whatever the server answers."""

import time

from adapter import Advisory
from fencepost_adapter import Answer, ok, serve

EVERY_S = 0.05


class Reconnecting(Advisory):
    def release(self, key: str, value: str) -> Answer:
        while not self._is_unlocked(key):
            time.sleep(EVERY_S)
        return ok()

    def _is_unlocked(self, key: str) -> bool:
        """False while no session can be opened."""
        try:
            self._lock.ask("SELECT pg_advisory_unlock(hashtext($1))", key)
        except Exception:
            return False
        return True


serve(Reconnecting)

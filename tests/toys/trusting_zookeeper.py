"""A control: kazoo's Lock for a client that asks the library alone whether it holds it. `is_acquired` stays True when
the session was lost, and `release` returns True then, too."""

from adapter import Lock
from fencepost_adapter import Answer, fail, ok, serve


class Trusting(Lock):
    def held(self, key: str, value: str) -> Answer:
        del key
        return ok() if self._held[value].is_acquired else fail("not acquired")

    def release(self, key: str, value: str) -> Answer:
        del key
        return ok() if self._held.pop(value).release() else fail("not acquired")


serve(Trusting)

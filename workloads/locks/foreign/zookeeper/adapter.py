"""kazoo's Lock: an ephemeral node in a queue, which ZooKeeper deletes when the session of its client ends.

acquire   `Lock.acquire`, which waits in the queue for as long as `HELD_S`
held      asks the server whether the lock's node is still there
release   deletes that node

`Lock.is_acquired` stays True when the session was lost, and `Lock.release` returns True then, too. So neither is asked:
the node of a lease belongs to one session, and a lease whose node the server no longer has is not held. Its creation
(czxid) is the token.
"""

import time
from importlib.metadata import version

from fencepost_adapter import WARM_UP_S, Answer, Nodes, Settings, fail, ok, serve
from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    LockTimeout,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)

HELD_S = 0.4
AGAIN_S = 0.05
INTERRUPTED = (ConnectionLoss, ConnectionClosedError, OperationTimeoutError)
"""It is not known whether the server did it."""


class Lock:
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        self._client = KazooClient(",".join(node["url"] for node in nodes), timeout=settings["ttl_ms"] / 1000)
        self._client.start_async().wait(WARM_UP_S)
        self._held = {}
        self._stray = []
        """Attempts whose node may still be in the queue."""

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        del ttl_ms
        if not self._client.connected:
            return fail("there is no connection")
        while self._stray:
            self._clear(self._stray[-1])
            self._stray.pop()
        lock = self._client.Lock(f"/locks/{key}")
        self._stray.append(lock)
        try:
            if not lock.acquire(timeout=HELD_S):
                raise OperationTimeoutError("no answer in time")
        except LockTimeout:
            return fail("another client holds it")
        stat = self._client.exists(f"{lock.path}/{lock.node}")
        if stat is None:
            return fail("the session ended")
        self._stray.remove(lock)
        value = f"{stat.ephemeralOwner:x}/{lock.node}"
        self._held[value] = lock
        return ok(value=value, token=stat.czxid, open_ended=True)

    def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        del key, value, ttl_ms
        return fail("no time is promised that could be extended")

    def held(self, key: str, value: str) -> Answer:
        del key
        lock = self._held[value]
        if not self._client.connected:
            raise ConnectionLoss("there is no connection")
        self._client.sync(lock.path)
        return ok() if self._client.exists(f"{lock.path}/{lock.node}") else fail("the session has ended")

    def release(self, key: str, value: str) -> Answer:
        del key
        lock = self._held.pop(value)
        self._stray.append(lock)
        answer = self._delete(f"{lock.path}/{lock.node}")
        self._stray.remove(lock)
        return answer

    def describe(self) -> Answer:
        return {"library": "kazoo " + version("kazoo"), "waits_s": HELD_S}

    def _delete(self, path: str) -> Answer:
        is_first = True
        while True:
            try:
                self._client.delete(path)
            except NoNodeError:
                if is_first:
                    return fail("the session has ended")
                raise  # by this release, or with the session
            except SessionExpiredError:
                return fail("the session has ended")
            except INTERRUPTED:
                is_first = False
                time.sleep(AGAIN_S)
            else:
                return ok()

    def _clear(self, lock: object) -> None:
        """Delete the node of an attempt that may have left one."""
        try:
            left = [name for name in self._client.get_children(lock.path) if name.startswith(lock.prefix)]
        except NoNodeError:
            return
        for name in left:
            self._delete(f"{lock.path}/{name}")


if __name__ == "__main__":
    serve(Lock)

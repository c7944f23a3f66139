"""etcd's lock service through the JSON gateway of its members, without a client library.

acquire   lease/grant, then lock/lock with the lease, which waits in etcd's queue for as long as `HELD_S`
extend    lease/keepalive, once
release   lease/revoke: it deletes the lock's key

etcd grants leases in whole seconds, and no shorter than 2 s with its usual election time-out. The lease counts from
before the request that granted or renewed it. Its lock service may answer after the lease has ended, so it is asked
again for how long the lease lives before the answer is yes.
"""

import base64
import contextlib
import http.client
import json
import math
import time
from urllib.parse import urlsplit

from fencepost_adapter import Answer, Nodes, Settings, fail, ok, serve

ANSWER_S = 1.0
HELD_S = 0.4


class NotServedError(Exception):
    """etcd answered with an error."""


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Etcd:
    """One connection, to one member after the other: the next one is asked after an error, or without an answer."""

    def __init__(self, nodes: Nodes) -> None:
        self._addresses = [urlsplit(node["url"]) for node in nodes]
        self._turn = 0
        self._connection = None

    def ask(self, path: str, body: "dict[str, object]", within_s: float = ANSWER_S) -> "dict[str, object]":
        """Raises what kept it from an answer; it is not known then whether it happened."""
        address = self._addresses[self._turn % len(self._addresses)]
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(address.hostname, address.port)
            self._connection.timeout = within_s
            if self._connection.sock is not None:
                self._connection.sock.settimeout(within_s)
            self._connection.request("POST", f"/v3/{path}", json.dumps(body))
            response = self._connection.getresponse()
            answer = json.loads(response.read())
        except BaseException:
            self.leave()
            raise
        if response.status != http.client.OK:
            self.leave()
            raise NotServedError(f"{path}: {answer}")
        return answer

    def leave(self, *, for_another: bool = True) -> None:
        """Close the connection, with which etcd ends what it does for it."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._turn += for_another


class Lock:
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        del settings
        self._etcd = Etcd(nodes)
        for _ in nodes:
            with contextlib.suppress(Exception):
                self._etcd.ask("kv/range", {"key": coded("warm-up")})
                break

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        lease = self._etcd.ask("lease/grant", {"TTL": math.ceil(ttl_ms / 1000)})["ID"]
        try:
            locked = self._etcd.ask("lock/lock", {"name": coded(key), "lease": lease}, HELD_S)
        except TimeoutError:
            self._give_up(lease)
            return fail("another client holds it")
        except NotServedError as error:
            self._give_up(lease)
            return fail(error)
        answer = self._renewed(lease)
        return {**answer, "token": int(locked["header"]["revision"])} if answer["outcome"] == "ok" else answer

    def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        del key, ttl_ms
        return self._renewed(value)

    def release(self, key: str, value: str) -> Answer:
        del key
        try:
            self._etcd.ask("lease/revoke", {"ID": value})
        except NotServedError as error:
            if "not found" in str(error):
                return fail("the lease has ended")
            raise
        return ok()

    def describe(self) -> Answer:
        return {"library": "etcd's JSON gateway", "answer_within_s": ANSWER_S, "waits_s": HELD_S}

    def _renewed(self, lease: str) -> Answer:
        before_ns = time.monotonic_ns()
        left_s = int(self._etcd.ask("lease/keepalive", {"ID": lease})["result"].get("TTL", 0))
        if left_s <= 0:
            return fail("the lease has ended")
        validity_ms = left_s * 1000
        return ok(value=lease, granted_ms=validity_ms, deadline_ns=before_ns + validity_ms * 1_000_000)

    def _give_up(self, lease: str) -> None:
        """The waiting request ends with its connection, and its key with the lease: at the latest by itself."""
        self._etcd.leave(for_another=False)
        try:
            self._etcd.ask("lease/revoke", {"ID": lease})
        except Exception:
            return


if __name__ == "__main__":
    serve(Lock)

"""A client of etcd's lock service alone: it waits until that says yes, renews its lease from then on, and believes what
it is told. etcd 3.4 says yes to a client whose lease has ended while it waited."""

import contextlib
import math
import threading

from adapter import Lock, coded
from fencepost_adapter import Answer, Nodes, Settings, ok, serve

WAITS_S = 6.0
RENEWS_S = 0.5


class Waiting(Lock):
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        super().__init__(nodes, settings)
        self._renewing = Lock(nodes, settings)
        self._ends = {}

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        lease = self._etcd.ask("lease/grant", {"TTL": math.ceil(ttl_ms / 1000)})["ID"]
        locked = self._etcd.ask("lock/lock", {"name": coded(key), "lease": lease}, WAITS_S)
        self._ends[locked["key"]] = end = threading.Event()
        threading.Thread(target=self._renew, args=(lease, end), daemon=True).start()
        return ok(value=locked["key"], open_ended=True)

    def release(self, key: str, value: str) -> Answer:
        self._ends.pop(value).set()
        self._etcd.ask("lock/unlock", {"key": value})
        return ok()

    def _renew(self, lease: str, end: threading.Event) -> None:
        while not end.is_set():
            with contextlib.suppress(Exception):
                self._renewing.extend("", lease, 0)
            end.wait(RENEWS_S)


serve(Waiting)

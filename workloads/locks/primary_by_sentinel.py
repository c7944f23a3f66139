"""SET NX PX on the node that Redis Sentinel names as the primary.

Every round begins with the question who the primary is, put to one sentinel after the other until one knows, as client
libraries do it. Replication is asynchronous, so what the old primary granted, the new one may not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel

from workloads.base import LockSettings, NodeAddress
from workloads.connection import SILENT, Reply
from workloads.locks.primary_replica import PrimaryReplica

GROUP: Final = "fencepost"
"""What the sentinels call the primary and its replicas."""


class PrimaryBySentinel(PrimaryReplica):
    """Asks the primary alone. Raises ValueError if there are no sentinels."""

    ASKS_SENTINELS: ClassVar[bool] = True

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        if not settings.sentinels:
            raise ValueError("this lock asks sentinels where the primary is, and there are none")
        super().__init__(nodes, settings)
        self._places = {node.known_as: place for place, node in enumerate(nodes)}
        timeout_s = settings.node_timeout_ms / 1e3
        self._sentinel: Sentinel = Sentinel(  # type: ignore[no-untyped-call]
            [(sentinel.host, sentinel.port) for sentinel in settings.sentinels],
            sentinel_kwargs={
                "password": settings.sentinels[0].password,
                "socket_timeout": timeout_s,
                "socket_connect_timeout": timeout_s,
                "retry": Retry(NoBackoff(), 0),
            },
        )

    def ask_to_release(self, request: bytes, patient: bool) -> list[Reply]:
        return self._ask_primary(request, patient)

    def acquire_limit_ms(self) -> float:
        """Every round puts two requests to the primary, and asks the sentinels before each."""
        asking_ms = 2 * len(self._settings.sentinels) * self._settings.node_timeout_ms
        return super().acquire_limit_ms() + self.ROUNDS * asking_ms

    def close(self) -> None:
        super().close()
        for sentinel in self._sentinel.sentinels:
            sentinel.close()

    def _ask(self, request: bytes) -> list[Reply]:
        return self._ask_primary(request)

    def _ask_primary(self, request: bytes, patient: bool = True) -> list[Reply]:
        """The primary's reply; silence if no sentinel names one of the nodes."""
        try:
            place = self._places.get(self._sentinel.discover_master(GROUP))  # type: ignore[no-untyped-call]
        except RedisError:
            place = None
        return [SILENT] if place is None else self._pool.ask(request, only=place, patient=patient)


LOCK = PrimaryBySentinel

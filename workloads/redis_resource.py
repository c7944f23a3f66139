"""The resource of a run: a Redis with fsync=always that nobody else uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import monotonic, sleep
from typing import Final, cast

import msgspec
from redis import Redis
from redis.backoff import NoBackoff
from redis.commands.core import Script
from redis.exceptions import ConnectionError, ResponseError, TimeoutError
from redis.retry import Retry

from fencepost.errors import BrokenEnvironmentError
from fencepost.history import Write
from workloads.resource import ACCEPTED, STALE, StaleAccessError

WARM_UP_S: Final = 25.0
_decode = msgspec.json.Decoder(Write).decode


class RedisResource:
    """`workloads.resource.Resource` over one connection."""

    def __init__(self, host: str, port: int, password: str | None, timeout_ms: float) -> None:
        self._redis = Redis(
            host=host,
            port=port,
            password=password,
            socket_timeout=timeout_ms / 1000,
            socket_connect_timeout=timeout_ms / 1000,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )
        self._scripts: dict[str, Script] = {}

    def warm_up(self, scripts: Iterable[str]) -> None:
        """Connect and load the scripts, so that no section pays for it. Many clients start at the same time, so there
        is time for it. Raises BrokenEnvironmentError if the resource does not answer."""
        deadline_s = monotonic() + WARM_UP_S
        while True:
            try:
                self._redis.ping()
                for script in scripts:
                    self._redis.script_load(script)
            except (ConnectionError, TimeoutError) as error:
                if monotonic() >= deadline_s:
                    raise BrokenEnvironmentError(
                        f"the resource does not answer within {WARM_UP_S:g} s: {error}"
                    ) from error
                sleep(0.05)  # a refused connection fails at once
            else:
                return

    def run(self, script: str, keys: Sequence[str], args: Sequence[object]) -> object:
        if script not in self._scripts:
            self._scripts[script] = self._redis.register_script(script)
        try:
            reply: object = self._scripts[script](keys=list(keys), args=cast(list[str], args))
        except ResponseError as error:
            if str(error).startswith(STALE):
                raise StaleAccessError(str(error)) from None
            raise
        return reply

    def accepted_since(self, count: int) -> list[Write]:
        """The accepted writes after the first `count` ones, oldest first."""
        return [_decode(line) for line in cast(list[str], self._redis.lrange(ACCEPTED, count, -1))]

    def close(self) -> None:
        self._redis.close()

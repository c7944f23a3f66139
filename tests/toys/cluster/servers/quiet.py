"""A toy server: a Redis that says that it has no key events and no clean shutdown, and whose locks use database 3."""

from __future__ import annotations

from cluster.server import Place
from cluster.servers.redis import RedisServer


class Quiet(RedisServer):
    def arguments(self, place: Place) -> list[str]:
        return [*super().arguments(place), "--databases", "4"]

    def url(self, host: str, port: int, password: str | None = None) -> str:
        return super().url(host, port, password).removesuffix("0") + "3"


SERVER = Quiet(
    name="quiet",
    help="a Redis that says that it has no key events",
    product="Redis",
    version_field="redis_version",
    programs=("redis-server",),
    policies=("none", "aof-always"),
    shut_down=None,
    key_events=None,
)

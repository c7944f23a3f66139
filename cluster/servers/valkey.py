"""Valkey, the continuation of Redis 7.2 under a free licence. Its client libraries take `redis://` addresses too."""

from __future__ import annotations

from cluster.servers.redis import RedisServer

SERVER = RedisServer(
    name="valkey",
    product="Valkey",
    # It reports the version of Redis that it is compatible with as well, as redis_version.
    version_field="valkey_version",
    programs=("valkey-server",),
)

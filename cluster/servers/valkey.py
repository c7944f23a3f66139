"""Valkey, which descends from Redis 7.2. Libraries for Redis work with it, so locks dial `redis://` addresses."""

from __future__ import annotations

from cluster.servers.redis import RedisServer

SERVER = RedisServer(
    name="valkey",
    help="Valkey, the continuation of Redis 7.2 under a free licence",
    product="Valkey",
    # It reports the version of Redis that it is compatible with as well, as redis_version.
    version_field="valkey_version",
    programs=("valkey-server",),
)

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from cluster.programs import find_server
from tests.locks.conftest import free_port
from workloads.redis_resource import RedisResource


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A real redis-server with fsync=always, as the resource is."""
    folder: Path = tmp_path_factory.mktemp("resource")
    port = free_port()
    arguments = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    policy = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
    server = subprocess.Popen([find_server("redis").path, *arguments, *policy], stdout=subprocess.DEVNULL)
    client = Redis(port=port, host="127.0.0.1")
    try:
        while True:
            try:
                client.ping()
                break
            except RedisConnectionError:
                assert server.poll() is None, "redis-server ended"
        yield port
    finally:
        client.close()
        server.kill()
        server.wait()


@pytest.fixture
def resource(redis_port: int) -> Iterator[RedisResource]:
    with Redis(host="127.0.0.1", port=redis_port) as client:
        client.flushall()
    resource = RedisResource("127.0.0.1", redis_port, None, timeout_ms=2_000)
    yield resource
    resource.close()

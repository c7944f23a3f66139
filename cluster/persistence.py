"""What a server keeps on disk. What a policy means in its configuration, the server says (`cluster/server.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

Policy = Literal["none", "rdb", "aof-no", "aof-everysec", "aof-always"]
"""What survives on disk.

`none`          nothing: a restarted node is empty.
`rdb`           a snapshot a second after a change (the shortest that a server offers), and one at a clean stop.
`aof-no`        an append-only file; the kernel decides when it reaches the disk.
`aof-everysec`  fsynced about once a second.
`aof-always`    fsynced before each reply.
"""


POLICIES: tuple[Policy, ...] = get_args(Policy)

FileSystem = Literal["ext4", "xfs"]
"""What a disk whose power can be cut (`cluster.disk`) is formatted with."""

FILE_SYSTEMS: tuple[FileSystem, ...] = get_args(FileSystem)


def mismatch(wanted: Iterable[tuple[str, str]], effective: Mapping[str, str]) -> str | None:
    """How the effective configuration differs from the settings of a policy, in one line; None if it does not."""
    wrong = (
        f"{name} is {effective.get(name)!r}, not {value!r}" for name, value in wanted if effective.get(name) != value
    )
    return "; ".join(wrong) or None

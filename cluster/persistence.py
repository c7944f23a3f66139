"""How a server is configured, for its disk, its network and itself: the directives of its redis.conf.

Pure functions of names and numbers, the same for every backend.
"""

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

Directives = tuple[tuple[str, str], ...]
"""Names and values, in the order in which they are written."""


def persistence_directives(policy: Policy) -> Directives:
    """The directives of a policy."""
    match policy:
        case "none":
            return (("save", ""), ("appendonly", "no"))
        case "rdb":
            return (("save", "1 1"), ("appendonly", "no"))
        case _:
            return (("save", ""), ("appendonly", "yes"), ("appendfsync", policy.removeprefix("aof-")))


def expected_config(policy: Policy) -> Mapping[str, str]:
    """What `CONFIG GET` must return for a server with this policy."""
    return dict(persistence_directives(policy))


def config_mismatch(policy: Policy, effective: Mapping[str, str]) -> str | None:
    """How the effective configuration differs from the policy, in one line; None if it does not."""
    wrong = [
        f"{name} is {effective.get(name)!r}, not {value!r}"
        for name, value in expected_config(policy).items()
        if effective.get(name) != value
    ]
    return "; ".join(wrong) or None


def server_directives(*, bind: str, port: int, folder: str, policy: Policy, protected: bool = True) -> Directives:
    """The whole configuration of a server. `folder` is its working directory, as the server sees it."""
    return (
        ("bind", bind),
        ("port", str(port)),
        ("protected-mode", "yes" if protected else "no"),
        ("tcp-backlog", "511"),
        ("maxclients", "4000"),
        ("timeout", "0"),
        ("daemonize", "no"),
        ("pidfile", ""),
        ("logfile", ""),
        ("loglevel", "notice"),
        # The title would be written over the environment, by which leftovers of dead runs are found.
        ("set-proc-title", "no"),
        ("latency-monitor-threshold", "0"),
        ("dir", folder),
        *persistence_directives(policy),
    )


def config_text(directives: Iterable[tuple[str, str]]) -> str:
    """The directives as the text of a redis.conf."""
    return "".join(f"{name} {_quoted(value)}\n" for name, value in directives)


def _quoted(value: str) -> str:
    if value and all(character.isalnum() or character in "./-_:" for character in value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

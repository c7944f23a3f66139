"""Redis, and what every server that descends from it has in common."""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from cluster import probe, resp
from cluster.address import Address
from cluster.base import LOOPBACK
from cluster.credentials import Login
from cluster.data_files import DataFiles
from cluster.dialling import exactly, receive
from cluster.key_events import KeyEventStream
from cluster.key_snapshot import RedisKeyReader
from cluster.persistence import POLICIES, Policy, mismatch
from cluster.server import (
    OpenKeyEvents,
    OpenKeyReader,
    Place,
    ProbeLinks,
    ReadClock,
    ReadDenials,
    Refusal,
    Server,
    ShutDown,
    WriteErrors,
)
from fencepost.errors import BrokenEnvironmentError

if TYPE_CHECKING:
    from cluster.requests import Decode

Directives = tuple[tuple[str, str], ...]
"""Names and values of the configuration, in the order in which they are given."""

_VERSION: Final = re.compile(r"(\w+) server v=(\S+)")
_ERROR_COUNT: Final = re.compile(r"^errorstat_(\w+):count=(\d+)", re.MULTILINE)
_DENIALS: Final = ("NOAUTH", "WRONGPASS", "NOPERM")
_PASSWORDS: Final = ("requirepass", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass")
_PING: Final = b"PING\r\n"
_PONG: Final = b"+PONG\r\n"
_OK: Final = b"+OK\r\n"


def persistence_directives(policy: Policy) -> Directives:
    """What a policy means in Redis's configuration, and what `CONFIG GET` must then return."""
    match policy:
        case "none":
            return (("save", ""), ("appendonly", "no"))
        case "rdb":
            return (("save", "1 1"), ("appendonly", "no"))
        case _:
            return (("save", ""), ("appendonly", "yes"), ("appendfsync", policy.removeprefix("aof-")))


def server_directives(place: Place) -> Directives:
    """The whole configuration of a server."""
    return (
        ("bind", place.host),
        ("port", str(place.port)),
        ("protected-mode", "yes" if place.host == LOOPBACK else "no"),
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
        ("dir", place.folder),
        *persistence_directives(place.policy),
    )


def config_file(lines: Iterable[Sequence[str]]) -> bytes:
    """A file of directives."""
    return "".join(" ".join(word or '""' for word in line) + "\n" for line in lines).encode()


def part_id(host: str) -> str:
    """The id of a part of a group, 40 hexadecimal digits, before it has drawn one itself."""
    return hashlib.sha1(host.encode(), usedforsecurity=False).hexdigest()


def member_directives(place: Place) -> Iterator[Sequence[str]]:
    """The configuration of a server that others copy, and that copies others."""
    yield from server_directives(place)
    yield "masteruser", place.access.harness.user
    yield "masterauth", place.access.harness.password
    # A primary waits for seconds for further replicas before it sends its data.
    yield "repl-diskless-sync-delay", "0"


def shut_down(address: Address, timeout_ms: float) -> None:
    """SHUTDOWN, which saves what the persistence policy saves."""
    try:
        (reply,) = resp.ask(address, ("SHUTDOWN",), timeout_ms=timeout_ms)
    except OSError:
        return  # as expected: the connection ends with the server
    raise BrokenEnvironmentError(f"the server at {address} refuses to shut down: {reply}")


def read_clock(address: Address, timeout_ms: float) -> int:
    """TIME, to a microsecond."""
    (reply,) = resp.ask(address, ("TIME",), timeout_ms=timeout_ms)
    if not isinstance(reply, list):
        raise OSError(f"{address} answered TIME with {reply!r}")
    seconds, microseconds = (int(str(word)) for word in reply)
    return (seconds * 1_000_000 + microseconds) * 1_000


def read_denials(address: Address, timeout_ms: float) -> Mapping[str, int]:
    """By INFO, which counts errors by their first word."""
    (info,) = resp.ask(address, ("INFO", "errorstats"), timeout_ms=timeout_ms)
    counted = _ERROR_COUNT.findall(str(info))
    return {error: int(times) for error, times in counted if error in _DENIALS and int(times)}


def refuse_writes(address: Address, why: Refusal | None, timeout_ms: float) -> None:
    """By the limits that production servers have: of memory, and of the replicas that a primary must have."""
    limits = {"maxmemory": why == "out of memory", "min-replicas-to-write": why == "no replicas"}
    settings = (("CONFIG", "SET", name, str(int(is_set))) for name, is_set in limits.items())
    if (replies := resp.ask(address, *settings, timeout_ms=timeout_ms)) != ["OK", "OK"]:
        raise OSError(f"{address} answered CONFIG SET with {replies}")


def write_error(address: Address, timeout_ms: float) -> str:
    (reply,) = resp.ask(address, ("SET", f"{probe.MARK_PREFIX}write", "", "PX", "1000"), timeout_ms=timeout_ms)
    return "" if reply == "OK" else str(reply).split()[0]


def is_data(name: str) -> bool:
    """Whether it is a snapshot or (a part of) an append-only file; snapshots under way begin with `temp-`."""
    return name.endswith((".rdb", ".aof")) and not Path(name).name.startswith("temp-")


def empty(name: str) -> bytes:
    """A snapshot without keys: the header, the end, and a checksum of zeros, which switches the check off."""
    return b"REDIS0009\xff" + bytes(8) if name.endswith(".rdb") else b""


KEPT: Final = DataFiles(is_data, empty)
WRITE_ERRORS: Final = WriteErrors(refuse_writes, write_error)


@dataclass(frozen=True, slots=True, kw_only=True)
class UntouchedRedis(Server):
    """What speaks Redis's protocol. Its keys are not watched, and its configuration, disk and clock are left alone.

    `product`: the word before `server v=` in what `--version` prints. `version_field`: the version's name in INFO.
    """

    product: str
    version_field: str
    family: str = "redis"
    policies: tuple[Policy, ...] = POLICIES
    probe_links: ProbeLinks = probe.probe_links
    is_scriptable: bool = True
    takes_logins: bool = True

    @property
    def decode(self) -> Decode | None:
        from cluster.redis_requests import decode  # slow to import, and few commands come here

        return decode

    def version_in(self, output: str) -> str | None:
        found = _VERSION.search(output)
        return found[2] if found and found[1].lower() == self.product.lower() else None

    def arguments(self, place: Place) -> list[str]:
        # The server takes a value of several words as several arguments, and an empty one as an empty argument.
        directives = [word for name, value in server_directives(place) for word in (f"--{name}", *_words(name, value))]
        return [*directives, *(word for user in place.access.users() for word in ("--user", *user))]

    def answers(self, address: Address, timeout_ms: float, pid: int | None = None) -> bool:
        """Whether PING is answered with PONG; a server that is still loading its data answers with an error."""
        asked = (("PING",),) if pid is None else (("PING",), ("INFO", "server"))
        try:
            pong, *info = resp.ask(address, *asked, timeout_ms=timeout_ms)
        except OSError:
            return False
        return pong == "PONG" and (pid is None or f"process_id:{pid}\r\n" in str(info[0]))

    def running_version(self, address: Address, timeout_ms: float) -> str:
        (info,) = resp.ask(address, ("INFO", "server"), timeout_ms=timeout_ms)
        facts = dict(line.partition(":")[::2] for line in str(info).splitlines())
        return facts.get(self.version_field) or "unknown"

    def effective_config(self, address: Address, timeout_ms: float) -> Mapping[str, str]:
        """Without passwords, because it is recorded."""
        settings = resp.config(address, timeout_ms=timeout_ms)
        return settings | {name: "***" for name in _PASSWORDS if settings.get(name)}

    def log_in(self, connection: socket.socket, login: Login) -> None:
        connection.sendall(resp.encode("AUTH", *login))
        if (reply := exactly(connection, len(_OK))) != _OK:
            raise ConnectionAbortedError(f"the server refuses the login: {reply + receive(connection, 64)!r}")

    def ping(self, connection: socket.socket) -> None:
        connection.sendall(_PING)
        exactly(connection, len(_PONG))

    def url(self, host: str, port: int, password: str | None = None) -> str:
        return f"redis://{host}:{port}/0" if password is None else f"redis://:{password}@{host}:{port}/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisServer(UntouchedRedis):
    """Redis and its descendants. A variant is one with other fields, or a subclass."""

    shut_down: ShutDown | None = shut_down
    read_clock: ReadClock | None = read_clock
    key_events: OpenKeyEvents | None = KeyEventStream
    key_reader: OpenKeyReader | None = RedisKeyReader
    data_files: DataFiles | None = KEPT
    write_errors: WriteErrors | None = WRITE_ERRORS
    read_denials: ReadDenials | None = read_denials

    @property
    def sentinel(self) -> Server:
        return RedisSentinel.beside(self)

    @property
    def elsewhere(self) -> Server:
        """It is not configured, stopped or asked for the keys of others. To watch keys would take its configuration
        and MONITOR, which shows what all of its clients do."""
        return UntouchedRedis(
            name=self.name, help=self.help, product=self.product, version_field=self.version_field, programs=()
        )

    def config_mismatch(self, policy: Policy, effective: Mapping[str, str]) -> str | None:
        return mismatch(persistence_directives(policy), effective)


_SENTINEL_FILE: Final = "sentinel.conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSentinel(UntouchedRedis):
    """The program in its other role: it keeps no keys, and is told whom to watch when it runs (`cluster.replication`).
    What it learns it writes into its file, without which it does not start."""

    policies: tuple[Policy, ...] = ("none",)
    probe_links: ProbeLinks = probe.ping_links
    is_scriptable: bool = False

    @classmethod
    def beside(cls, server: UntouchedRedis) -> Self:
        return cls(
            name=f"{server.name}-sentinel",
            help=f"a sentinel of {server.name}",
            product=server.product,
            version_field=server.version_field,
            programs=server.programs,
        )

    def arguments(self, place: Place) -> list[str]:
        directives = (
            ("bind", place.host),
            ("port", str(place.port)),
            ("protected-mode", "yes" if place.host == LOOPBACK else "no"),
            ("set-proc-title", "no"),
            ("dir", place.folder),
        )
        options = [word for name, value in directives for word in (f"--{name}", value)]
        users = [word for user in place.access.sentinel_users() for word in ("--user", *user)]
        return [f"/proc/self/cwd/{_SENTINEL_FILE}", "--sentinel", *options, *users]

    def files(self, place: Place) -> Mapping[str, bytes]:
        del place
        return {_SENTINEL_FILE: b""}

    def effective_config(self, address: Address, timeout_ms: float) -> Mapping[str, str]:
        return {}


def _words(name: str, value: str) -> list[str]:
    return [value] if name == "dir" else value.split() or [""]


SERVER = RedisServer(
    name="redis",
    help="Redis 6.2 or newer",
    product="Redis",
    version_field="redis_version",
    programs=("redis-server",),
)

"""Redis Sentinel: a primary, its replicas, and a sentinel beside each, all of which elect another primary.

Replicas copy the primary asynchronously, so what it granted last may be lost with it. The configuration of a member is
a file, as people have it: a sentinel that gives a server another role has it rewrite the file, and it is read again at
the next start. A primary that was replaced while it was down, or cut off, knows nothing of that: it takes itself for
the primary until the sentinels have seen it up for eight seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from cluster import resp
from cluster.address import Address
from cluster.parallel import at_once
from cluster.replication import GROUP
from cluster.server import Group, Place, ReadClock, Server
from cluster.servers.redis import (
    RedisSentinel,
    UntouchedRedis,
    config_file,
    member_directives,
    part_id,
    read_clock,
)
from fencepost.quorum import quorum

PORT: Final = 6379
SENTINEL_PORT: Final = 26379
_FILE: Final = "redis.conf"
_DOWN_AFTER_MS: Final = 1_000
"""How long a server must be silent before a sentinel takes it for down: as long as etcd waits for its leader."""
_FAILOVER_LIMIT_MS: Final = 3_000
"""A failover that came to nothing is tried again after twice this time."""
_SETTLES_MS: Final = 3_000.0
_WRONG: Final = ("down", "disconnected", "failover")
"""In the flags of a part that is not in order."""
_DIR: Final = re.compile(rb"^dir .*\n", re.MULTILINE)
_ASKED: Final = (
    ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", GROUP),
    ("SENTINEL", "MASTER", GROUP),
    ("SENTINEL", "REPLICAS", GROUP),
    ("SENTINEL", "SENTINELS", GROUP),
)

Facts = Mapping[str, str]


def leader(members: Mapping[str, Address], timeout_ms: float) -> str | None:
    """The primary that the sentinels of the latest configuration name, if it takes itself for one as well."""
    seen = at_once(partial(_seen, address, timeout_ms) for address in members.values())
    _, named = max(((int(parts[0]["config-epoch"]), host) for host, *parts in filter(None, seen)), default=(0, None))
    name = next((name for name, address in members.items() if address.host == named), None)
    return name if name is not None and _takes_itself_for_primary(members[name], timeout_ms) else None


def serves(address: Address, timeout_ms: float) -> bool:
    """Whether the sentinel beside it sees all servers in their roles, all replicas copying, and all other sentinels."""
    seen = _seen(address, timeout_ms)
    return seen is not None and all(
        not any(word in facts["flags"] for word in _WRONG)
        and facts.get("role-reported", "") in facts["flags"]
        and facts.get("master-link-status", "ok") == "ok"
        for facts in seen[1:]
    )


def _seen(member: Address, timeout_ms: float) -> tuple[str, *tuple[Facts, ...]] | None:
    """What the sentinel beside the member says: the primary's host, and the facts on the primary, the replicas and the
    other sentinels. None if it does not answer."""
    try:
        where, primary, replicas, sentinels = resp.ask(
            Address(member.host, SENTINEL_PORT).behind(member.login), *_ASKED, timeout_ms=timeout_ms
        )
    except OSError:
        return None
    match where, replicas, sentinels:
        case [host, _], [*replicas], [*sentinels]:
            return str(host), *map(_facts, (primary, *replicas, *sentinels))
    return None


def _facts(reply: object) -> Facts:
    words = [str(word) for word in reply] if isinstance(reply, list) else []
    return dict(zip(words[::2], words[1::2], strict=True))


def _takes_itself_for_primary(member: Address, timeout_ms: float) -> bool:
    try:
        (role,) = resp.ask(member, ("ROLE",), timeout_ms=timeout_ms)
    except OSError:
        return False
    return isinstance(role, list) and role[0] == "master"


_GROUP: Final = Group(
    PORT,
    leader,
    serves,
    forms_within_s=30.0,
    settles_within_ms=_SETTLES_MS,
    only_leader_serves=True,
    sentinel_port=SENTINEL_PORT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelMember(UntouchedRedis):
    """The first member begins as the primary. Keys are not watched, since replicas have copies of them that no client
    asked for."""

    family: str = "redis-sentinel"
    group: Group | None = _GROUP
    read_clock: ReadClock | None = read_clock

    def arguments(self, place: Place) -> list[str]:
        """Everything is in the file: an option would take precedence over what a sentinel had the server write."""
        return [f"/proc/self/cwd/{_FILE}"]

    def files(self, place: Place) -> Mapping[str, bytes]:
        primary = next(iter(place.members.values()))
        users = (("user", *user) for user in place.access.users())
        copies = [] if place.host == primary else [("replicaof", primary, str(place.port))]
        return {_FILE: config_file([*member_directives(place), *users, *copies])}

    def reread(self, content: bytes) -> bytes:
        """Without `dir`: it is started in its folder."""
        return _DIR.sub(b"", content)

    @property
    def sentinel(self) -> Server:
        return _Sentinel.beside(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentinel(RedisSentinel):
    """One that knows the whole group from the start, as it does after some seconds otherwise."""

    def files(self, place: Place) -> Mapping[str, bytes]:
        return {name: config_file(_watching(place)) for name in RedisSentinel.files(self, place)}


def _watching(place: Place) -> Iterator[tuple[str, ...]]:
    primary, *replicas = place.members.values()
    login, others = place.access.harness, [host for host in place.members.values() if host != place.host]
    yield "sentinel", "myid", part_id(place.host)
    yield "sentinel", "monitor", GROUP, primary, str(PORT), str(quorum(len(place.members)))
    yield "sentinel", "down-after-milliseconds", GROUP, str(_DOWN_AFTER_MS)
    yield "sentinel", "failover-timeout", GROUP, str(_FAILOVER_LIMIT_MS)
    yield "sentinel", "auth-user", GROUP, login.user
    yield "sentinel", "auth-pass", GROUP, login.password
    yield "sentinel", "sentinel-user", login.user
    yield "sentinel", "sentinel-pass", login.password
    for host in replicas:
        yield "sentinel", "known-replica", GROUP, host, str(PORT)
    for host in others:
        yield "sentinel", "known-sentinel", GROUP, host, str(SENTINEL_PORT), part_id(host)


SERVER = SentinelMember(
    name="redis-sentinel",
    help="a Redis primary and its replicas, and a sentinel beside each",
    product="Redis",
    version_field="redis_version",
    programs=("redis-server",),
)

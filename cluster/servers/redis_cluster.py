"""Redis Cluster: primaries that share the keys, and replicas of theirs, which the primaries vote into their places.

Replicas copy a primary asynchronously, so what it granted last may be lost with it. One that is cut off from the
majority of the primaries stops serving after a while. Members talk to each other at a second port.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from cluster import resp
from cluster.address import Address
from cluster.parallel import at_once
from cluster.server import Group, Place
from cluster.servers.redis import UntouchedRedis, config_file, member_directives, part_id

PORT: Final = 6379
_PEERS: Final = 16379
_SLOTS: Final = 16_384
_KEY: Final = b"k1"
_SLOT: Final = binascii.crc_hqx(_KEY, 0) % _SLOTS
"""The place of the key that every workload begins with: its primary is the leader."""
_FILE: Final = "redis.conf"
_CLUSTER_FILE: Final = "nodes.conf"
_SILENT_MS: Final = 1_000
"""How long a member must be silent before others take it for down: as long as etcd waits for its leader."""
_SETTLES_MS: Final = 3_000.0
_MAY_ASK: Final = (
    "-cluster",
    *(f"+cluster|{what}" for what in ("slots", "shards", "nodes", "info", "keyslot", "myid")),
)


class _Owner(NamedTuple):
    """Who has the leader's slot, as one member sees it: the later configuration counts."""

    epoch: int
    host: str


def leader(members: Mapping[str, Address], timeout_ms: float) -> str | None:
    """The member that has the slot according to the latest configuration, if it takes itself for its primary, too."""
    seen = at_once(partial(_owner, address, timeout_ms) for address in members.values())
    latest = max((owner for owner, _ in filter(None, seen)), default=None)
    named = (name for name, address in members.items() if latest is not None and address.host == latest.host)
    own = dict(zip(members, seen, strict=True))
    return next((name for name in named if (its := own[name]) is not None and its[1]), None)


def serves(address: Address, timeout_ms: float) -> bool:
    """Whether it sees the cluster in order, and is a primary or copies one."""
    try:
        info, role = resp.ask(address, ("CLUSTER", "INFO"), ("ROLE",), timeout_ms=timeout_ms)
    except OSError:
        return False
    is_whole = "cluster_state:ok" in str(info) and "cluster_slots_pfail:0" in str(info)
    return is_whole and isinstance(role, list) and (role[0] == "master" or role[3] == "connected")


def _owner(member: Address, timeout_ms: float) -> tuple[_Owner, bool] | None:
    """Who has the slot, and whether that is the member itself; None if it does not say."""
    try:
        (reply,) = resp.ask(member, ("CLUSTER", "NODES"), timeout_ms=timeout_ms)
    except OSError:
        return None
    for _, where, flags, _, _, _, epoch, _, *slots in map(str.split, str(reply).splitlines()):
        if "master" in flags and any(_has(slot) for slot in slots):
            return _Owner(int(epoch), where.partition(":")[0]), "myself" in flags
    return None


def _has(slots: str) -> bool:
    """`0-5460`, `17`; one under way to another member is in brackets."""
    first, _, last = slots.partition("-")
    return first.isdigit() and int(first) <= _SLOT <= int(last or first)


_GROUP: Final = Group(PORT, leader, serves, forms_within_s=30.0, settles_within_ms=_SETTLES_MS, only_leader_serves=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMember(UntouchedRedis):
    """The first half of the members begin as primaries, and the others copy one each. Keys are not watched, since
    replicas have copies of them that no client asked for. Its clock cannot be set: members measure by it how long
    others have been silent, so that a step is a failover that no fault explains."""

    family: str = "redis-cluster"
    group: Group | None = _GROUP

    def arguments(self, place: Place) -> list[str]:
        return [f"/proc/self/cwd/{_FILE}"]

    def files(self, place: Place) -> Mapping[str, bytes]:
        """Each member knows the whole cluster from the start, as it does after some seconds otherwise."""
        settings = (
            ("cluster-enabled", "yes"),
            ("cluster-config-file", _CLUSTER_FILE),
            ("cluster-node-timeout", str(_SILENT_MS)),
        )
        users = (("user", *user, *(_MAY_ASK if user[0] == "default" else ())) for user in place.access.users())
        return {
            _FILE: config_file([*member_directives(place), *settings, *users]),
            _CLUSTER_FILE: config_file(_cluster(place)),
        }


def _cluster(place: Place) -> Iterator[tuple[str, ...]]:
    """What a member writes of the cluster into its own file."""
    hosts = list(place.members.values())
    primaries = hosts[: (len(hosts) + 1) // 2]
    edges = [_SLOTS * number // len(primaries) for number in range(len(primaries) + 1)]
    for number, host in enumerate(hosts):
        own = ("myself," if host == place.host else "") + ("master" if host in primaries else "slave")
        its = number % len(primaries)
        copied = "-" if host in primaries else part_id(primaries[its])
        slots = (f"{edges[its]}-{edges[its + 1] - 1}",) if host in primaries else ()
        yield part_id(host), f"{host}:{PORT}@{_PEERS}", own, copied, "0", "0", str(its + 1), "connected", *slots
    yield "vars", "currentEpoch", str(len(primaries)), "lastVoteEpoch", "0"


SERVER = ClusterMember(
    name="redis-cluster",
    help="a Redis Cluster, half of the nodes are primaries and half are replicas",
    product="Redis",
    version_field="redis_version",
    programs=("redis-server",),
)

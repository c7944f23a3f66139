"""Redis Sentinel as a group: what its members are told, who leads, and when all is in order. No server is started."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cluster.address import Address
from cluster.credentials import Access
from cluster.registry import server_named
from cluster.server import Place
from cluster.servers import redis_sentinel

MEMBERS = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3"}
ADDRESSES = {name: Address(host, redis_sentinel.PORT) for name, host in MEMBERS.items()}


def lines(name: str, server: str = "redis-sentinel", *, sentinel: bool = False) -> list[list[str]]:
    kind = server_named(server)
    port = redis_sentinel.SENTINEL_PORT if sentinel else redis_sentinel.PORT
    place = Place(MEMBERS[name], port, ".", "none", Access.fresh(closed=False), name, MEMBERS)
    (content,) = (kind.sentinel if sentinel else kind).files(place).values()  # type: ignore[union-attr]
    return [line.split() for line in content.decode().splitlines()]


def test_the_first_member_begins_as_the_primary_and_the_others_copy_it() -> None:
    assert not [line for line in lines("n1") if line[0] == "replicaof"]
    for name in ("n2", "n3"):
        assert ["replicaof", MEMBERS["n1"], "6379"] in lines(name)


def test_a_sentinel_knows_the_group_from_the_start_and_two_of_three_decide() -> None:
    told = lines("n2", sentinel=True)
    assert ["sentinel", "monitor", "fencepost", MEMBERS["n1"], "6379", "2"] in told
    known = {(line[1], line[3]) for line in told if line[1].startswith("known-")}
    replicas = {("known-replica", MEMBERS["n2"]), ("known-replica", MEMBERS["n3"])}
    assert known == replicas | {("known-sentinel", MEMBERS["n1"]), ("known-sentinel", MEMBERS["n3"])}
    (other,) = (line for line in told if line[:2] == ["sentinel", "known-sentinel"] and line[3] == MEMBERS["n3"])
    assert ["sentinel", "myid", other[5]] in lines("n3", sentinel=True)


def test_a_rewritten_file_is_read_again_without_the_path_of_its_folder() -> None:
    """Where servers have a user of their own, it cannot enter the folders above."""
    left = b"port 6379\ndir /tmp/run/n2\nreplicaof 10.0.0.3 6379\n"
    assert server_named("redis-sentinel").reread(left) == b"port 6379\nreplicaof 10.0.0.3 6379\n"


def facts(flags: str, **more: str) -> dict[str, str]:
    role = flags.partition(",")[0]
    reported = {} if role == "sentinel" else {"role-reported": role}
    return {"flags": flags, **reported, "config-epoch": "1", **more}


def seen(host: str, *others: Mapping[str, str], epoch: int = 1) -> tuple[object, ...]:
    return (host, facts("master") | {"config-epoch": str(epoch)}, *others)


@pytest.mark.parametrize(("takes_itself", "leads"), [(["n1", "n3"], "n1"), (["n3"], None)])
def test_the_primary_of_the_latest_configuration_leads_if_it_knows_that(
    monkeypatch: pytest.MonkeyPatch, takes_itself: list[str], leads: str | None
) -> None:
    """The sentinel beside n3 was cut off with it, and names it still."""
    said = {
        MEMBERS["n1"]: seen(MEMBERS["n1"], epoch=4),
        MEMBERS["n2"]: None,
        MEMBERS["n3"]: seen(MEMBERS["n3"], epoch=3),
    }
    primaries = [MEMBERS[name] for name in takes_itself]
    monkeypatch.setattr(redis_sentinel, "_seen", lambda address, timeout_ms: said[address.host])
    monkeypatch.setattr(
        redis_sentinel, "_takes_itself_for_primary", lambda address, timeout_ms: address.host in primaries
    )
    assert redis_sentinel.leader(ADDRESSES, 1) == leads


COPY = facts("slave", **{"master-link-status": "ok"})
SENTINEL = facts("sentinel")


@pytest.mark.parametrize(
    ("others", "is_whole"),
    [
        ((COPY, COPY, SENTINEL, SENTINEL), True),
        ((COPY, facts("slave", **{"master-link-status": "err"}), SENTINEL, SENTINEL), False),
        ((COPY, facts("slave", **{"role-reported": "master"}), SENTINEL, SENTINEL), False),
        ((COPY, COPY, SENTINEL, facts("sentinel,s_down")), False),
    ],
)
def test_a_member_serves_when_its_sentinel_sees_every_part_in_its_role(
    monkeypatch: pytest.MonkeyPatch, others: tuple[Mapping[str, str], ...], is_whole: bool
) -> None:
    monkeypatch.setattr(redis_sentinel, "_seen", lambda address, timeout_ms: seen(MEMBERS["n1"], *others))
    assert redis_sentinel.serves(ADDRESSES["n2"], 1) is is_whole

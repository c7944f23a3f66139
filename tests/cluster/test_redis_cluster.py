"""Redis Cluster as a group: what its members know from the start, and who leads. No server is started."""

from __future__ import annotations

import pytest

from cluster.address import Address
from cluster.credentials import Access
from cluster.registry import server_named
from cluster.server import Place
from cluster.servers import redis_cluster

MEMBERS = {f"n{number}": f"10.0.0.{number}" for number in range(1, 7)}
ADDRESSES = {name: Address(host, redis_cluster.PORT) for name, host in MEMBERS.items()}


def test_half_of_the_members_share_all_slots_and_each_has_a_replica() -> None:
    place = Place(MEMBERS["n2"], redis_cluster.PORT, ".", "none", Access.fresh(closed=False), "n2", MEMBERS)
    *members, _ = (
        line.split() for line in server_named("redis-cluster").files(place)["nodes.conf"].decode().splitlines()
    )
    primaries = [line for line in members if "master" in line[2]]
    spans = [tuple(map(int, line[8].split("-"))) for line in primaries]
    assert [first for first, _ in spans] == [0, *(last + 1 for _, last in spans[:-1])]
    assert spans[-1][1] == 16_383
    assert [line[3] for line in members if "slave" in line[2]] == [line[0] for line in primaries]
    assert [line[1] for line in members if "myself" in line[2]] == ["10.0.0.2:6379@16379"]


def nodes(*lines: str) -> str:
    return "".join(f"id {line}\n" for line in lines)


@pytest.mark.parametrize(("of_n6", "leads"), [("master", "n6"), ("slave", None)])
def test_the_primary_of_the_key_by_the_latest_configuration_leads_if_it_knows_that(
    monkeypatch: pytest.MonkeyPatch, of_n6: str, leads: str | None
) -> None:
    """n3 was cut off, and takes itself for the primary still."""
    slot = redis_cluster._SLOT
    old = nodes(f"10.0.0.3:6379@16379 myself,master - 0 0 3 connected 10922-{slot}")
    new = nodes(
        "10.0.0.3:6379@16379 master,fail - 0 0 3 disconnected", f"10.0.0.6:6379@16379 master - 0 0 7 connected {slot}"
    )
    own = nodes(f"10.0.0.6:6379@16379 myself,{of_n6} - 0 0 7 connected {slot}")
    said = {MEMBERS["n3"]: old, MEMBERS["n6"]: own}
    monkeypatch.setattr(redis_cluster.resp, "ask", lambda address, *asked, timeout_ms: [said.get(address.host, new)])
    assert redis_cluster.leader(ADDRESSES, 1) == leads

"""Three members of a group elect another leader when theirs is cut off, and a probe tells them from each other."""

from __future__ import annotations

import os
from typing import Any

import pytest

from cluster.registry import server_named
from cluster.servers import hazelcast, zookeeper
from tests.cluster import sandboxed

VERSIONS = {
    "etcd": ("etcd Version: 3.7.3\nGit SHA: abc\n", "3.7.3"),
    "zookeeper": ("Apache ZooKeeper, version 3.9.5 2026-02-11 20:18 UTC", "3.9.5"),
}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.needs(f"lock:{name}")) for name in VERSIONS]
)
def seen(request: pytest.FixtureRequest) -> dict[str, Any]:
    return sandboxed.said_by("lost_leader", GROUP=request.param)


pytestmark = pytest.mark.needs("members")


@pytest.mark.parametrize("name", [*VERSIONS, "hazelcast"])
def test_it_tells_its_version_and_takes_no_other_program_for_its_own(name: str) -> None:
    printed, version = VERSIONS.get(name, ("Hazelcast, version 5.4.0", "5.4.0"))
    assert server_named(name).version_in(printed) == version
    assert server_named(name).version_in("Redis server v=8.2.3 sha=0") is None


def test_of_two_members_that_say_they_lead_the_one_of_the_later_epoch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one was cut off, and has not noticed yet. In the epoch before, many transactions were done."""
    said = {
        "n1": "Zxid: 0x1000000ff\nMode: leader\nNode count: 5\n",
        "n2": "Zxid: 0x200000001\nMode: leader\nNode count: 5\n",
        "n3": "Zxid: 0x200000001\nMode: follower\nNode count: 5\n",
    }
    monkeypatch.setattr(zookeeper, "_said", lambda address, word, timeout_ms: said[address])
    assert zookeeper.leader({name: name for name in said}, 1) == "n2"  # type: ignore[arg-type]
    assert zookeeper.leader({"n3": "n3"}, 1) is None  # type: ignore[arg-type]


def test_of_two_members_of_hazelcast_that_say_they_lead_the_one_of_the_later_term_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = {"n1": "in term 9", "n2": "in term 10", "n3": "no"}
    monkeypatch.setattr(hazelcast, "_said", lambda address, question, timeout_ms: said[address])
    assert hazelcast.leader({name: name for name in said}, 1) == "n2"  # type: ignore[arg-type]
    assert hazelcast.leader({"n3": "n3"}, 1) is None  # type: ignore[arg-type]


def test_a_client_reaches_each_member_and_the_member_executed_what_it_sent(seen: dict[str, Any]) -> None:
    assert seen["probe"] == {f"c1-{name}": [True, True, False] for name in ("n1", "n2", "n3")}


def test_a_leader_that_is_cut_off_is_replaced_and_stays_alive_without_serving(seen: dict[str, Any]) -> None:
    assert seen["leader"] in ("n1", "n2", "n3")
    assert seen["elected another"]
    assert seen["cut off, alive and serving"] == [True, False]
    assert seen["cut off, its link"] == [False, None, False]
    assert seen["healed"]


def test_a_leader_that_is_killed_is_replaced_and_comes_back_with_its_data(seen: dict[str, Any]) -> None:
    assert (seen["after a kill"], seen["back"]) == (True, True)


def test_members_never_run_as_root(seen: dict[str, Any]) -> None:
    assert 0 not in seen["run as"] or os.geteuid() != 0

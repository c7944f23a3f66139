"""Three members of etcd: they elect another leader when theirs is cut off, and a probe tells them from each other."""

from __future__ import annotations

import os
from typing import Any

import pytest

from cluster.servers.etcd import SERVER
from tests.cluster import sandboxed


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return sandboxed.said_by("etcd_group")


pytestmark = [pytest.mark.needs("members"), pytest.mark.needs("lock:etcd")]


def test_it_tells_its_version_and_takes_no_other_program_for_its_own() -> None:
    assert SERVER.version_in("etcd Version: 3.7.3\nGit SHA: abc\n") == "3.7.3"
    assert SERVER.version_in("Redis server v=8.2.3 sha=0") is None


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

"""Nodes that copy each other, and the sentinels that watch them, on both backends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from cluster import replication, resp
from cluster.base import Cluster, Cut, Node
from cluster.docker import DockerCluster
from cluster.lifetime import RunState
from cluster.polling import becomes_true
from cluster.process import ProcessCluster
from cluster.run_processes import end_processes
from cluster.spec import Replication
from fencepost.errors import BrokenEnvironmentError
from tests.specs import site_of, spec_of

NODES = ("n1", "n2", "n3")
FAILOVER_S = 4 * replication.FAILOVER_LIMIT_MS / 1e3
"""One that comes to nothing is tried again."""

Open = Callable[[Replication], Cluster]


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.needs("engine"))])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """A running cluster of three nodes, which is stopped after the test."""
    kind = ProcessCluster if request.param == "process" else DockerCluster
    with RunState.create(parent=tmp_path / "state", site=site_of(request.param)) as state:
        clusters: list[Cluster] = []

        def open_cluster(how: Replication) -> Cluster:
            clusters.append(kind(spec_of(NODES, ["c1"], replication=how), state, tmp_path / "logs"))
            clusters[-1].start()
            return clusters[-1]

        yield open_cluster
        for cluster in clusters:
            cluster.stop()
        assert end_processes(state.run_id) == (), "a server outlived its cluster"


def ask(node: Node, *words: str) -> resp.Reply:
    (reply,) = resp.ask(node.address, words, timeout_ms=2_000)
    return reply


def says(node: Node, words: Sequence[str], reply: resp.Reply) -> bool:
    """Whether the node replies so by now. A node that changes its role hangs up on whoever asks just then."""
    try:
        return ask(node, *words) == reply
    except OSError:
        return False


def test_replicas_copy_the_first_node_through_links_that_can_be_cut(opened: Open) -> None:
    cluster = opened("manual")
    one, two, three = cluster.nodes.values()
    assert cluster.sentinels == {}
    cluster.impair([("n3", "n1")], "fault", Cut("drop", "both"))
    assert ask(one, "SET", "key", "new") == "OK"
    assert becomes_true(lambda: says(two, ("GET", "key"), "new"))
    # On the connection of the write: on another one, Redis 8.2 counts every replica, also one that is cut.
    write_and_wait = (("SET", "key", "new"), ("WAIT", "2", "300"))
    waited = partial(resp.ask, one.address, *write_and_wait, timeout_ms=2_000)
    assert becomes_true(lambda: waited() == ["OK", 1]), "what is cut acknowledges nothing"
    assert ask(three, "GET", "key") is None
    assert "READONLY" in str(ask(two, "SET", "key", "own"))
    recorded = two.effective_config()
    assert recorded["masteruser"] == cluster.access.harness.user
    assert cluster.access.harness.password not in str(recorded), "it is kept with the run"
    cluster.restore([("n3", "n1")], "fault")
    assert becomes_true(lambda: says(three, ("GET", "key"), "new"))


@pytest.mark.timeout(3 * FAILOVER_S)
def test_sentinels_replace_a_primary_that_is_down_and_it_returns_as_a_replica(opened: Open) -> None:
    cluster = opened("sentinel")
    nodes, sentinels = cluster.nodes, cluster.sentinels

    def primary() -> Node | None:
        return replication.primary_of(sentinels.values(), nodes.values())

    assert list(sentinels) == ["s1", "s2", "s3"]
    assert primary() is nodes["n1"]
    nodes["n1"].kill()
    assert becomes_true(lambda: primary() in (nodes["n2"], nodes["n3"]), within_s=FAILOVER_S, every_s=0.1)
    new = primary()
    assert new is not None
    assert ask(new, "SET", "key", "new") == "OK"
    nodes["n1"].start()
    # Only a node that was told the login again can copy the new primary.
    assert becomes_true(lambda: says(nodes["n1"], ("GET", "key"), "new"), within_s=FAILOVER_S, every_s=0.1)


def test_one_sentinel_of_three_replaces_nobody(opened: Open) -> None:
    cluster = opened("sentinel")
    one, two, three = cluster.sentinels.values()
    two.kill()
    three.kill()
    cluster.nodes["n1"].kill()

    def flags() -> str:
        return str(ask(one, "SENTINEL", "MASTER", replication.GROUP))

    assert becomes_true(lambda: "s_down" in flags(), within_s=FAILOVER_S, every_s=0.1), "it sees that n1 is down"
    assert "o_down" not in flags(), "it alone is no quorum"
    assert replication.primary_of([one], cluster.nodes.values()) is None
    with pytest.raises(BrokenEnvironmentError, match="s2 does not answer"):
        replication.primary_of([two], cluster.nodes.values())


def test_a_client_may_ask_a_sentinel_for_the_primary_and_nothing_else(opened: Open) -> None:
    cluster = opened("sentinel")
    address = cluster.links["c1", "s1"].address
    password = cluster.access.clients
    login = [("AUTH", password)] if password else []
    asked = [("SENTINEL", "GET-MASTER-ADDR-BY-NAME", replication.GROUP), ("SENTINEL", "FAILOVER", replication.GROUP)]
    *_, named, refused = resp.ask(address, *login, *asked, timeout_ms=2_000)
    primary = cluster.nodes["n1"].address
    assert named == [primary.host, str(primary.port)]
    assert "NOPERM" in str(refused)
    seen = cluster.probe([("c1", "s1")], timeout_ms=2_000)
    assert seen["c1", "s1"].answered

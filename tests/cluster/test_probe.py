"""The probe asks all links at once, and its three answers do not depend on each other."""

from __future__ import annotations

import time
from threading import Timer

import pytest

from cluster import probe, resp
from cluster.probe import MARK_PREFIX, probe_links
from cluster.process import ProcessCluster
from tests.cluster.conftest import MakeCluster

LONG_MS = 2_000
"""For a probe that has to see an answer or a refusal, however busy the machine is."""


def test_many_hanging_links_take_one_timeout_together(
    make_cluster: MakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_DIRECT_TIMEOUT_MS", LONG_MS)
    cluster = make_cluster(nodes=2, clients=8)
    for link in cluster.links.values():
        link.cut("f1", "drop", "both")
    began = time.perf_counter()
    seen = cluster.probe(list(cluster.links), timeout_ms=500)
    assert time.perf_counter() - began < 24 * 0.5 / 2, "far less than one after the other"
    assert {result[:3] for result in seen.values()} == {(False, False, False)}
    assert all(result.elapsed_ms >= 499 for result in seen.values())


def test_a_probe_returns_as_soon_as_all_links_answered(shared_cluster: ProcessCluster) -> None:
    began = time.perf_counter()
    seen = shared_cluster.probe(list(shared_cluster.links), timeout_ms=60_000)
    assert time.perf_counter() - began < 20
    assert all(result.answered for result in seen.values())


def test_a_paused_node_leaves_open_whether_the_command_was_applied(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(nodes=2)
    cluster.nodes["n1"].pause()
    assert cluster.probe([("c1", "n1")])["c1", "n1"][:3] == (False, None, False)
    assert cluster.probe([("c1", "n2")], LONG_MS)["c1", "n2"][:3] == (True, True, False)


@pytest.mark.parametrize("until_s", [0.2, None])
def test_a_node_that_refused_writes_for_a_while_leaves_open_whether_the_command_was_applied(
    make_cluster: MakeCluster, until_s: float | None
) -> None:
    cluster = make_cluster()
    node = cluster.nodes["n1"]
    cluster.links["c1", "n1"].cut("f1", "drop", "from-node")
    node.refuse_writes("no replicas")
    later = None if until_s is None else Timer(until_s, node.refuse_writes, [None])
    if later is not None:
        later.start()
    assert cluster.probe([("c1", "n1")], LONG_MS)["c1", "n1"][:3] == (False, None, False)
    if later is not None:
        later.join()
        assert cluster.probe([("c1", "n1")], LONG_MS)["c1", "n1"][:3] == (False, True, False)


def test_a_dead_node_is_refused_through_its_link(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    cluster.nodes["n1"].kill()
    assert cluster.probe([("c1", "n1")], LONG_MS)["c1", "n1"][:3] == (False, None, True)


def test_an_address_where_nobody_listens_is_refused(make_cluster: MakeCluster) -> None:
    node = make_cluster().nodes["n1"]
    node.kill()
    seen = probe_links({("c1", "n1"): node.address}, {"n1": node.address}, timeout_ms=LONG_MS)
    assert seen["c1", "n1"][:3] == (False, None, True)


def test_a_probe_leaves_only_marks_that_expire(shared_cluster: ProcessCluster) -> None:
    node = shared_cluster.nodes["n1"]
    shared_cluster.probe([("c1", "n1")], LONG_MS)
    (keys,) = resp.ask(node.address, ("KEYS", "*"), timeout_ms=LONG_MS)
    assert isinstance(keys, list)
    assert keys
    for key in keys:
        assert str(key).startswith(MARK_PREFIX)
        (left_ms,) = resp.ask(node.address, ("PTTL", str(key)), timeout_ms=LONG_MS)
        assert isinstance(left_ms, int)
        assert left_ms <= 5000


def test_no_links_are_no_answers(shared_cluster: ProcessCluster) -> None:
    assert shared_cluster.probe([]) == {}

"""Which nodes hold which live keys, as the hunt sees it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from cluster.key_snapshot import RedisKeyReader
from cluster.polling import becomes_true
from cluster.process import ProcessCluster
from cluster.resp import ask

LONG_MS = 2_000
"""For a look that has to see a node, however busy the machine is."""


@pytest.fixture
def watch(shared_cluster: ProcessCluster) -> Iterator[RedisKeyReader]:
    for node in shared_cluster.nodes.values():
        ask(node.address, ("FLUSHALL",), timeout_ms=1_000)
    with RedisKeyReader({name: node.address for name, node in shared_cluster.nodes.items()}) as watch:
        yield watch


def test_every_node_tells_its_live_keys_and_their_values(shared_cluster: ProcessCluster, watch: RedisKeyReader) -> None:
    requests = ("SET", "k1", "mine"), ("SADD", "a set", 1), ("HSET", "a hash", "theirs", 2, "mine", 1)
    ask(shared_cluster.nodes["n1"].address, *requests, timeout_ms=1_000)
    assert watch.look(LONG_MS) == {"n1": {"k1": b"mine", "a set": None, "a hash": b"mine, theirs"}, "n2": {}}


def test_every_node_tells_how_long_its_keys_have_left(shared_cluster: ProcessCluster, watch: RedisKeyReader) -> None:
    requests = ("SET", "k1", "mine", "PX", 60_000), ("SET", "for ever", "mine")
    ask(shared_cluster.nodes["n1"].address, *requests, timeout_ms=1_000)
    told = watch.lifetimes(LONG_MS)
    assert told.keys() == {"n1", "n2"}
    assert told["n1"]["for ever"] < 0 < told["n1"]["k1"] <= 60_000


def test_a_key_that_expired_is_not_alive(shared_cluster: ProcessCluster, watch: RedisKeyReader) -> None:
    address = shared_cluster.nodes["n1"].address
    ask(address, ("SET", "k1", "mine", "PX", 60_000), timeout_ms=1_000)
    assert "k1" in watch.look(LONG_MS)["n1"]
    ask(address, ("PEXPIRE", "k1", 30), timeout_ms=1_000)
    assert becomes_true(lambda: watch.look(LONG_MS)["n1"] == {})


def test_the_marks_of_probes_are_no_locks(shared_cluster: ProcessCluster, watch: RedisKeyReader) -> None:
    shared_cluster.probe([("c1", "n1")])
    assert watch.look(LONG_MS)["n1"] == {}


def test_a_node_that_is_down_or_paused_is_left_out_in_time_and_seen_again_later(
    shared_cluster: ProcessCluster, watch: RedisKeyReader
) -> None:
    node = shared_cluster.nodes["n1"]
    watch.look(LONG_MS)

    def sees_the_other() -> bool:
        seen = watch.look(timeout_ms=50).keys()
        assert "n1" not in seen
        return seen == {"n2"}

    try:
        for go, come in ((node.kill, node.start), (node.pause, node.resume)):
            go()
            began = time.monotonic()
            watch.look(timeout_ms=300)
            assert time.monotonic() - began < 3
            assert becomes_true(sees_the_other)
            come()
            assert becomes_true(lambda: watch.look(LONG_MS).keys() == {"n1", "n2"})
    finally:
        node.resume()
        node.start()


def test_looking_changes_nothing(shared_cluster: ProcessCluster, watch: RedisKeyReader) -> None:
    address = shared_cluster.nodes["n1"].address
    ask(address, ("SET", "k1", "mine"), timeout_ms=1_000)
    (before,) = ask(address, ("INFO", "persistence"), timeout_ms=1_000)
    watch.look(LONG_MS)
    (after,) = ask(address, ("INFO", "persistence"), timeout_ms=1_000)
    changes = [
        next(line for line in str(text).splitlines() if line.startswith("rdb_changes_since_last_save"))
        for text in (before, after)
    ]
    assert changes[0] == changes[1]

"""Every way to cut, slow and heal a link, seen from both ends by a probe and by warm connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from cluster import resp
from cluster.base import Address, CutKind, Direction, ProbeResult
from cluster.process import ProcessCluster
from cluster.toxiproxy import ToxicLink
from fencepost.errors import BrokenEnvironmentError
from tests.cluster.conftest import Dialled

Dial = Callable[[Address], Dialled]


@pytest.fixture
def cluster(shared_cluster: ProcessCluster) -> Iterator[ProcessCluster]:
    yield shared_cluster
    shared_cluster.heal()


@pytest.fixture
def link(cluster: ProcessCluster) -> ToxicLink:
    return cluster.links["c1", "n1"]


def probed(cluster: ProcessCluster, client: str = "c1", node: str = "n1", timeout_ms: float = 100) -> ProbeResult:
    return cluster.probe([(client, node)], timeout_ms)[client, node]


# kind, direction: answered, applied by the node, refused
SEEN: dict[tuple[CutKind, Direction], tuple[bool, bool, bool]] = {
    ("refuse", "both"): (False, False, True),
    ("refuse", "to-node"): (False, False, True),
    ("refuse", "from-node"): (False, True, True),
    ("drop", "both"): (False, False, False),
    ("drop", "to-node"): (False, False, False),
    ("drop", "from-node"): (False, True, False),
    ("hold", "both"): (False, False, False),
    ("hold", "to-node"): (False, False, False),
    ("hold", "from-node"): (False, True, False),
}


@pytest.mark.parametrize(("kind", "direction"), SEEN)
def test_a_cut_is_seen_by_a_probe_and_is_gone_after_healing(
    cluster: ProcessCluster, link: ToxicLink, kind: CutKind, direction: Direction
) -> None:
    assert probed(cluster)[:3] == (True, True, False)
    link.cut("f1", kind, direction)
    assert probed(cluster)[:3] == SEEN[kind, direction]
    assert probed(cluster, "c2")[:3] == (True, True, False), "another client's link to the same node is whole"
    assert probed(cluster, "c1", "n2")[:3] == (True, True, False), "the client's other link is whole"
    link.heal("f1")
    assert probed(cluster)[:3] == (True, True, False)


@pytest.mark.parametrize("kind", ["refuse", "drop", "hold"])
def test_cutting_and_healing_twice_is_the_same_as_once(cluster: ProcessCluster, link: ToxicLink, kind: CutKind) -> None:
    link.cut("f1", kind, "both")
    link.cut("f1", kind, "both")
    assert not probed(cluster).answered
    link.heal("f1")
    link.heal("f1")
    assert probed(cluster).answered


def test_held_bytes_arrive_when_the_link_heals(cluster: ProcessCluster, link: ToxicLink, dial: Dial) -> None:
    warm = dial(link.address)
    link.cut("f1", "hold", "to-node")
    warm.send("SET held yes")
    assert warm.is_silent()
    assert resp.ask(cluster.nodes["n1"].address, ("GET", "held"), timeout_ms=500) == [None]
    link.heal("f1")
    assert warm.receive(within_s=0.5) == "+OK\r\n"


def test_held_replies_arrive_when_the_link_heals(cluster: ProcessCluster, link: ToxicLink, dial: Dial) -> None:
    warm = dial(link.address)
    link.cut("f1", "hold", "from-node")
    warm.send("SET held-reply yes")
    assert warm.is_silent()
    assert resp.ask(cluster.nodes["n1"].address, ("GET", "held-reply"), timeout_ms=500) == ["yes"]
    link.heal("f1")
    assert warm.receive(within_s=0.5) == "+OK\r\n"


def test_dropped_bytes_are_lost_and_the_connection_is_closed_at_heal(
    cluster: ProcessCluster, link: ToxicLink, dial: Dial
) -> None:
    warm = dial(link.address)
    link.cut("f1", "drop", "to-node")
    warm.send("SET dropped yes")
    assert warm.is_silent()
    link.heal("f1")
    assert warm.receive() == ""
    assert resp.ask(cluster.nodes["n1"].address, ("GET", "dropped"), timeout_ms=500) == [None]


def test_refusing_closes_warm_connections_at_once(link: ToxicLink, dial: Dial) -> None:
    warm = dial(link.address)
    link.cut("f1", "refuse", "both")
    assert warm.receive() == ""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(link.address, timeout=1)


def test_a_reset_link_ends_a_warm_connection_with_its_next_byte(link: ToxicLink, dial: Dial) -> None:
    warm = dial(link.address)
    link.reset("f1")
    assert warm.is_silent(), "nothing happens before a byte travels"
    assert warm.ask("PING") == "", "Toxiproxy can only close what was open before"


def test_a_reset_link_resets_new_connections(cluster: ProcessCluster, link: ToxicLink) -> None:
    link.reset("f1")
    fresh = socket.create_connection(link.address, timeout=2)
    fresh.sendall(b"PING\r\n")
    with pytest.raises(ConnectionResetError):
        fresh.recv(100)
    fresh.close()
    link.heal("f1")
    assert probed(cluster).answered


@pytest.mark.parametrize(
    ("direction", "low", "high"), [("to-node", 80, 140), ("from-node", 80, 140), ("both", 160, 260)]
)
def test_a_delay_is_as_long_as_asked(link: ToxicLink, dial: Dial, direction: Direction, low: int, high: int) -> None:
    warm = dial(link.address)
    assert warm.asked_ms("PING") < 50
    link.delay("f1", 100, 20, direction)
    assert low <= warm.asked_ms("PING") <= high
    link.heal("f1")
    assert warm.asked_ms("PING") < 50


def test_throttling_makes_a_large_reply_as_slow_as_asked(link: ToxicLink, dial: Dial) -> None:
    warm = dial(link.address)
    warm.ask("SET large " + "x" * 30_000)
    link.throttle("f1", 100, "from-node")
    began = time.perf_counter()
    warm.send("GET large")
    received = 0
    while received < 30_000:
        received += len(warm.receive())
    assert 0.15 <= time.perf_counter() - began <= 0.6, "30 kB at 100 kB/s"


def test_healing_one_owner_leaves_the_others_cut_in_force(cluster: ProcessCluster, link: ToxicLink) -> None:
    link.cut("f1", "refuse", "both")
    link.cut("f2", "refuse", "both")
    link.cut("f3", "drop", "from-node")
    link.delay("f4", 10, 0, "both")
    link.heal("f1")
    assert probed(cluster).refused, "f2 still refuses"
    link.heal("f2")
    assert probed(cluster)[:3] == (False, True, False), "f3 still drops the replies"
    link.heal("f3")
    assert probed(cluster).answered
    assert probed(cluster).elapsed_ms >= 20, "f4 still delays both ways"
    link.heal("f4")
    assert probed(cluster).elapsed_ms < 20


def test_a_second_cut_of_the_same_owner_replaces_the_first(cluster: ProcessCluster, link: ToxicLink) -> None:
    link.cut("f1", "refuse", "both")
    link.cut("f1", "drop", "from-node")
    assert probed(cluster)[:3] == (False, True, False)
    link.delay("f1", 10, 0, "to-node")
    assert 10 <= probed(cluster).elapsed_ms < 60
    link.delay("f1", 30, 0, "to-node")
    assert 30 <= probed(cluster).elapsed_ms < 90


def test_holding_again_lets_no_held_byte_through(link: ToxicLink, dial: Dial) -> None:
    warm = dial(link.address)
    link.cut("f1", "hold", "to-node")
    warm.send("PING")
    link.cut("f1", "hold", "both")
    assert warm.is_silent()
    link.heal("f1")
    assert warm.receive() == "+PONG\r\n"


def test_healing_the_cluster_removes_what_every_owner_did(cluster: ProcessCluster) -> None:
    kinds: list[CutKind] = ["refuse", "drop", "hold"]
    for number, (key, link) in enumerate(cluster.links.items()):
        link.cut(f"f{number}", kinds[number % 3], "both")
        assert not cluster.probe([key], 50)[key].answered
    cluster.heal()
    assert all(seen.answered for seen in cluster.probe(list(cluster.links)).values())
    link = cluster.links["c1", "n1"]
    link.cut("later", "refuse", "both")
    link.heal("later")
    assert probed(cluster).answered, "who refused before the healing is forgotten"


def test_a_port_taken_while_the_link_refuses_is_told_in_one_line_and_can_be_healed_later(
    cluster: ProcessCluster, link: ToxicLink
) -> None:
    link.cut("f1", "refuse", "both")
    cluster.links["c2", "n1"].cut("f2", "drop", "both")
    with socket.create_server(link.address):
        with pytest.raises(BrokenEnvironmentError, match=rf"c1 to n1 .* port {link.address.port} was taken") as told:
            link.heal("f1")
        assert "\n" not in str(told.value)
        with pytest.raises(BrokenEnvironmentError, match="was taken"):
            cluster.heal()
        assert probed(cluster, "c2").answered, "what can be healed is healed"
    link.heal("f1")
    assert probed(cluster).answered

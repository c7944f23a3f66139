"""Every way to cut, slow and heal a link, seen from both ends by a probe and by warm connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster import resp
from cluster.address import Address, ProbeResult
from cluster.base import CutKind, Direction
from cluster.polling import becomes_true
from cluster.ports import PortTakenError
from cluster.process import ProcessCluster
from cluster.toxiproxy import ToxicLink
from cluster.toxiproxy_api import ToxicSpec, adding
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


def probed(cluster: ProcessCluster, client: str = "c1", node: str = "n1", timeout_ms: float = 150) -> ProbeResult:
    return cluster.probe([(client, node)], timeout_ms)[client, node]


def is_whole(cluster: ProcessCluster, client: str = "c1", node: str = "n1") -> bool:
    """Whether bytes pass both ways; on a busy machine that may take a while."""
    return becomes_true(lambda: probed(cluster, client, node, timeout_ms=2000)[:3] == (True, True, False))


def is_seen(cluster: ProcessCluster, expected: tuple[bool, bool, bool]) -> bool:
    """Whether probes see this of the link c1-n1. On a busy machine one may miss what is there, but none sees more."""

    def shows() -> bool:
        seen = probed(cluster)[:3]
        assert not any(got and not due for got, due in zip(seen, expected, strict=True)), seen
        return seen == expected

    return becomes_true(shows)


def takes_ms(ask: Callable[[], float], low: float, high: float) -> bool:
    """Whether no answer is earlier than `low` and one is earlier than `high`: a busy machine makes single ones late."""
    for _ in range(20):
        took_ms = ask()
        if took_ms < low:
            return False
        if took_ms < high:
            return True
    return False


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
    assert is_whole(cluster)
    link.cut("f1", kind, direction)
    assert is_seen(cluster, SEEN[kind, direction])
    assert is_whole(cluster, "c2"), "another client's link to the same node is whole"
    assert is_whole(cluster, "c1", "n2"), "the client's other link is whole"
    link.heal("f1")
    assert is_whole(cluster)


@pytest.mark.parametrize("kind", ["refuse", "drop", "hold"])
def test_cutting_and_healing_twice_is_the_same_as_once(cluster: ProcessCluster, link: ToxicLink, kind: CutKind) -> None:
    link.cut("f1", kind, "both")
    link.cut("f1", kind, "both")
    assert not probed(cluster).answered
    link.heal("f1")
    link.heal("f1")
    assert is_whole(cluster)


def test_held_bytes_arrive_when_the_link_heals(cluster: ProcessCluster, link: ToxicLink, dial: Dial) -> None:
    warm = dial(link.address)
    link.cut("f1", "hold", "to-node")
    warm.send("SET held yes")
    assert warm.is_silent()
    assert resp.ask(cluster.nodes["n1"].address, ("GET", "held"), timeout_ms=2000) == [None]
    link.heal("f1")
    assert warm.receive() == "+OK\r\n"


def test_held_replies_arrive_when_the_link_heals(cluster: ProcessCluster, link: ToxicLink, dial: Dial) -> None:
    warm = dial(link.address)
    link.cut("f1", "hold", "from-node")
    warm.send("SET held-reply yes")
    assert warm.is_silent()
    assert resp.ask(cluster.nodes["n1"].address, ("GET", "held-reply"), timeout_ms=2000) == ["yes"]
    link.heal("f1")
    assert warm.receive() == "+OK\r\n"


@pytest.mark.parametrize("heal", ["link", "cluster"])
@pytest.mark.parametrize("direction", ["to-node", "from-node", "both"])
def test_healing_a_hold_does_not_wait_for_clients_that_gave_up(
    cluster: ProcessCluster, link: ToxicLink, dial: Dial, direction: Direction, heal: str
) -> None:
    """Toxiproxy itself would hang for seconds: it hands the replies to a client that is gone one by one."""
    stays, *leave = [dial(link.address) for _ in range(8)]
    link.cut("f1", "hold", direction)
    for _ in range(6):
        for connection in (stays, *leave):
            connection.send("PING")
        assert leave[0].is_silent(0.01), "so that each command is a chunk of its own"
    for connection in leave:
        connection.close()
    began = time.perf_counter()
    link.heal("f1") if heal == "link" else cluster.heal()
    assert time.perf_counter() - began < 4, "it would wait five seconds for the first chunk alone"
    arrived = ""
    while arrived.count("+PONG") < 6:
        arrived += stays.receive()
    assert is_whole(cluster)


def test_a_healed_link_has_no_owner_and_can_be_slowed_by_nothing_again(link: ToxicLink) -> None:
    link.cut("f1", "hold", "both")
    link.cut("f2", "refuse", "both")
    assert link.owners() == {"f1", "f2"}
    link.heal("f1")
    assert link.owners() == {"f2"}
    link.heal("f2")
    assert link.owners() == set()
    link.delay("f1", 0, 0, "both")
    assert link.owners() == {"f1"}


def test_dropped_bytes_are_lost_and_the_connection_is_closed_at_heal(
    cluster: ProcessCluster, link: ToxicLink, dial: Dial
) -> None:
    warm = dial(link.address)
    link.cut("f1", "drop", "to-node")
    warm.send("SET dropped yes")
    assert warm.is_silent()
    link.heal("f1")
    assert warm.receive() == ""
    assert resp.ask(cluster.nodes["n1"].address, ("GET", "dropped"), timeout_ms=2000) == [None]


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
    assert is_whole(cluster)


@pytest.mark.parametrize(
    ("direction", "low", "high"), [("to-node", 80, 160), ("from-node", 80, 160), ("both", 160, 320)]
)
def test_a_delay_is_as_long_as_asked(link: ToxicLink, dial: Dial, direction: Direction, low: int, high: int) -> None:
    warm = dial(link.address)
    assert takes_ms(lambda: warm.asked_ms("PING"), 0, 80)
    link.delay("f1", 100, 20, direction)
    assert takes_ms(lambda: warm.asked_ms("PING"), low, high)
    link.heal("f1")
    assert takes_ms(lambda: warm.asked_ms("PING"), 0, 80)


def test_throttling_makes_a_large_reply_as_slow_as_asked(link: ToxicLink, dial: Dial) -> None:
    warm = dial(link.address)
    warm.ask("SET large " + "x" * 30_000)
    link.throttle("f1", 100, "from-node")

    def read_ms() -> float:
        began = time.perf_counter()
        warm.send("GET large")
        received = 0
        while received < 30_000:
            received += len(warm.receive())
        return (time.perf_counter() - began) * 1000

    assert takes_ms(read_ms, 150, 600), "30 kB at 100 kB/s"


def test_healing_one_owner_leaves_the_others_cut_in_force(cluster: ProcessCluster, link: ToxicLink) -> None:
    link.cut("f1", "refuse", "both")
    link.cut("f2", "refuse", "both")
    link.cut("f3", "drop", "from-node")
    link.delay("f4", 60, 0, "both")
    link.heal("f1")
    assert probed(cluster, timeout_ms=2000).refused, "f2 still refuses"
    link.heal("f2")
    assert is_seen(cluster, (False, True, False)), "f3 still drops the replies"
    link.heal("f3")
    assert is_whole(cluster)
    assert probed(cluster, timeout_ms=2000).elapsed_ms >= 120, "f4 still delays both ways"
    link.heal("f4")
    assert takes_ms(lambda: probed(cluster).elapsed_ms, 0, 60)


def test_a_second_cut_of_the_same_owner_replaces_the_first(cluster: ProcessCluster, link: ToxicLink) -> None:
    link.cut("f1", "refuse", "both")
    link.cut("f1", "drop", "from-node")
    assert is_seen(cluster, (False, True, False))
    link.delay("f1", 40, 0, "to-node")
    assert takes_ms(lambda: probed(cluster, timeout_ms=2000).elapsed_ms, 40, 150)
    link.delay("f1", 150, 0, "to-node")
    assert probed(cluster, timeout_ms=2000).elapsed_ms >= 150


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
    assert all(is_whole(cluster, client, node) for client, node in cluster.links)
    link = cluster.links["c1", "n1"]
    link.cut("later", "refuse", "both")
    link.heal("later")
    assert is_whole(cluster), "who refused before the healing is forgotten"


def test_a_request_of_a_try_that_was_given_up_may_be_carried_out_late(
    link: ToxicLink, cluster: ProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right after the state was read anew, Toxiproxy carries out what was asked long before."""
    server, spec = link._server, ToxicSpec("latency", "upstream", (("jitter", 0), ("latency", 100_000_000)), 1.0)
    change, asked = server.change, 0

    def overtaken(*arguments: Any) -> Any:
        nonlocal asked
        answers = change(*arguments)
        asked += 1
        if asked == 1:
            change({link.proxy_name: [adding(link.proxy_name, "f1:latency:upstream", spec)]}, 5.0)
        return answers

    link.state, link.was_given_up = None, True
    monkeypatch.setattr(server, "change", overtaken)
    cluster.heal()
    assert asked > 2
    assert is_whole(cluster)
    assert link.owners() == frozenset()


def test_a_port_taken_while_the_link_refuses_is_told_in_one_line_and_can_be_healed_later(
    cluster: ProcessCluster, link: ToxicLink
) -> None:
    link.cut("f1", "refuse", "both")
    cluster.links["c2", "n1"].cut("f2", "drop", "both")
    with socket.create_server(link.address):
        with pytest.raises(PortTakenError, match=rf"c1 to n1 .* port {link.address.port} was taken") as told:
            link.heal("f1")
        assert "\n" not in str(told.value)
        with pytest.raises(BrokenEnvironmentError, match="was taken"):
            cluster.heal()
        assert is_whole(cluster, "c2"), "what can be healed is healed"
    link.heal("f1")
    assert is_whole(cluster)

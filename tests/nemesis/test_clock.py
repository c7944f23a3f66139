"""Wrong clocks: what is drawn, what is set, and what a probe believes."""

from __future__ import annotations

from random import Random

import pytest

from cluster.process import ProcessCluster
from cluster.wall_clock import RIGHT, find_clock_library
from fencepost.errors import UsageError
from fencepost.history import Impact
from nemesis import clock
from nemesis.base import Topology, World
from nemesis.clock import NEMESIS, WrongClock
from nemesis.schedule import draw_schedule, needs_clocks, parse_spec
from tests.cluster.conftest import MakeCluster, make_cluster, state
from tests.golden import Golden
from tests.nemesis.fakes import FakeWorld, topology

__all__ = ["make_cluster", "state"]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeWorld:
    monkeypatch.setattr(clock, "SEEN_WITHIN_S", 0.01)
    return FakeWorld(topology(clients=2, nodes=3))


def drawn(options: str = "", count: int = 200, of: Topology | None = None) -> list[WrongClock]:
    (chosen,) = parse_spec(f"clock{':' if options else ''}{options}").chosen
    return [NEMESIS.draw(Random(seed), of or topology(ttl_ms=1_000), chosen.options)[0] for seed in range(count)]


@pytest.mark.parametrize(
    ("fault", "words", "fault_class"),
    [
        (WrongClock(("n1", "n2"), 1_200), "clock of n1,n2: 1200 ms ahead", "node clock stepped"),
        (WrongClock(("n3",), -50), "clock of n3: 50 ms behind", "node clock stepped"),
        (WrongClock(("n3",), rate_percent=12.5), "clock of n3: 12.5 % fast", "node clock drifting"),
        (WrongClock(("n3",), rate_percent=-3.0), "clock of n3: 3 % slow", "node clock drifting"),
        (WrongClock(("n3",), 90, strobe_ms=20), "clock of n3: 90 ms ahead every other 20 ms", "node clock strobing"),
    ],
)
def test_a_wrong_clock_is_set_seen_and_set_right(
    fake: FakeWorld, fault: WrongClock, words: str, fault_class: str
) -> None:
    assert (fault.describe(), fault.fault_class) == (words, fault_class)
    impact = fault.inject(fake.world, "f1")
    assert impact == Impact(
        wrong_clocks=fault.nodes, clock_off_ms=abs(fault.ahead_ms), clock_rate_percent=abs(fault.rate_percent)
    )
    assert fault.probe(fake.world, impact).holds
    assert all((node.clock == RIGHT) == (name not in fault.nodes) for name, node in fake.cluster.nodes.items())
    assert fault.heal(fake.world, "f1", impact).holds
    assert all(node.clock == RIGHT for node in fake.cluster.nodes.values())


@pytest.mark.parametrize(
    ("fault", "words", "fault_class"),
    [
        (WrongClock(clients=("c1",), ahead_ms=-500), "clock of c1: 500 ms behind", "client clock stepped"),
        (WrongClock(clients=("c2",), rate_percent=2.5), "clock of c2: 2.5 % fast", "client clock drifting"),
        (
            WrongClock(clients=("c1", "c2"), ahead_ms=90, strobe_ms=20),
            "clock of c1,c2: 90 ms ahead every other 20 ms",
            "client clock strobing",
        ),
    ],
)
def test_the_clock_of_a_client_is_set_seen_and_set_right(
    fake: FakeWorld, fault: WrongClock, words: str, fault_class: str
) -> None:
    assert (fault.describe(), fault.fault_class) == (words, fault_class)
    assert not fault.needs.server, "the server need not tell the time"
    impact = fault.inject(fake.world, "f1")
    assert impact == Impact(
        wrong_client_clocks=fault.clients,
        clock_off_ms=abs(fault.ahead_ms),
        clock_rate_percent=abs(fault.rate_percent),
    )
    assert fault.probe(fake.world, impact).holds
    assert all((client.clock == RIGHT) == (name not in fault.clients) for name, client in fake.clients.items())
    assert fault.heal(fake.world, "f1", impact).holds
    assert all(client.clock == RIGHT for client in fake.clients.values())
    assert not fault.probe(fake.world, impact).holds


def test_a_client_that_does_not_use_its_clock_shows_nothing(fake: FakeWorld, golden: Golden) -> None:
    fake.clients["c2"].uses_clock = False
    fault = WrongClock(clients=("c1", "c2"), ahead_ms=500)
    evidence = fault.probe(fake.world, fault.inject(fake.world, "f1"))
    assert evidence.holds is False
    golden(evidence.seen)


def test_a_clock_that_cannot_be_set_is_seen(fake: FakeWorld, golden: Golden) -> None:
    fake.cluster.nodes["n1"].is_clock_stuck = True
    fault = WrongClock(("n1", "n2"), 500)
    evidence = fault.probe(fake.world, fault.inject(fake.world, "f1"))
    assert evidence.holds is False
    golden(evidence.seen)


def test_a_clock_that_is_wrong_to_the_other_side_is_no_evidence(fake: FakeWorld) -> None:
    ahead, behind = WrongClock(("n1",), 500), WrongClock(("n1",), -500)
    assert not behind.probe(fake.world, ahead.inject(fake.world, "f1")).holds
    assert not ahead.probe(fake.world, behind.inject(fake.world, "f1")).holds


def test_a_clock_that_stays_wrong_is_not_healed(fake: FakeWorld) -> None:
    fault = WrongClock(("n1", "n2"), 500)
    impact = fault.inject(fake.world, "f1")
    fake.cluster.nodes["n2"].is_clock_stuck = True
    evidence = fault.heal(fake.world, "f1", impact)
    assert (evidence.holds, evidence.seen) == (False, "n1 right again; n2 still wrong")


def test_the_clock_of_a_node_that_is_down_is_set_and_only_that_of_one_that_died_by_itself_is_not(
    fake: FakeWorld,
) -> None:
    fake.cluster.nodes["n1"].kill()
    fake.cluster.nodes["n2"].dies_unasked()
    fault = WrongClock(("n1", "n2"), 500)
    impact = fault.inject(fake.world, "f1")
    assert impact.wrong_clocks == ("n1",)
    assert not fault.probe(fake.world, impact).holds
    assert fault.heal(fake.world, "f1", impact).holds
    assert fake.cluster.nodes["n1"].clock == RIGHT


def test_every_kind_way_and_number_of_nodes_is_drawn() -> None:
    faults = drawn()
    assert {fault.kind for fault in faults} == {"step", "drift", "strobe"}
    assert {len(fault.nodes) for fault in faults} == {1, 2, 3}
    assert {(fault.ahead_ms + fault.rate_percent) > 0 for fault in faults} == {True, False}
    assert {100 <= abs(fault.ahead_ms) <= 2_000 for fault in faults if fault.kind != "drift"} == {True}
    assert {1 <= abs(fault.rate_percent) <= 30 for fault in faults if fault.kind == "drift"} == {True}


def test_what_the_options_ask_for_is_drawn() -> None:
    assert {fault.kind for fault in drawn("kind=strobe")} == {"strobe"}
    assert all(fault.rate_percent < 0 for fault in drawn("kind=drift,way=behind"))
    assert all(1 <= fault.rate_percent <= 5 for fault in drawn("kind=drift,way=ahead,rate=5"))
    assert {fault.rate_percent for fault in drawn("kind=drift,way=ahead,rate=1.5-1.5")} == {1.5}
    assert all(-0.9 <= fault.rate_percent <= -0.2 for fault in drawn("kind=drift,way=behind,rate=0.2-0.9"))
    assert all(fault.ahead_ms == 300 for fault in drawn("kind=step,way=ahead,step=300ms-300ms"))
    assert all(fault.nodes == ("n4", "n5") for fault in drawn("targets=n4,n5"))
    of_clients = drawn("targets=clients", of=topology(clients=6, nodes=5, ttl_ms=1_000))
    assert {len(fault.clients) for fault in of_clients} == {1, 2}
    assert not any(fault.nodes for fault in of_clients)
    assert {fault.kind for fault in of_clients} == {"step", "drift", "strobe"}


@pytest.mark.parametrize("rate", ["0", "31", "0-5", "5-31", "5-2", "fast", "nan", "1-"])
def test_a_rate_that_no_clock_can_have_is_refused(rate: str) -> None:
    with pytest.raises(UsageError, match=f"clock:rate: '{rate}' is not a rate from 1 to 30 percent"):
        drawn(f"rate={rate}", count=1)


def test_only_a_schedule_with_wrong_clocks_needs_clocks() -> None:
    for spec, needed in (("clock", True), ("partition+clock", True), ("partition", False)):
        assert needs_clocks(draw_schedule(parse_spec(spec), 7, topology(), 10_000)) is needed


@pytest.mark.needs("clock")
@pytest.mark.parametrize(
    "fault",
    [WrongClock(("n1", "n2"), -5_000), WrongClock(("n2",), rate_percent=1.0), WrongClock(("n1",), 900, 0.0, 20)],
)
def test_real_clocks_go_wrong_and_right(make_cluster: MakeCluster, fault: WrongClock) -> None:
    cluster: ProcessCluster = make_cluster(nodes=2, clock_library=find_clock_library())
    world = World(cluster, {}, topology(clients=1, nodes=2))
    impact = fault.inject(world, "f1")
    assert fault.probe(world, impact).holds
    assert fault.heal(world, "f1", impact).holds

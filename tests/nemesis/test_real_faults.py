"""On real servers, a real Toxiproxy and real processes: every fault is seen to take, and seen to be gone."""

from __future__ import annotations

import re
from random import Random

import pytest

from cluster import resp
from cluster.base import CutKind, Direction
from cluster.polling import becomes_true
from cluster.process import ProcessCluster
from cluster.server import Refusal
from fencepost.history import Impact
from nemesis.base import Evidence, Fault, World
from nemesis.crash import Crash
from nemesis.errors import Errors
from nemesis.latency import Latency
from nemesis.partition import Partition
from nemesis.partition_shapes import SHAPES
from nemesis.pause import Pause
from nemesis.power import PowerCut
from nemesis.schedule import decode_fault, draw_schedule, parse_spec
from nemesis.shutdown import Shutdown
from nemesis.slice import Slice
from tests.nemesis.conftest import ProcessClient
from tests.nemesis.fakes import topology


def takes_and_heals(world: World, fault: Fault, owner: str = "f1") -> tuple[Impact, Evidence, Evidence]:
    impact = fault.inject(world, owner)
    took = fault.probe(world, impact)
    healed = fault.heal(world, owner, impact)
    assert took.holds, took.seen
    assert healed.holds, healed.seen
    return impact, took, healed


LONG_MS = 5_000
"""For what has to be answered, however busy the machine is."""


def all_links(world: World) -> list[tuple[str, str]]:
    return [(c, n) for c in world.topology.clients for n in world.topology.nodes]


def is_whole(world: World) -> bool:
    """Whether every link answers; on a busy machine some may be late."""
    return becomes_true(lambda: all(seen.answered for seen in world.cluster.probe(all_links(world), 500).values()))


@pytest.mark.parametrize("kind", ["refuse", "drop", "hold"])
@pytest.mark.parametrize("direction", ["to-node", "from-node", "both"])
def test_every_way_to_cut_takes_and_heals(real_world: World, kind: CutKind, direction: Direction) -> None:
    links = SHAPES["ring"].draw(Random(3), real_world.topology)
    fault = Partition("ring", kind, direction, links)
    impact = fault.inject(real_world, "f1")
    took = fault.probe(real_world, impact)
    assert took.holds, took.seen
    # It asks the untouched links only once, and does not wait for long.
    assert re.match(r"20 of 20 links cut; \d of 5 untouched links answer", took.seen)
    untouched = [link for link in all_links(real_world) if link not in links]
    assert len(untouched) == 30
    assert all(seen.answered for seen in real_world.cluster.probe(untouched, LONG_MS).values())
    healed = fault.heal(real_world, "f1", impact)
    assert (healed.holds, healed.seen) == (True, "20 of 20 links answer again")
    assert is_whole(real_world)


@pytest.mark.parametrize("kind", ["refuse", "drop", "hold"])
@pytest.mark.parametrize("direction", ["to-node", "from-node", "both"])
def test_an_outage_of_some_ms_takes_and_heals(real_world: World, kind: CutKind, direction: Direction) -> None:
    fault = Partition("some-links", kind, direction, (("c1", "n1"), ("c2", "n1")), probe_ms=20)
    impact = fault.inject(real_world, "f1")
    # It probes once, and within 20 ms a command need not have reached the node on a busy machine.
    assert becomes_true(lambda: fault.probe(real_world, impact).holds)
    healed = fault.heal(real_world, "f1", impact)
    assert healed.holds, healed.seen
    assert is_whole(real_world)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_takes_and_heals(real_world: World, shape: str) -> None:
    links = SHAPES[shape].draw(Random(5), real_world.topology)
    takes_and_heals(real_world, Partition(shape, "drop", "both", links))
    assert is_whole(real_world)


@pytest.mark.parametrize("planned", ["to-node", "from-node", "both"])
@pytest.mark.parametrize("made", ["to-node", "from-node", "both"])
def test_the_probe_tells_the_directions_apart_as_far_as_they_differ(
    real_world: World, planned: Direction, made: Direction
) -> None:
    links = (("c1", "n1"),)
    impact = Partition("some-links", "drop", made, links).inject(real_world, "f1")
    fault = Partition("some-links", "drop", planned, links)
    # A command that never arrives has no reply that could be stopped as well.
    if (planned == "from-node") == (made == "from-node"):
        assert fault.probe(real_world, impact).holds
    else:  # a command that has not arrived yet looks like one that never does
        assert becomes_true(lambda: not fault.probe(real_world, impact).holds)


@pytest.mark.parametrize("direction", ["to-node", "from-node", "both"])
def test_a_delay_is_measured_and_heals(real_world: World, direction: Direction) -> None:
    links = tuple((c, "n2") for c in real_world.topology.clients)
    fault = Latency("delay", "one-node", direction, links, delay_ms=120, jitter_ms=30)
    takes_and_heals(real_world, fault)
    assert is_whole(real_world)


def test_a_delay_longer_than_a_probe_waits_is_seen_by_silence(real_world: World) -> None:
    fault = Latency("delay", "one-client", "to-node", (("c1", "n1"),), delay_ms=60_000)
    _, took, _ = takes_and_heals(real_world, fault)
    assert "1 without a reply" in took.seen


@pytest.mark.parametrize("rate", [1, 2])
def test_a_narrow_pipe_is_felt_and_heals(real_world: World, rate: int) -> None:
    links = tuple((c, "n2") for c in real_world.topology.clients)
    takes_and_heals(real_world, Latency("throttle", "one-node", "to-node", links, rate_kb_per_s=rate))
    assert is_whole(real_world)


@pytest.mark.parametrize("direction", ["to-node", "from-node", "both"])
def test_bytes_in_pieces_are_felt_and_put_together_again(real_world: World, direction: Direction) -> None:
    links = tuple((c, "n2") for c in real_world.topology.clients)
    takes_and_heals(real_world, Slice("one-node", direction, links, gap_ms=20))
    assert is_whole(real_world)


def test_what_is_sliced_arrives_whole_and_in_order(real_world: World) -> None:
    link = ("c1", "n1")
    Slice("one-client", "both", (link,), gap_ms=1).inject(real_world, "f1")
    value = "".join(chr(ord("a") + n % 26) for n in range(1_000))
    replies = resp.ask(
        real_world.cluster.links[link].address, ("SET", "sliced", value), ("GET", "sliced"), timeout_ms=30_000
    )
    real_world.cluster.heal()
    assert replies == ["OK", value]


def test_latency_that_was_never_set_is_a_miss(real_world: World) -> None:
    fault = Latency("delay", "one-client", "to-node", (("c1", "n1"),), delay_ms=150)
    assert not fault.probe(real_world, Impact(slow_links=fault.links)).holds


def test_two_faults_on_one_link_heal_apart(real_world: World) -> None:
    links = (("c1", "n1"),)
    slow = Latency("delay", "one-client", "to-node", links, delay_ms=400)
    cut = Partition("some-links", "drop", "from-node", links)
    slow_impact, cut_impact = slow.inject(real_world, "f1"), cut.inject(real_world, "f2")
    assert cut.probe(real_world, cut_impact).holds
    healed = cut.heal(real_world, "f2", cut_impact)
    assert healed.holds
    assert "still impaired by another fault: c1 | n1" in healed.seen
    assert slow.probe(real_world, slow_impact).holds
    assert slow.heal(real_world, "f1", slow_impact).holds
    assert is_whole(real_world)


def test_a_partition_of_a_node_that_is_down_heals_while_it_stays_down(real_world: World) -> None:
    real_world.cluster.nodes["n1"].kill()
    links = tuple((c, n) for c in real_world.topology.clients for n in ("n1", "n2"))
    _, took, healed = takes_and_heals(real_world, Partition("minority", "drop", "from-node", links))
    assert "n1 out of service" in took.seen
    assert "10 of 20 links answer again; n1 out of service" in healed.seen


def test_nodes_are_paused_and_answer_again(real_world: World) -> None:
    _, took, healed = takes_and_heals(real_world, Pause(nodes=("n1", "n4")))
    assert (took.seen, healed.seen) == ("n1,n4 silent", "n1,n4 answering")


@pytest.mark.parametrize("nodes", [("n1",), ("n1", "n2"), ("n1", "n2", "n3", "n4", "n5")])
def test_nodes_are_killed_and_answer_again(real_world: World, nodes: tuple[str, ...]) -> None:
    real_world.cluster.nodes["n1"].pause()
    takes_and_heals(real_world, Crash(nodes=nodes))
    assert is_whole(real_world)


@pytest.mark.parametrize("fault", [Shutdown(nodes=("n1", "n2")), Crash(nodes=("n1",)), PowerCut(nodes=("n2", "n3"))])
@pytest.mark.needs("ext4")
def test_nodes_go_down_and_come_back_with_what_was_synced(powered_cluster: ProcessCluster, fault: Fault) -> None:
    world = World(powered_cluster, {}, topology(clients=2, nodes=3))
    for node in powered_cluster.nodes.values():
        assert resp.ask(node.address, ("SET", "lease", fault.describe()), timeout_ms=LONG_MS) == ["OK"]
    powered_cluster.nodes["n2"].pause()
    takes_and_heals(world, fault)
    powered_cluster.nodes["n2"].resume()
    for node in powered_cluster.nodes.values():
        assert resp.ask(node.address, ("GET", "lease"), timeout_ms=LONG_MS) == [fault.describe()]
    assert is_whole(world)


@pytest.mark.needs("ext4")
def test_faults_of_which_one_hits_a_node_without_power_again_heal_in_any_order(powered_cluster: ProcessCluster) -> None:
    world = World(powered_cluster, {}, topology(clients=2, nodes=3))
    power, crash = PowerCut(nodes=("n1",)), Crash(nodes=("n1",))
    impacts = [power.inject(world, "f1"), crash.inject(world, "f2"), power.inject(world, "f3")]
    for fault, owner, impact in zip((crash, power, power), ("f2", "f1", "f3"), impacts, strict=True):
        assert fault.heal(world, owner, impact).holds


def test_clients_are_caught_inside_every_time(real_world: World, real_clients: dict[str, ProcessClient]) -> None:
    world = World(real_world.cluster, real_clients, real_world.topology)
    for first in range(12):
        impact, took, _ = takes_and_heals(world, Pause(inside=True, first=first, clients=tuple(real_clients)))
        (name,) = impact.paused_clients
        assert took.seen == f"{name} stopped, {name} inside"
        assert real_clients[name].goes_in_and_out()


def test_clients_are_killed_and_run_again(real_world: World, real_clients: dict[str, ProcessClient]) -> None:
    world = World(real_world.cluster, real_clients, real_world.topology)
    takes_and_heals(world, Crash(clients=("c1", "c3")))
    assert all(client.goes_in_and_out() for client in real_clients.values())


def test_a_drawn_schedule_takes_and_heals_from_the_first_fault_to_the_last(
    real_world: World, real_clients: dict[str, ProcessClient]
) -> None:
    where = real_world.topology
    spec = parse_spec("partition+latency:delay=5ms-200ms+crash:targets=one")
    schedule = draw_schedule(spec, 11, where, 20_000)
    world = World(real_world.cluster, real_clients, where)
    assert len(schedule.faults) >= 12
    for planned in schedule.faults:
        takes_and_heals(world, decode_fault(planned), planned.id)
    assert is_whole(real_world)


@pytest.mark.parametrize(("why", "word"), [("out of memory", "OOM"), ("no replicas", "NOREPLICAS")])
def test_nodes_refuse_writes_and_take_them_again(real_world: World, why: Refusal, word: str) -> None:
    node = real_world.cluster.nodes["n2"]
    assert resp.ask(node.address, ("SET", "old", 1, "PX", 60_000), timeout_ms=LONG_MS) == ["OK"]
    fault = Errors(("n2", "n4"), why)
    impact = fault.inject(real_world, "f1")
    try:
        took = fault.probe(real_world, impact)
        assert (took.holds, took.seen) == (True, f"n2: {word}; n4: {word}")
        asked = (("SET", "new", 1), ("GET", "old"), ("PEXPIRE", "old", 90_000), ("DEL", "old"))
        new, old, longer, gone = resp.ask(node.address, *asked, timeout_ms=LONG_MS)
        assert (str(new).split()[0], old) == (word, "1")
        assert (longer, gone) == (1, 1) or (str(longer).split()[0], str(gone).split()[0]) == (word, word)
        assert (gone == 1) == (why == "out of memory")
        links = [(client, name) for client in real_world.topology.clients for name in ("n1", "n2")]
        seen = real_world.cluster.probe(links, LONG_MS)
        assert all(result.answered for result in seen.values())
        assert {name: {r.applied for link, r in seen.items() if link[1] == name} for name in ("n1", "n2")} == {
            "n1": {True},
            "n2": {None},
        }, "a probe of a link cannot see whether such a node executed it"
    finally:
        healed = fault.heal(real_world, "f1", impact)
    assert (healed.holds, healed.seen) == (True, "n2,n4 take writes again")
    assert is_whole(real_world)


def test_a_cut_to_a_node_that_refuses_writes_is_seen_by_its_silence(real_world: World) -> None:
    refusing = Errors(("n1",), "no replicas")
    impact = refusing.inject(real_world, "f1")
    try:
        _, took, _ = takes_and_heals(real_world, Partition("some-links", "drop", "from-node", (("c1", "n1"),)), "f2")
    finally:
        assert refusing.heal(real_world, "f1", impact).holds
    assert "n1 out of service, so only the silence was seen" in took.seen

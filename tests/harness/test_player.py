"""Playing a schedule, with faults that wait for their moments."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from time import monotonic, monotonic_ns
from typing import Any

import msgspec
import pytest

from cluster.address import ProbeResult
from cluster.base import NotInTimeError
from cluster.server import Holdings
from fencepost.errors import BrokenEnvironmentError
from fencepost.history import FaultEvent
from harness.run.player import LOOK_EVERY_MS, Player
from nemesis.pause import Pause
from nemesis.schedule import Planned, PlannedFor, Schedule, draw_schedule, load_schedule, parse_spec
from tests.nemesis.fakes import FakeWorld, topology


class AtOnce(Executor):
    """Does every step at once, in the caller's thread, so that the test's clock is the only one."""

    def submit(self, step: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(step(*args, **more))
        except Exception as error:
            future.set_exception(error)
        return future


class Later(AtOnce):
    """Does each step only once the clock shows 900 ms more: it waited for another fault."""

    def __init__(self, clock: list[int]) -> None:
        self._clock = clock

    def submit(self, step: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        self._clock[0] += 900_000_000
        return super().submit(step, *args, **more)


def schedule(spec: str) -> Schedule:
    return draw_schedule(parse_spec(spec), 7, topology(clients=2), 10_000)


@pytest.fixture
def grants(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Values of locks; each is seen on exactly a majority, with every node that could be struck, once."""
    waiting: list[bytes] = []

    def look(_watch: object, timeout_ms: float = 0) -> Holdings:
        if not waiting:
            return {}
        value = waiting.pop()
        return {node: {"k1": value} for node in ("n1", "n2", "n3")}

    monkeypatch.setattr("tests.nemesis.fakes.FakeKeyReader.look", look)
    return waiting


def test_a_schedule_that_is_played_as_it_was_planned_needs_no_second_one() -> None:
    player = Player(schedule("crash:targets=one"), FakeWorld(topology(clients=2)).world, lambda _: None, AtOnce())
    player.play(9_000)
    player.heal_all()
    assert player.played() is None


def test_a_fault_that_had_to_wait_lasts_as_long_as_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is killed late and back in time would have forgotten its locks within a lease."""
    clock = [10**15]
    for module in ("player", "active_faults"):
        monkeypatch.setattr(f"harness.run.{module}.monotonic_ns", lambda: clock[0])
    plan = schedule("crash:targets=one,restart-delay=600ms,interval=9s")
    (planned,) = plan.faults
    world = FakeWorld(topology(clients=2))
    player = Player(plan, world.world, lambda _: None, Later(clock))
    player.play(planned.at_ms)
    player.play(planned.at_ms)
    assert player.next_ms() == planned.at_ms + 900 + 600


def test_what_a_hunt_finds_is_injected_healed_recorded_and_can_be_replayed(
    grants: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemesis.hunt.shuffled", lambda _rng, items: sorted(items, reverse=True))
    world, events = FakeWorld(topology(clients=2)), list[FaultEvent]()
    player = Player(schedule("hunt"), world.world, events.append, AtOnce())
    player.play(0)
    assert player.next_ms() == LOOK_EVERY_MS
    player.play(4)
    assert "n1.kill" not in world.calls
    grants.append(b"v")
    player.play(8)
    assert world.calls[-1] == "n1.kill"
    player.play(50)
    assert world.calls[-1] == "n1.start"
    player.heal_all()
    assert not any(link.owners() for link in world.cluster.links.values())
    assert [(event.event, event.fault) for event in events] == [
        ("injected", "f1"),
        ("injected", "f1.1"),
        ("injected", "f1.2"),
        ("healed", "f1.2"),
        ("healed", "f1.1"),
        ("healed", "f1"),
    ]

    played = player.played()
    assert played is not None
    assert [(planned.nemesis, planned.at_ms) for planned in played.faults] == [("partition", 0), ("crash", 8)]
    saved = tmp_path / "played.json"
    saved.write_bytes(played.to_bytes())
    assert load_schedule(saved, topology(clients=2)) == played

    again = FakeWorld(topology(clients=2))
    replay = Player(played, again.world, lambda _: None, AtOnce())
    replay.play(7)
    assert "n1.kill" not in again.calls
    replay.play(8)
    assert again.calls[-1] == "n1.kill"


@pytest.mark.parametrize(("at_ms", "strikes"), [(7_900, True), (8_100, False)])
def test_a_hunt_takes_down_no_node_that_could_not_be_back_before_the_end(
    at_ms: float, strikes: bool, grants: list[bytes]
) -> None:
    """The load of 10 s heals until 9 s, and the node stays down for one."""
    world = FakeWorld(topology(clients=2))
    player = Player(schedule("hunt:restart-delay=1s"), world.world, lambda _: None, AtOnce())
    player.play(0)
    player.play(at_ms - LOOK_EVERY_MS)
    grants.append(b"v")
    player.play(at_ms)
    assert any(call.endswith(".kill") for call in world.calls) is strikes
    player.heal_all()


def test_a_fault_that_cannot_be_injected_in_time_is_recorded_as_such_and_the_others_are_played() -> None:
    world, events = FakeWorld(topology(clients=2)), list[FaultEvent]()
    world.cluster.is_slow, world.cluster.patience_s = True, 0.01
    player = Player(schedule("partition+crash:targets=one"), world.world, events.append, AtOnce())
    while (due_ms := player.next_ms()) is not None and due_ms < 9_000:
        player.play(due_ms)
    player_events = [(event.nemesis, event.event, event.holds) for event in events]
    assert ("partition", "injected", False) in player_events
    assert ("crash", "injected", True) in player_events
    (first, *_) = (event for event in events if event.nemesis == "partition")
    assert first.seen.startswith("not injected in time: ")
    assert first.cut_links, "it may have cut any of them"

    assert ("partition", "healed", True) not in player_events, "healing was not done in time either"
    world.cluster.is_slow = False
    again_ns = monotonic_ns()
    player.heal_all()
    healed = [event for event in events if event.nemesis == "partition" and event.event == "healed"]
    assert healed
    assert all(event.holds for event in healed)
    assert any(event.began_ns < again_ns for event in healed), "from the first try to heal it on"
    assert not any(link.owners() for link in world.cluster.links.values())


def test_an_injection_under_way_is_called_off_when_the_load_is_over() -> None:
    world, events = FakeWorld(topology(clients=2)), list[FaultEvent]()
    world.cluster.is_slow, world.cluster.patience_s = True, 60.0
    asked = iter([False, False, True])
    player = Player(
        schedule("partition"), replace(world.world, called_off=lambda: next(asked)), events.append, AtOnce()
    )
    began = monotonic()
    player.play(player.next_ms() or 0)
    assert monotonic() - began < world.cluster.patience_s
    assert [event.holds for event in events] == [False]
    world.cluster.is_slow = False
    player.heal_all()
    assert events[-1].event == "healed"
    assert events[-1].holds, "what the end of the load called off does not keep from healing"


def two_faults_at_once(second: str = "partition") -> Schedule:
    """A crash of n1 and a partition, or another crash, at the same time, for as long as the test lasts."""
    cut = {"shape": "some-links", "kind": "drop", "direction": "both", "links": [["c1", "n2"]]}
    faults = (
        Planned("f1", 0, 60_000, "crash", {"nodes": ["n1"], "clients": []}),
        Planned("f2", 0, 60_000, second, cut if second == "partition" else {"nodes": ["n2"], "clients": []}),
    )
    of = topology(clients=2)
    return Schedule(1, 7, "crash", PlannedFor(of.clients, of.nodes, of.ttl_ms), 120_000, faults)


def test_a_fault_that_takes_long_to_inject_does_not_delay_one_of_links(monkeypatch: pytest.MonkeyPatch) -> None:
    world, events, may_go_on = FakeWorld(topology(clients=2)), list[FaultEvent](), Event()
    kill = world.cluster.nodes["n1"].kill
    monkeypatch.setattr(world.cluster.nodes["n1"], "kill", lambda: may_go_on.wait(30) and kill())
    player = Player(two_faults_at_once(), world.world, events.append)
    player.play(0)
    deadline = time.monotonic() + 30
    while not events and time.monotonic() < deadline:
        player.play(1)
    assert [event.fault for event in events] == ["f2"]
    may_go_on.set()
    player.heal_all()
    assert sorted((event.event, event.fault) for event in events) == [
        ("healed", "f1"), ("healed", "f2"), ("injected", "f1"), ("injected", "f2"),
    ]  # fmt: skip
    assert all(node.running for node in world.cluster.nodes.values())


def test_two_faults_of_processes_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world, at_work, most = FakeWorld(topology(clients=2)), list[str](), list[int]()

    def slowly(name: str) -> None:
        at_work.append(name)
        most.append(len(at_work))
        time.sleep(0.05)
        at_work.remove(name)

    for name in ("n1", "n2"):
        monkeypatch.setattr(world.cluster.nodes[name], "kill", partial(slowly, name))
    player = Player(two_faults_at_once("crash"), world.world, lambda _: None)
    player.play(0)
    player.heal_all()
    assert most == [1, 1]


def test_a_fault_that_waits_for_its_moment_delays_no_other() -> None:
    world, events = FakeWorld(topology(clients=2)), list[FaultEvent]()
    aimed = Pause(clients=("c1", "c2"), nodes=(), inside=True)
    of = topology(clients=2)
    faults = (
        Planned("f1", 0, 60_000, "pause", msgspec.to_builtins(aimed)),
        Planned("f2", 1, 60_000, "crash", {"nodes": ["n2"], "clients": []}),
    )
    plan = Schedule(1, 7, "standard", PlannedFor(of.clients, of.nodes, of.ttl_ms), 120_000, faults)
    player = Player(plan, world.world, events.append)
    player.play(0)
    deadline = time.monotonic() + 30
    while len(events) < 2 and time.monotonic() < deadline:
        player.play(1)
    player.heal_all()
    assert [(event.fault, event.holds) for event in events[:2]] == [("f2", True), ("f1", False)]


def test_what_a_fault_raises_is_raised_by_the_player_and_everything_is_healed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> None:
        raise BrokenEnvironmentError("n1 cannot be killed")

    world = FakeWorld(topology(clients=2))
    monkeypatch.setattr(world.cluster.nodes["n1"], "kill", broken)
    player = Player(two_faults_at_once(), world.world, lambda _: None)

    def play_for_ever() -> None:
        for now_ms in range(30_000):
            player.play(now_ms)
            time.sleep(0.001)

    with pytest.raises(BrokenEnvironmentError, match="n1 cannot be killed"):
        play_for_ever()
    player.heal_all()
    assert all(node.running for node in world.cluster.nodes.values())


@pytest.mark.parametrize(("verb", "nemesis"), [("kill", "crash"), ("pause", "pause")])
def test_a_server_that_the_end_of_the_run_did_not_wait_for_is_recorded_as_perhaps_hit(
    monkeypatch: pytest.MonkeyPatch, verb: str, nemesis: str
) -> None:
    def called_off() -> None:
        raise NotInTimeError("n1 was not awaited")

    world, events = FakeWorld(topology(clients=2)), list[FaultEvent]()
    monkeypatch.setattr(world.cluster.nodes["n1"], verb, called_off)
    fault = Planned("f1", 0, 60_000, nemesis, {"nodes": ["n1"], "clients": []})
    player = Player(
        msgspec.structs.replace(two_faults_at_once(), faults=(fault,)), world.world, events.append, AtOnce()
    )
    player.play(0)
    (event,) = events
    assert (event.nodes, event.holds) == (("n1",), False)
    assert event.seen.startswith("not injected in time: ")


def test_once_the_time_for_healing_is_over_no_link_is_probed_again_and_again() -> None:
    world, events = FakeWorld(topology(clients=2)), list[FaultEvent]()
    player = Player(two_faults_at_once(), replace(world.world, out_of_time=lambda: True), events.append, AtOnce())
    player.play(0)
    world.cluster.probes.clear()
    world.cluster.links["c1", "n2"].probe = lambda *_: ProbeResult(False, False, False, 1.0)  # type: ignore[method-assign]
    with pytest.raises(NotInTimeError, match="n1 stayed down, because leases granted there still ran"):
        player.heal_all()
    assert world.cluster.probes == [(("c1", "n2"),)]
    assert not next(event for event in events if event.event == "healed" and event.fault == "f2").holds


def crashes(*planned: tuple[float, int, str], ttl_ms: int = 100) -> tuple[Schedule, FakeWorld]:
    """Each: when, how long, and of which node."""
    faults = tuple(
        Planned(f"f{number}", int(at_ms), lasts_ms, "crash", {"nodes": [node], "clients": []})
        for number, (at_ms, lasts_ms, node) in enumerate(planned, 1)
    )
    of = topology(clients=2, ttl_ms=ttl_ms)
    return Schedule(1, 7, "crash", PlannedFor(of.clients, of.nodes, of.ttl_ms), 120_000, faults), FakeWorld(of)


@pytest.mark.parametrize(("lasts_ms", "least_ms"), [(0, 0), (50, 50), (60_000, 120)])
def test_however_a_load_ends_a_node_stays_down_for_its_delay_or_the_longest_lease(lasts_ms: int, least_ms: int) -> None:
    """A kill that came late, a load that was ended early: clients still work, and a node that is back would grant again
    what it has forgotten."""
    plan, world = crashes((0, lasts_ms, "n1"))
    events: list[FaultEvent] = []
    player = Player(plan, world.world, events.append, AtOnce())
    player.play(0)
    player.heal_all()
    down, back = events
    assert (back.began_ns - down.done_ns) / 1e6 >= least_ms
    assert back.holds
    assert world.cluster.nodes["n1"].running


def test_a_node_is_not_brought_back_too_soon_by_a_clock_that_was_read_before_the_kill() -> None:
    """The player's time is read once a tick; the processor may be away between that and the kill."""
    plan, world = crashes((0, 200, "n1"), ttl_ms=1_000)
    events: list[FaultEvent] = []
    player = Player(plan, world.world, events.append, AtOnce())
    player.play(0)
    player.play(900)
    down, back = events
    assert (back.began_ns - down.done_ns) / 1e6 >= 200
    player.heal_all()


def test_when_the_user_stops_a_run_a_node_whose_leases_still_run_stays_down() -> None:
    plan, world = crashes((0, 60_000, "n1"), (0, 0, "n2"), ttl_ms=60_000)
    events: list[FaultEvent] = []
    player = Player(plan, replace(world.world, out_of_time=lambda: True), events.append, AtOnce())
    player.play(0)
    with pytest.raises(NotInTimeError, match="n1 stayed down"):
        player.heal_all()
    assert [event.fault for event in events if event.event == "healed"] == ["f2"]
    assert not world.cluster.nodes["n1"].running
    assert world.cluster.nodes["n2"].running


def test_a_node_is_back_when_the_last_fault_that_keeps_it_down_is_healed() -> None:
    """Brought back by the second fault, it would be killed by the third one, and brought back too soon by the first."""
    plan, world = crashes((0, 300, "n1"), (10, 50, "n1"), (150, 400, "n1"), ttl_ms=10)
    player = Player(plan, world.world, lambda _: None, AtOnce())
    began, up = monotonic(), False
    while not up and monotonic() - began < 30:
        player.play((monotonic() - began) * 1e3)
        up = world.cluster.nodes["n1"].running
        time.sleep(0.001)
    assert monotonic() - began >= 0.55
    assert world.calls.count("n1.start") == 1
    player.heal_all()

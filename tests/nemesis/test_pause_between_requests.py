"""A stop between two requests of one acquire: which client is stopped when, and what becomes of its connections."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from cluster.address import Address, LinkKey
from cluster.unread import UnreadReplies
from fencepost.errors import UsageError
from fencepost.history import Impact
from harness.checkers.judge import judge
from nemesis import pause, pause_between_requests
from nemesis.base import LateError, Step
from nemesis.pause import Pause
from nemesis.registry import nemeses
from nemesis.schedule import decode_fault, draw_schedule, parse_spec
from tests.nemesis.fakes import FakeWorld, topology
from tests.world.test_world import play

CLIENTS = ("c1", "c2", "c3")
LINKS = tuple((client, node) for client in CLIENTS for node in ("n1", "n2", "n3"))
OF_C2 = (("c2", "n1"), ("c2", "n2"), ("c2", "n3"))
BETWEEN = Pause(acquiring=True, clients=CLIENTS, most=1, after=0)


class Clock:
    """Time that passes only while something waits, and a little with each look at it."""

    def __init__(self) -> None:
        self._now_s = 100.0

    def now(self) -> float:
        self._now_s += 1e-6
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeWorld:
    """c1 is about to leave its section, the others acquire; a late reply reaches c2."""
    monkeypatch.setattr(pause, "CATCH_WITHIN_S", 0.4)
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.now)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    world = FakeWorld(topology(clients=3, nodes=3))
    world.world = replace(world.world, sleep=clock.sleep)
    looks = count()
    world.clients["c1"].inside = lambda: next(looks) < 5
    for name in ("c2", "c3"):
        world.clients[name].acquiring = lambda: True
    reaches(world, "c2")
    return world


def reaches(fake: FakeWorld, name: str, times: int = 1) -> None:
    """A reply reaches this client some ms after it was stopped, so many times."""
    looks = [count() for _ in range(times)]

    def unread() -> Collection[LinkKey]:
        stops = fake.calls.count(f"{name}.pause")
        return [(name, "n1")] if 0 < stops <= times and next(looks[stops - 1]) > 10 else []

    fake.cluster.has_arrived = unread


def test_a_client_that_a_reply_reaches_is_stopped_and_the_others_run_on(fake: FakeWorld) -> None:
    impact = BETWEEN.inject(fake.world, "f1")
    assert impact == Impact(slow_links=LINKS, paused_clients=("c2",))
    assert [client.paused for client in fake.clients.values()] == [False, True, False]
    assert "c3.resume" in fake.calls
    assert not any(link.owners() for link in fake.cluster.links.values())
    assert BETWEEN.probe(fake.world, impact).holds
    assert BETWEEN.heal(fake.world, "f1", impact).holds
    assert not fake.clients["c2"].paused


def test_what_was_asked_before_the_lock_was_free_is_no_reason_to_stop(fake: FakeWorld) -> None:
    fake.cluster.has_arrived = lambda: [("c2", "n1")] if fake.clients["c2"].paused else []
    assert pause_between_requests.stop_between(fake.world, "f1", list(fake.clients.values()), 0, 1, 0.2) == Impact(
        slow_links=LINKS
    )
    assert not any(client.paused for client in fake.clients.values())


def test_a_client_that_begins_to_acquire_alone_is_stopped_without_any_release(fake: FakeWorld) -> None:
    looks = count()
    fake.clients["c1"].inside = fake.clients["c3"].acquiring = lambda: False
    fake.clients["c2"].acquiring = lambda: next(looks) > 3
    assert BETWEEN.inject(fake.world, "f1").paused_clients == ("c2",)


def test_it_may_read_some_more_replies_first_one_at_a_time(fake: FakeWorld) -> None:
    reaches(fake, "c2", times=3)
    between = Pause(acquiring=True, clients=CLIENTS, most=1, after=2)
    assert between.inject(fake.world, "f1").paused_clients == ("c2",)
    own = [call for call in fake.calls if call.startswith("c2.")]
    assert own == ["c2.pause", "c2.resume", "c2.pause", "c2.resume", "c2.pause"]


def test_where_no_reply_reaches_any_client_one_is_stopped_as_it_is(fake: FakeWorld) -> None:
    fake.cluster.has_arrived = list
    impact = BETWEEN.inject(fake.world, "f1")
    assert len(impact.paused_clients) == 1
    assert sum(client.paused for client in fake.clients.values()) == 1


@pytest.mark.parametrize("at", ["acquiring", "releasing"])
def test_its_connections_are_closed_once_its_reply_is_there_and_the_next_ones_work(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch, at: Step
) -> None:
    if at == "releasing":
        monkeypatch.setattr(fake.clients["c2"], "is_at", lambda step: step in ("inside", "releasing"))
        lost = Pause(at="releasing", clients=CLIENTS, first=1, connection="lost")
    else:
        lost = Pause(acquiring=True, clients=CLIENTS, most=1, after=0, connection="lost")
    impact = lost.inject(fake.world, "f1")
    assert (impact.paused_clients, impact.cut_links) == (("c2",), OF_C2)
    cut = [f"{client}-{node}.cut f1 refuse both" for client, node in OF_C2]
    stopped, first_cut = max(n for n, call in enumerate(fake.calls) if call == "c2.pause"), fake.calls.index(cut[0])
    assert stopped < first_cut
    assert fake.calls[first_cut:] == [*cut, *(f"{client}-{node}.heal f1" for client, node in OF_C2)]
    assert "connections closed" in lost.probe(fake.world, impact).seen
    healed = lost.heal(fake.world, "f1", impact)
    assert healed.holds
    assert "3 of 3 links answer again" in healed.seen
    assert not any(link.owners() for link in fake.cluster.links.values())


def test_one_that_catches_no_client_says_so_and_closes_nothing(fake: FakeWorld) -> None:
    for client in fake.clients.values():
        client.inside = client.acquiring = lambda: False
    lost = Pause(acquiring=True, clients=CLIENTS, most=1, after=0, connection="lost")
    impact = lost.inject(fake.world, "f1")
    assert impact == Impact(slow_links=LINKS)
    evidence = lost.probe(fake.world, impact)
    assert not evidence.holds
    assert "no client was caught acquiring" in evidence.seen
    assert not any(".cut" in call for call in fake.calls)
    assert lost.heal(fake.world, "f1", impact).holds


def test_links_that_take_too_long_to_close_are_told_and_healed(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Pause(acquiring=True, clients=CLIENTS, most=1, after=0, connection="lost")
    whole = fake.cluster.restore

    def slow_from_now_on(*arguments: object) -> None:
        whole(*arguments)  # type: ignore[arg-type]
        fake.cluster.is_slow, fake.cluster.patience_s = True, 0.02

    monkeypatch.setattr(fake.cluster, "restore", slow_from_now_on)
    with pytest.raises(LateError) as late:
        lost.inject(fake.world, "f1")
    assert (late.value.impact.paused_clients, late.value.impact.cut_links) == (("c2",), OF_C2)
    fake.cluster.is_slow = False
    monkeypatch.setattr(fake.cluster, "restore", whole)
    assert lost.heal(fake.world, "f1", late.value.impact).holds
    assert not fake.clients["c2"].paused
    assert not any(link.owners() for link in fake.cluster.links.values())


def test_it_is_drawn_how_many_replies_are_read_first_and_a_lost_connection_is_asked_for() -> None:
    nemesis, of = nemeses()["pause"], topology()
    drawn = [nemesis.draw(Random(seed), of, pause.PauseOptions(targets="acquiring"))[0] for seed in range(40)]
    assert {fault.after for fault in drawn} == {0, 1, 2}  # type: ignore[attr-defined]
    assert not any(fault.connection for fault in drawn)  # type: ignore[attr-defined]
    for step in ("acquiring", "extending", "releasing"):
        spec = parse_spec(f"pause:targets={step},connection=lost")
        faults = [decode_fault(planned) for planned in draw_schedule(spec, 1, of, 20_000).faults]
        assert {fault.connection for fault in faults} == {"lost"}  # type: ignore[attr-defined]
        assert {"close its connections" in fault.describe() for fault in faults} == {True}


@pytest.mark.parametrize("targets", ["mixed", "inside", "nodes", "n1"])
def test_a_connection_is_lost_only_at_a_step_that_asks_the_nodes(targets: str) -> None:
    with pytest.raises(UsageError, match="connection=lost needs targets=acquiring, extending or releasing"):
        draw_schedule(parse_spec(f"pause:targets={targets},connection=lost"), 1, topology(), 20_000)


def test_the_kernel_says_which_client_has_not_read_its_reply() -> None:
    links = {("c1", "n1"): Address("127.0.0.1", 20_000), ("c2", "n1"): Address("127.0.0.1", 20_001)}
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
    sockets = [
        ("0100007F:C350", "0100007F:4E20", "00000000:00000000"),  # c1 has read all
        ("0100007F:C351", "0100007F:4E21", "00000000:00000005"),
        ("0100007F:4E20", "0100007F:C350", "00000000:00000009"),  # the proxy's end
        ("0200007F:C352", "0100007F:4E20", "00000000:00000007"),  # the harness's own
    ]
    table = [f" {n}: {local} {remote} 01 {queues} 00:00000000" for n, (local, remote, queues) in enumerate(sockets)]
    assert UnreadReplies(links).found_in("\n".join([head, *table])) == {("c2", "n1")}


@pytest.mark.parametrize(
    ("lock", "kinds"),
    [("tests.careless_locks:ConfirmsWithoutComparing", {"overlap"}), ("tests.correct_locks:TwoStepLock", set[str]())],
)
def test_a_lock_that_does_not_compare_in_its_second_request_is_found(lock: str, kinds: set[str]) -> None:
    faults = ("--nodes", "1", "--habits", "none", "--nemesis", "pause:targets=acquiring,interval=1s")
    history = play(lock, 1, *faults, "--hold", "uniform:20ms-120ms", "--clients", "5", "--duration", "15s")
    found = {each.kind for each in judge(history.recorded()).findings if each.blame == "lock"}
    assert found >= kinds
    assert bool(found) == bool(kinds)

"""A pause of a client that has the lock and does not know it: who is caught, and what is left of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

import pytest

from cluster.server import Holdings
from fencepost.history import Impact
from nemesis import pause, pause_before_reply
from nemesis.base import LateError, Step
from nemesis.pause import Pause
from tests.nemesis.fakes import FakeWorld, topology

UNTOLD = Pause(at="held-by-majority", first=1, clients=("c1", "c2"))
LINKS = (("c2", "n1"), ("c2", "n2"), ("c2", "n3"))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeWorld:
    monkeypatch.setattr(pause, "CATCH_WITHIN_S", 0.1)
    world = FakeWorld(topology(clients=3, nodes=3))
    world.clients["c2"].acquiring = lambda: True
    return world


def held(value: bytes, *nodes: str) -> Holdings:
    return {node: {"k1": value} for node in nodes}


def shows(fake: FakeWorld, *looks: Holdings) -> None:
    """What the nodes hold at one look after the other, the last one for ever."""
    seen = each(looks)
    fake.cluster.holds = lambda: next(seen)


def each(looks: Iterable[Holdings]) -> Iterator[Holdings]:
    for last in looks:
        yield last
    while True:
        yield last


def test_it_is_stopped_as_soon_as_a_majority_holds_its_value_and_its_links_are_healed(fake: FakeWorld) -> None:
    shows(fake, {}, held(b"mine", "n1"), held(b"mine", "n1", "n3"))
    impact = UNTOLD.inject(fake.world, "f1")
    assert impact == Impact(slow_links=LINKS, paused_clients=("c2",))
    delayed = [f"{client}-{node}.delay f1 {pause_before_reply.REPLIES_LATE_MS} 0 from-node" for client, node in LINKS]
    assert fake.calls == [*delayed, "c2.pause", *(f"{client}-{node}.heal f1" for client, node in LINKS)]
    evidence = UNTOLD.probe(fake.world, impact)
    assert (evidence.holds, evidence.seen) == (True, "c2 stopped, c2 acquiring")
    healed = UNTOLD.heal(fake.world, "f1", impact)
    assert (healed.holds, healed.seen) == (True, "c2 running")
    assert not any(link.owners() for link in fake.cluster.links.values())


def test_a_lock_that_uses_a_single_node_is_held_when_that_node_holds_it(fake: FakeWorld) -> None:
    shows(fake, held(b"theirs", "n1"), {}, held(b"mine", "n1"))
    assert UNTOLD.inject(fake.world, "f1").paused_clients == ("c2",)


def test_of_those_that_may_have_it_half_is_stopped_together(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWorld(topology(clients=9, nodes=3))
    for name in ("c2", "c5", "c6", "c7"):
        fake.clients[name].acquiring = lambda: True
    shows(fake, {}, held(b"mine", "n1", "n3"))
    of = Pause(at="held-by-majority", first=5, clients=fake.world.topology.clients)
    assert of.inject(fake.world, "f1").paused_clients == ("c6", "c7", "c2", "c5")


def test_where_no_client_is_inside_one_is_caught_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pause, "CATCH_WITHIN_S", 0.1)
    fake = FakeWorld(topology(clients=3, nodes=3))
    monkeypatch.setattr(fake.clients["c3"], "is_at", lambda step: step == "releasing")
    releasing = Pause(at="releasing", first=0, clients=("c1", "c2", "c3"))
    assert releasing.inject(fake.world, "f1") == Impact(paused_clients=("c3",))


def test_where_leases_are_long_a_client_is_awaited_for_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pause, "CATCH_WITHIN_S", 0.01)
    fake = FakeWorld(topology(clients=3, nodes=3))
    looks = count()
    monkeypatch.setattr(fake.clients["c3"], "is_at", lambda step: step == "releasing" and next(looks) >= 40)
    releasing = Pause(at="releasing", first=0, clients=("c1", "c2", "c3"))
    assert releasing.inject(fake.world, "f1") == Impact(paused_clients=("c3",))


def test_one_that_releases_is_caught_before_its_late_replies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pause, "CATCH_WITHIN_S", 0.1)
    fake = FakeWorld(topology(clients=3, nodes=3))
    fake.clients["c2"].inside = lambda: True
    is_late = lambda: any(call.startswith("c2-n3.delay") for call in fake.calls)  # noqa: E731
    monkeypatch.setattr(fake.clients["c2"], "is_at", lambda step: step == ("releasing" if is_late() else "inside"))
    releasing = Pause(at="releasing", first=2, clients=("c1", "c2", "c3"))
    assert releasing.inject(fake.world, "f1") == Impact(slow_links=LINKS, paused_clients=("c2",))
    assert not any(link.owners() for link in fake.cluster.links.values())


@pytest.mark.parametrize(("after", "requests", "stopped_at"), [(0, 3, 0), (1, 3, 1), (2, 3, 2), (2, 2, 1), (1, 1, 0)])
def test_one_that_extends_reads_some_late_replies_first_if_it_has_so_many_requests(
    monkeypatch: pytest.MonkeyPatch, after: int, requests: int, stopped_at: int
) -> None:
    """It extends for as many late replies, again and again. `stopped_at`: at which request."""
    fake = FakeWorld(topology(clients=3, nodes=3))
    slept_ms = [0.0]
    world = replace(fake.world, sleep=lambda seconds: slept_ms.append(seconds * 1000))
    request = lambda: int(sum(slept_ms) / pause_before_reply.REPLIES_LATE_MS) % (requests + 1)  # noqa: E731
    fake.clients["c2"].inside = lambda: True
    monkeypatch.setattr(
        fake.clients["c2"], "is_at", lambda step: step == ("extending" if request() < requests else "inside")
    )
    extending = Pause(at="extending", first=1, after=after, clients=("c1", "c2", "c3"))
    assert extending.inject(world, "f1").paused_clients == ("c2",)
    assert request() == stopped_at


@pytest.mark.parametrize("where", ["inside", "releasing"])
def test_if_another_client_turns_out_to_have_the_lock_it_runs_on(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch, where: Step
) -> None:
    shows(fake, {}, held(b"theirs", "n1", "n2", "n3"))
    other = fake.clients["c1"]
    # It is told of its lock only after the wrong client was stopped.
    monkeypatch.setattr(other, "is_at", lambda step: step == where and "c2.pause" in fake.calls)
    impact = UNTOLD.inject(fake.world, "f1")
    assert impact == Impact(slow_links=LINKS)
    assert [call for call in fake.calls if call.startswith("c2.")] == ["c2.pause", "c2.resume"]
    evidence = UNTOLD.probe(fake.world, impact)
    assert not evidence.holds
    assert "no client was caught untold that a majority held its value" in evidence.seen


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param(({},), id="nothing is held"),
        pytest.param((held(b"x", "n1"),), id="by a minority only"),
        pytest.param((held(b"old", "n1", "n2"),), id="held before"),
    ],
)
def test_what_no_majority_began_to_hold_stops_nobody(fake: FakeWorld, looks: tuple[Holdings, ...]) -> None:
    shows(fake, *looks)
    assert UNTOLD.inject(fake.world, "f1") == Impact(slow_links=LINKS)
    assert "c2.pause" not in fake.calls
    assert not any(link.owners() for link in fake.cluster.links.values())


def test_one_that_holds_another_lock_and_knows_it_is_not_taken_for_it(fake: FakeWorld) -> None:
    fake.clients["c1"].inside = lambda: True
    both = {node: {"k1": b"mine", "k2": b"theirs"} for node in ("n1", "n2")}
    shows(fake, {node: {"k2": b"theirs"} for node in ("n1", "n2")}, both)
    assert UNTOLD.inject(fake.world, "f1").paused_clients == ("c2",)


def test_a_value_that_appears_while_its_predecessor_is_on_its_way_out_is_looked_at_again(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows(fake, {}, held(b"mine", "n1", "n2"))
    on_its_way_out = iter([True])
    monkeypatch.setattr(fake.clients["c1"], "is_at", lambda step: step == "releasing" and next(on_its_way_out, False))
    assert UNTOLD.inject(fake.world, "f1").paused_clients == ("c2",)


def test_a_value_that_is_older_than_its_replies_is_given_up(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pause_before_reply, "REPLIES_LATE_MS", 0)
    shows(fake, {}, held(b"theirs", "n1", "n2"))
    assert UNTOLD.inject(fake.world, "f1").paused_clients == ()


def test_links_that_take_too_long_are_told_with_the_client_that_may_stand(fake: FakeWorld) -> None:
    shows(fake, {}, held(b"mine", "n1", "n2"))
    fake.cluster.is_slow, fake.cluster.patience_s = True, 0.02
    with pytest.raises(LateError) as late:
        UNTOLD.inject(fake.world, "f1")
    assert late.value.impact == Impact(slow_links=LINKS, paused_clients=("c2",))
    fake.cluster.is_slow = False
    assert UNTOLD.heal(fake.world, "f1", late.value.impact).holds
    assert not any(link.owners() for link in fake.cluster.links.values())
    assert not fake.clients["c2"].paused


def test_it_needs_a_server_that_can_list_its_keys() -> None:
    assert UNTOLD.needs.server == {"a list of keys"}
    assert Pause(inside=True).needs.server == frozenset()

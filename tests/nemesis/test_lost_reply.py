"""A reply that is lost once: whose connections are closed, when, and that the next ones work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from cluster.server import Holdings
from fencepost.history import Impact, Links
from nemesis import lost_reply
from nemesis.base import LateError, Step
from nemesis.lost_reply import LostReply, LostReplyOptions
from nemesis.registry import nemeses
from nemesis.schedule import decode_fault, draw_schedule, parse_spec
from tests.nemesis.fakes import FakeWorld, topology

CLIENTS, NODES = ("c1", "c2"), ("n1", "n3")
OF_C2 = (("c2", "n1"), ("c2", "n3"))
LINKS = (("c1", "n1"), ("c1", "n3"), *OF_C2)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeWorld:
    monkeypatch.setattr(lost_reply, "CATCH_WITHIN_S", 0.1)
    return FakeWorld(topology(clients=2, nodes=3))


def comes_to(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch, name: str, step: Step, looks: int = 9) -> None:
    """The client is at the step from the second time on that it is asked, and so often."""
    asked = iter([False] + [True] * looks)
    monkeypatch.setattr(fake.clients[name], "is_at", lambda at: at == step and next(asked, False))


def holds(fake: FakeWorld, *looks: Holdings) -> None:
    def each() -> Iterator[Holdings]:
        yield from looks
        while True:
            yield looks[-1]

    seen = each()
    fake.cluster.holds = lambda: next(seen)


@pytest.mark.parametrize("step", ["releasing", "extending"])
def test_a_client_loses_its_connections_when_it_comes_to_the_step(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch, step: lost_reply.LostAt
) -> None:
    comes_to(fake, monkeypatch, "c2", step)
    fault = LostReply(step, CLIENTS, NODES)
    impact = fault.inject(fake.world, "f1")
    assert impact == Impact(cut_links=OF_C2, slow_links=LINKS)
    late = [f"{client}-{node}.delay f1 20 0 from-node" for client, node in LINKS]
    cut = [f"{client}-{node}.cut f1 refuse both" for client, node in OF_C2]
    assert fake.calls == [*late, *cut, *(f"{client}-{node}.heal f1" for client, node in LINKS)]
    assert fault.probe(fake.world, impact).holds
    assert fault.heal(fake.world, "f1", impact).holds


def test_a_client_that_was_at_the_step_already_or_never_comes_is_left_alone(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake.clients["c2"], "is_at", lambda at: at == "releasing")
    fault = LostReply("releasing", CLIENTS, NODES)
    impact = fault.inject(fake.world, "f1")
    assert impact == Impact(slow_links=LINKS)
    assert not fault.probe(fake.world, impact).holds
    assert not any(link.owners() for link in fake.cluster.links.values())


def test_an_acquire_has_done_its_work_when_a_node_holds_what_no_client_knows(fake: FakeWorld) -> None:
    fake.clients["c2"].acquiring = lambda: True
    holds(fake, {}, {}, {"n2": {"k1": b"mine"}})
    fault = LostReply("acquiring", CLIENTS, NODES)
    assert fault.inject(fake.world, "f1").cut_links == OF_C2


def test_what_a_client_knows_it_holds_is_no_acquire_under_way(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.clients["c2"].acquiring = lambda: True
    monkeypatch.setattr(fake.clients["c1"], "is_at", lambda at: at == "inside")
    holds(fake, {}, {}, {"n2": {"k1": b"theirs"}})
    assert LostReply("acquiring", CLIENTS, NODES).inject(fake.world, "f1").cut_links == ()


def test_a_key_that_was_there_before_is_no_acquire_under_way(fake: FakeWorld) -> None:
    fake.clients["c2"].acquiring = lambda: True
    holds(fake, {"n2": {"k1": b"left"}})
    assert LostReply("acquiring", CLIENTS, NODES).inject(fake.world, "f1").cut_links == ()


def test_a_lock_that_extends_its_lease_by_itself_has_done_so_when_its_key_has_more_time_left(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(values: Sequence[bytes], left_ms: Sequence[int]) -> Links:
        looks, times = iter(values), iter(left_ms)
        fake.cluster.holds = lambda: {"n2": {"k1": next(looks, values[-1])}}
        fake.cluster.left = lambda: {"n2": {"k1": next(times, left_ms[-1])}}
        return LostReply("extending", CLIENTS, NODES).inject(fake.world, "f1").cut_links

    monkeypatch.setattr(fake.clients["c2"], "is_at", lambda at: at == "inside")
    assert cut([b"mine"], [300, 200, 400]) == OF_C2
    assert cut([b"mine"], [300, 200, 100]) == ()
    assert cut([b"mine", b"mine", b"theirs"], [300, 200, 400]) == (), "a new key is no extension"
    monkeypatch.setattr(fake.clients["c2"], "is_at", lambda at: False)
    assert cut([b"mine"], [300, 200, 400]) == ()


def test_links_that_take_too_long_are_all_told(fake: FakeWorld) -> None:
    fake.cluster.is_slow, fake.cluster.patience_s = True, 0.02
    with pytest.raises(LateError) as late:
        LostReply("releasing", CLIENTS, NODES).inject(fake.world, "f1")
    assert late.value.impact == Impact(cut_links=LINKS)


def test_an_acquire_or_a_release_is_drawn_and_a_step_that_is_asked_for_alone() -> None:
    nemesis, of = nemeses()["lost-reply"], topology(clients=2, nodes=3)
    drawn = [nemesis.draw(Random(seed), of, LostReplyOptions())[0] for seed in range(40)]
    assert {fault.at for fault in drawn} == {"acquiring", "releasing"}  # type: ignore[attr-defined]
    assert {len(fault.nodes) for fault in drawn} == {1, 2, 3}  # type: ignore[attr-defined]
    only = nemesis.draw(Random(1), of, LostReplyOptions(at="extending", nodes="all"))[0]
    assert (only.at, only.nodes) == ("extending", of.nodes)  # type: ignore[attr-defined]


def test_each_step_can_be_asked_for_on_the_command_line() -> None:
    for step in ("acquiring", "extending", "releasing"):
        schedule = draw_schedule(parse_spec(f"lost-reply:at={step},nodes=all"), 1, topology(2, 3), 20_000)
        faults = [decode_fault(planned) for planned in schedule.faults]
        assert {fault.at for fault in faults} == {step}  # type: ignore[attr-defined]

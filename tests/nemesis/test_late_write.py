"""Late writes: what a client inside sends to the resource is held."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from fencepost.history import Impact
from nemesis import late_write
from nemesis.base import LateError
from nemesis.late_write import NEMESIS, LateWrite, LateWriteOptions
from tests.golden import Golden
from tests.nemesis.fakes import FakeWorld, topology

FAULT = LateWrite(("c1", "c2", "c3"), first=1)


@pytest.fixture
def fake() -> FakeWorld:
    return FakeWorld(topology(clients=3))


def test_the_writes_of_the_first_client_inside_are_held_and_let_go(fake: FakeWorld, golden: Golden) -> None:
    fake.clients["c1"].inside = fake.clients["c3"].inside = lambda: True
    impact = FAULT.inject(fake.world, "f1")
    assert impact == Impact(cut_links=(("c3", "resource"),))
    assert fake.calls == ["c3-resource.cut f1 hold to-node"]
    evidence = FAULT.probe(fake.world, impact)
    assert evidence.holds
    golden(evidence.seen)
    healed = FAULT.heal(fake.world, "f1", impact)
    assert (healed.holds, healed.seen) == (True, "1 of 1 links answer again")
    assert not fake.cluster.links["c3", "resource"].owners()


def test_a_fault_that_finds_nobody_inside_had_no_effect(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_write, "CATCH_WITHIN_S", 0.01)
    impact = FAULT.inject(fake.world, "f1")
    assert impact == Impact()
    assert not FAULT.probe(fake.world, impact).holds
    assert FAULT.heal(fake.world, "f1", impact).holds
    assert fake.calls == []


def test_a_stopped_client_is_not_chosen_because_it_sends_nothing(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_write, "CATCH_WITHIN_S", 0.01)
    fake.clients["c2"].inside = lambda: True
    fake.clients["c2"].paused = True
    assert FAULT.inject(fake.world, "f1") == Impact()


def test_a_link_that_lets_requests_through_is_a_miss(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr(late_write, "RETRY_FOR_S", 0.0)
    fake.clients["c2"].inside = lambda: True
    impact = FAULT.inject(fake.world, "f1")
    fake.cluster.links["c2", "resource"].heal("f1")
    evidence = FAULT.probe(fake.world, impact)
    assert evidence.holds is False
    golden(evidence.seen)


def test_a_fault_that_was_not_injected_in_time_is_healed_all_the_same(fake: FakeWorld) -> None:
    fake.clients["c2"].inside = lambda: True
    fake.cluster.is_slow, fake.cluster.patience_s = True, 0.01
    with pytest.raises(LateError) as late:
        FAULT.inject(fake.world, "f1")
    assert late.value.impact.cut_links == (("c2", "resource"),)
    fake.cluster.is_slow = False
    assert FAULT.heal(fake.world, "f1", Impact()).holds, "also when nobody knows what was hit"
    assert not fake.cluster.links["c2", "resource"].owners()


def test_the_hold_outlasts_the_lease_unless_told_otherwise() -> None:
    rng, of = Random(1), topology(clients=3, ttl_ms=1_000)
    drawn = [NEMESIS.draw(rng, of, LateWriteOptions()) for _ in range(200)]
    assert all(1_200 <= duration_ms <= 2_500 for _, duration_ms in drawn)
    assert {fault.first for fault, _ in drawn} == {0, 1, 2}
    assert {fault.clients for fault, _ in drawn} == {of.clients}
    assert msgspec.convert(msgspec.to_builtins(drawn[0][0]), LateWrite) == drawn[0][0]

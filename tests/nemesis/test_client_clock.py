"""The wrong clock of a client: what is set, and what a probe believes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster.wall_clock import RIGHT, ClockAhead, ClockSetting
from fencepost.errors import UsageError
from nemesis.base import World
from nemesis.client_clock import WrongClientClock
from tests.nemesis.fakes import FakeClient, FakeWorld, topology


class ClientWithClock(FakeClient):
    setting = RIGHT
    uses_it = True

    def set_clock(self, setting: ClockSetting) -> None:
        self.setting = setting

    def clock_ahead(self) -> ClockAhead | None:
        ahead_ms = self.setting.ahead_ms
        return ClockAhead(ahead_ms - 1, ahead_ms + 1) if self.uses_it else None


FAULT = WrongClientClock("c1", -500)


def world_with(client: FakeClient) -> World:
    return replace(FakeWorld(topology(clients=1, nodes=3)).world, clients={"c1": client})


def test_a_client_s_clock_is_set_seen_and_set_right() -> None:
    client = ClientWithClock("c1", [])
    world = world_with(client)
    assert FAULT.describe() == "clock of c1: 500 ms behind"
    impact = FAULT.inject(world, "f1")
    assert client.setting == ClockSetting(-500)
    assert FAULT.probe(world, impact).seen == "a process with the clock of c1 is -500 ms ahead"
    assert FAULT.probe(world, impact).holds
    assert FAULT.heal(world, "f1", impact).holds
    assert client.setting == RIGHT
    assert not FAULT.probe(world, impact).holds


def test_a_client_that_does_not_use_its_clock_shows_nothing() -> None:
    client = ClientWithClock("c1", [])
    client.uses_it = False
    world = world_with(client)
    assert not FAULT.probe(world, FAULT.inject(world, "f1")).holds


def test_a_client_without_a_clock_cannot_be_given_a_wrong_one() -> None:
    with pytest.raises(UsageError, match="c1 has no wall clock"):
        FAULT.inject(world_with(FakeClient("c1", [])), "f1")

"""What a fault hits is what it says, whatever its fields are called."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from fencepost.errors import UsageError
from fencepost.history import Impact
from fencepost.units import Duration
from harness.shrink.edits import hitting, targets
from nemesis import registry
from nemesis.base import Evidence, TargetFields, Targets, Topology, World
from nemesis.schedule import Schedule, draw_schedule, load_schedule, parse_spec
from tests.nemesis.fakes import topology


class Unnamed(TargetFields, frozen=True):
    """Its field has a name of its own."""

    victims: tuple[str, ...]

    def describe(self) -> str:
        return f"look at {','.join(self.victims)}"

    def inject(self, world: World, owner: str) -> Impact:
        return Impact()

    def probe(self, world: World, impact: Impact) -> Evidence:
        return Evidence(True, "seen")

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        return Evidence(True, "seen")


class Named(Unnamed, frozen=True):
    """It says what that field is."""

    @property
    def targets(self) -> Targets:
        return Targets(clients=self.victims)

    def only(self, targets: Targets) -> Named:
        return Named(targets.clients)


class Options(msgspec.Struct, frozen=True):
    interval: Duration = Duration(500)


class Toy:
    name, help, options = "toy", "looks", Options

    def __init__(self, faults: type[Any]) -> None:
        self.faults = faults

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Any, int]:
        return self.faults(topology.clients), 100


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Schedule:
    for module in ("schedule", "spec"):
        monkeypatch.setattr(f"nemesis.{module}.nemeses", lambda: {"toy": Toy(Named)})
    return draw_schedule(parse_spec("toy"), 7, topology(clients=3), 2_000)


def test_a_schedule_is_refused_that_hits_a_client_which_the_run_lacks(drawn: Schedule, tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_bytes(drawn.to_bytes())
    assert load_schedule(path, topology(clients=3)) == drawn
    with pytest.raises(UsageError, match="names c3"):
        load_schedule(path, topology(clients=2))


def test_a_schedule_can_be_shrunk_whatever_the_field_is_called(drawn: Schedule) -> None:
    whom = next(targets(drawn))
    assert whom.names == ("c1", "c2", "c3")
    assert hitting(drawn, whom, ["c2"]).faults[0].fault == {"victims": ["c2"]}


def test_a_shrunk_fault_no_longer_names_how_its_links_were_chosen() -> None:
    slow = draw_schedule(parse_spec("latency:targets=majority"), 7, topology(), 3_000)
    smaller = hitting(slow, next(targets(slow)), ["n1", "n2", "n3"])
    assert slow.faults[0].fault["targets"] == "majority"
    assert smaller.faults[0].fault["targets"] == "shrunk"
    assert smaller.faults[0].fault["links"]


@pytest.mark.parametrize("faults", [Unnamed, Options])
def test_a_nemesis_is_refused_whose_faults_do_not_say_what_they_hit(
    faults: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "objects_in", lambda *_: [("nemesis.toy", Toy(faults))])
    with pytest.raises(UsageError, match=f"{faults.__name__} does not say what it hits"):
        registry.nemeses.__wrapped__()


def test_a_nemesis_whose_faults_say_it_in_their_own_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "objects_in", lambda *_: [("nemesis.toy", Toy(Named))])
    assert list(registry.nemeses.__wrapped__()) == ["toy"]

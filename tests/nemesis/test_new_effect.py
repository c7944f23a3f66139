"""An effect that is new is declared on one field; judge, explanations, page and export know it then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest

import harness.report
from fencepost.history import Effect, FaultEvent, Names, effects_of
from harness.explain.lanes import outages_of
from harness.explain.words import out_of_order
from harness.export.formats import Choice
from harness.export.perfetto import write
from harness.history.fault_windows import hitting_tasks, majority_windows, windows
from harness.history.recorded import Recorded
from harness.report.timeline import timeline
from tests.judge import histories
from tests.judge.histories import History, ms


class WithMemory(FaultEvent, frozen=True):
    swapped_clients: Annotated[
        Names, Effect("client", "clients without memory", "out of memory", "stopped", halts=True)
    ] = ()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """c1 has no memory from 200 on, and again from 600 on."""
    monkeypatch.setattr(histories, "FaultEvent", WithMemory)
    hit: dict[str, Any] = {"swapped_clients": ("c1",)}
    history = History().section("c1", 10, 20).section("c2", 400, 410)
    return history.fault("f1", 200, 500, **hit).fault("f2", 600, 700, **hit).recorded()


def test_the_judge_takes_a_client_that_it_halts_for_one_that_reaches_no_majority(run: Recorded) -> None:
    assert [event.hit_clients for event in run.faults] == [{"c1"}] * 4
    able = majority_windows(["c1"], run.nodes, run.faults, (), ms(0), ms(1000))
    assert able == [(ms(0), ms(200)), (ms(500), ms(600)), (ms(700), ms(1000))]
    tasks = hitting_tasks(run.faults, ["c1"], 2)
    assert isinstance(tasks[0], WithMemory)
    assert tasks[0].swapped_clients == ("c1", "c1@1", "c1@2")


def test_a_fault_that_ended_early_for_a_node_still_has_it(run: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    hit: dict[str, Any] = {"swapped_clients": ("c1",), "nodes": ("n1",)}
    faults = History().fault("f1", 200, 500, **hit).undone("f1", 300, nodes=("n1",)).recorded().faults
    of_node, of_client = (window.event for window in windows(faults))
    assert (of_node.hit_nodes, of_node.hit_clients) == (("n1",), frozenset())
    assert (of_client.hit_nodes, of_client.hit_clients) == ((), {"c1"})


def test_the_sentences_and_the_diagram_say_it(run: Recorded) -> None:
    assert out_of_order(run, ms(250), ms(300)) == "c1 was out of memory"
    assert out_of_order(run, ms(520), ms(580)) == ""
    lanes = [(each.lane, each.what) for each in outages_of(run, ["c1", "c2"], ms(0), ms(1000))]
    assert lanes == [("c1", "out of memory")] * 2


def test_the_page_draws_it_and_the_export_lists_it(run: Recorded) -> None:
    faults: Any = timeline(run, windows(run.faults))["faults"]
    assert [fault["hits"] for fault in faults] == [[{"of": "client", "look": "stopped", "rows": [0]}]] * 2
    events = json.loads(b"".join(write(run, Choice())))["traceEvents"]
    told = [event["args"].get("clients without memory") for event in events if event["name"] == "it"]
    assert told == ["c1", "c1"]


def test_the_page_has_a_look_for_every_effect_of_a_client_or_node() -> None:
    looks = (
        (Path(harness.report.__path__[0]) / "timeline.js").read_text().partition("const LOOKS = {")[2].partition("}")[0]
    )
    wanted = {effect.look for effect in effects_of(FaultEvent).values() if effect.of != "link"}
    assert wanted == {entry.partition(":")[0].strip() for entry in looks.split("],")} >= {"clock", "down"}

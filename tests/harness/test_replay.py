"""The command that makes a run again, and what a saved schedule says of itself."""

from __future__ import annotations

from pathlib import Path

from harness.config import RunConfig
from harness.options import replay_command
from harness.run.prepare import prepare
from nemesis.base import Topology
from nemesis.schedule import draw_schedule, parse_spec


def test_a_replay_extends_as_often() -> None:
    assert "--extend 3" in replay_command(RunConfig(seed=7, extensions=3), Path("schedule.json"))
    assert "--extend" not in replay_command(RunConfig(seed=7), Path("schedule.json"))


def test_a_saved_schedule_says_itself_what_it_was_drawn_as(tmp_path: Path) -> None:
    drawn = draw_schedule(parse_spec("pause"), 5, Topology(("c1",), ("n1", "n2", "n3"), 1000), 9_000)
    saved = tmp_path / "schedule.json"
    saved.write_bytes(drawn.to_bytes())
    config = RunConfig(seed=5, clients=1, nodes=3, nemesis="partition", schedule=str(saved), cluster="process")
    assert prepare(config).setup.config.nemesis == "pause"

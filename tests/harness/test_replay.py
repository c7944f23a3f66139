"""The command that makes a run again."""

from __future__ import annotations

from pathlib import Path

from harness.config import RunConfig
from harness.replay import replay_command


def test_a_replay_extends_as_often() -> None:
    assert "--extend 3" in replay_command(RunConfig(seed=7, extensions=3), Path("schedule.json"))
    assert "--extend" not in replay_command(RunConfig(seed=7), Path("schedule.json"))

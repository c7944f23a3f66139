"""A real run under the standard faults: its loads are drawn and recorded, and what the faults met is counted."""

from __future__ import annotations

import json
from pathlib import Path

from fencepost import Run
from harness.config import RunConfig
from tests.harness.second_tries import valid


def test_a_run_under_the_standard_faults_has_loads_that_change_and_says_what_the_faults_met(tmp_path: Path) -> None:
    few = ["--clients", "3", "--ttl", "300ms", "--duration", "8s", "--recovery", "1s", "--seed", "3"]
    given = ["test", "--cluster", "process", "--lock", "redlock", "--nemesis", "standard", *few]
    # On a machine that stands still, the load may be over before the last fault could be injected.
    code, out, run = valid(tmp_path, given, all_came_and_went)
    assert code == 0, out
    folder = run.path
    config = json.loads((folder / "config.json").read_bytes())
    assert config["load"] == "drawn"
    assert len(config["loads"]) > 2
    assert {len(load.get("clients", [])) for load in config["loads"]} > {0}, "in some only a few clients work"
    assert f"{len(config['loads'])} loads drawn from the seed" in " ".join(out.split())
    schedule = json.loads((folder / "schedule.json").read_bytes())
    assert len({fault["nemesis"] for fault in schedule["faults"]}) > 2
    assert run.verdict.figures["faults"].planned == len(schedule["faults"])
    assert all_came_and_went(run), "no fault kept another one from being injected"
    timeline = json.loads((folder / "timeline.json").read_bytes())
    assert timeline["end_ns"] > timeline["stop_ns"] > timeline["healed_ns"]
    assert not timeline.get("interrupted")
    met = run.verdict.figures["coverage"].met
    for step in ("acquire", "inside", "release", "rest"):
        assert sum(steps[step] for steps in met.values()) > 0, step
    # The command that the run says repeats it.
    words = " ".join(out.split())
    assert "--load drawn" in words
    assert RunConfig(seed=0).load is None


def all_came_and_went(run: Run) -> bool:
    faults = run.verdict.figures["faults"]
    return bool(faults.healed == faults.injected == faults.planned)

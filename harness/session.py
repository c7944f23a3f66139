"""What `fencepost test` and `fencepost analyze` do around a run: say what begins, make it, judge it, show it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from rich.console import Console

from cluster.lifetime import RunState
from fencepost.errors import FencepostError
from harness.config import RunConfig
from harness.judge import exit_code, judge_folder
from harness.replay import replay_command
from harness.report.page import write_page
from harness.report.progress import Progress
from harness.report.summary import render_summary
from harness.runner import Prepared, perform
from harness.store import RunFolder


def make_run(prepared: Prepared, results: Path, *, expect_violation: bool, out: Console) -> int:
    """Make a run, judge it and show it; the exit code. Raises FencepostError when the run broke off: what was recorded
    by then stays in the run's folder."""
    config = prepared.config
    folder = RunFolder.create(results, config)
    folder.write_schedule(prepared.schedule.to_bytes().decode())
    out.print(
        f"{config.nodes} × {prepared.server.flavour} {prepared.server.version} as {_plural(prepared.backend)}, "
        f"{config.clients} clients of {config.lock_command or config.lock}, nemesis {config.nemesis}, "
        f"seed {config.seed}",
        markup=False,
        soft_wrap=True,
    )
    try:
        with RunState.create(folder.path.name) as state, Progress(out) as progress:
            perform(prepared, folder, state, progress)
    except FencepostError:
        out.print(f"the run broke off; `fencepost analyze {folder.path}` judges what was recorded", markup=False)
        raise
    return report_run(folder, expect_violation=expect_violation, out=out)


def report_run(folder: RunFolder, *, expect_violation: bool, out: Console) -> int:
    """Judge a run folder, write its page, print the summary; the exit code."""
    recorded, verdict = judge_folder(folder)
    environment = folder.read_environment()
    page = folder.path / "report.html"
    replay = replay_command(_as_it_ran(recorded.config, environment), folder.path / "schedule.json")
    write_page(recorded, verdict, environment, page, replay=replay)
    out.print(render_summary(recorded, verdict, folder.path, replay, environment), crop=False)  # paths stay whole
    return exit_code(verdict, expect_violation=expect_violation)


def _as_it_ran(config: RunConfig, environment: Mapping[str, object]) -> RunConfig:
    """The configuration with the cluster that `auto` turned out to be."""
    cluster = environment.get("cluster")
    backend = cluster.get("backend") if isinstance(cluster, Mapping) else None
    return msgspec.structs.replace(config, cluster=backend) if backend in ("process", "docker") else config


def _plural(backend: str) -> str:
    return {"process": "processes", "docker": "containers"}[backend]

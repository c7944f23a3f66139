"""What `fencepost test` and `fencepost analyze` do: announce a run, make it, judge it, and show the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from rich.console import Console

from cluster.backend_registry import backend_named, backends
from cluster.lifetime import RunState
from fencepost.errors import FencepostError
from fencepost.text import listed, printable
from harness.config import RunConfig
from harness.options import replay_command
from harness.report.progress import Progress
from harness.report.terminal import Terminal
from harness.run.background import imported_meanwhile
from harness.run.lent_nodes import lending
from harness.run.plan import Setup
from harness.run.scheduled import Enough, Prepared, perform
from harness.run.snapshot import Display
from harness.store.manifest import recording
from harness.store.run_folder import RunFolder, part_of
from harness.verdict import EXIT_CODES, Verdict

if TYPE_CHECKING:
    from harness.report.judged import Judged

_THE_JUDGE: Final = (
    "numpy",
    "pandas",
    "pyarrow.parquet",
    "harness.checkers.judge",
    "harness.checkers.explained",
    "harness.report.page",
    "harness.report.summary",
)
"""What judging needs. Importing it takes about as long as bringing the servers up."""
_NEVER_BEGAN: Final = "interrupted before the load began: there is nothing to judge"


@dataclass(frozen=True, slots=True)
class ResultOptions:
    """How the result of a run is told. `expect_violation`: finding one is what exit code 0 means. `json`: it is also
    written to this file. `verbose`: all figures and findings are shown; `quiet`: the verdict alone is."""

    expect_violation: bool = False
    json: Path | None = None
    verbose: bool = False
    quiet: bool = False


_USUAL_RESULT: Final = ResultOptions()


def make_run(prepared: Prepared, results: Path, out: Console, wanted: ResultOptions) -> int:
    """Make a run, judge it and show the result; returns the exit code. Raises FencepostError if the run was aborted;
    its folder keeps what was recorded until then."""
    folder = record_and_show(prepared, results, Terminal(quiet=True) if wanted.quiet else out)
    if _never_began(folder):
        out.print(_NEVER_BEGAN)
        if wanted.json is not None:
            _write_unjudged(wanted.json, prepared.setup.config, folder)
        return EXIT_CODES["unknown"]
    return report_run(folder, out, wanted)


def _never_began(folder: RunFolder) -> bool:
    """Whether the user asked to stop while everything was coming up."""
    timeline = folder.read_timeline()
    return timeline is not None and timeline.interrupted and timeline.stop_ns is None


def _write_unjudged(json: Path, config: RunConfig, folder: RunFolder) -> None:
    from harness.report.result import result_of
    from harness.report.result_file import write_result

    verdict = Verdict("unknown", config.require, (), (_NEVER_BEGAN,), {})
    write_result(json, result_of(config, verdict, folder.path, replay_command(config, folder.path / "schedule.json")))


def record_and_show(prepared: Prepared, results: Path, out: Console) -> RunFolder:
    """Make a run, showing its progress; returns its folder. Raises FencepostError if it was aborted."""
    setup = prepared.setup
    folder = new_folder(prepared, results)
    say = f"{setup_in_words(setup)}, nemesis {setup.config.nemesis}, seed {setup.config.seed}"
    out.print(say, soft_wrap=True)
    say_what_is_missing(setup, out)
    if prepared.left_out:
        missing, server = listed(prepared.left_out), setup.spec.server.name
        line = f"without the nemesis {missing}, which the server {server} cannot do"
        if prepared.lent:
            line = f"without faults of nodes, which are yours (of {missing})"
        out.print(line, soft_wrap=True)
    try:
        with Progress(out) as progress:
            record_run(prepared, folder, progress)
    except FencepostError:
        out.print(f"run aborted; `fencepost analyze {folder.path}` judges what was recorded")
        raise
    return folder


def new_folder(prepared: Prepared, results: Path) -> RunFolder:
    """Create a folder in `results` for this run, with its configuration and its schedule."""
    folder = RunFolder.create(results, prepared.setup.config)
    folder.write_schedule(prepared.schedule.to_bytes().decode())
    return folder


@contextmanager
def being_recorded(folder: RunFolder, setup: Setup) -> Iterator[RunState]:
    """While a run is made into this folder: it has a state folder, and what judges the run is imported."""
    with (
        RunState.create(folder.path.name, site=setup.site) as state,
        recording(folder),
        imported_meanwhile(_THE_JUDGE),
    ):
        yield state


def record_run(prepared: Prepared, folder: RunFolder, progress: Display, enough: Enough | None = None) -> None:
    """Make the run. It ends early once `enough` has been seen. Raises FencepostError if it was aborted."""
    with (
        being_recorded(folder, prepared.setup) as state,
        lending(prepared.setup.config, prepared.lent, state, folder.logs),
    ):
        perform(prepared, folder, state, progress, enough)


def judge_and_draw(folder: RunFolder) -> Judged:
    """Judge a run folder and write its page."""
    from harness.checkers.explained import explain
    from harness.checkers.judge import judge_folder
    from harness.explain.space_time import Album
    from harness.report.judged import Judged
    from harness.report.page import write_page
    from harness.report.wording import with_headline

    recorded, verdict = judge_folder(folder)
    environment, experiment = folder.read_environment(), folder.read_experiment()
    if experiment is not None:
        environment["experiment"] = experiment
    replay = replay_command(as_it_ran(recorded.config, environment), folder.path / "schedule.json", experiment)
    explained = explain(recorded, verdict)
    verdict = with_headline(verdict, explained)
    folder.write_verdict(verdict)
    judged = Judged(recorded, verdict, environment, replay, explained, Album(recorded, folder))
    write_page(judged, folder.path / "report.html")
    return judged


def report_run(folder: RunFolder, out: Console, wanted: ResultOptions = _USUAL_RESULT) -> int:
    """Judge a run folder, write its page and show the result; returns the exit code."""
    from harness.checkers.judge import exit_code
    from harness.report.result import result_of
    from harness.report.result_file import write_result
    from harness.report.summary import render_summary, render_verdict

    judged = judge_and_draw(folder)
    if wanted.quiet:
        summary = render_verdict(judged.verdict, folder.path, judged.explained)
    else:
        summary = render_summary(judged, folder.path, everything=wanted.verbose)
    out.print(summary, crop=False)  # paths stay whole
    if wanted.json is not None:
        config = judged.recorded.config
        told = result_of(config, judged.verdict, folder.path, judged.replay, judged.explained, judged.album)
        write_result(wanted.json, told)
    return exit_code(judged.verdict, expect_violation=wanted.expect_violation)


def setup_in_words(setup: Setup) -> str:
    """`5 × valkey 8.1.8 as processes, resource on redis 7.0.15, 10 clients of redlock`; what the resource runs is left
    out where it is the nodes' program."""
    config, spec = setup.config, setup.spec
    resource = f", resource on {printable(str(spec.resource_server))}" if spec.resource_server != spec.server else ""
    return (
        f"{config.nodes} × {printable(str(spec.server))} {backend_named(setup.site.backend).words}{resource}, "
        f"{config.clients} clients of {printable(config.lock_name)}"
    )


def say_what_is_missing(setup: Setup, out: Console) -> None:
    """Say in one line each: why servers are not where `auto` would rather have them, that other programs on this
    machine can reach the run, that the nodes are not watched although they should be."""
    server, config, site = setup.spec.server, setup.config, setup.site
    if site.passed_over is not None:
        out.print(f"servers {backend_named(site.backend).words}, because {site.passed_over}", soft_wrap=True)
    if config.nodes_at is not None:
        out.print(f"{config.nodes_at}: faults of links and clients only; their keys are not watched", soft_wrap=True)
    elif config.witness == "on" and not setup.is_watched:
        out.print(f"the nodes are not watched: {server.name} has no key events", soft_wrap=True)
    if site.no_sandbox is not None:
        out.print(f"no sandbox, because this machine refuses one ({site.no_sandbox})", soft_wrap=True)
    if not site.in_sandbox and setup.isolation()["by"] == "nothing":
        line = "other users of this machine can talk to the run's servers, which cannot ask for a password"
        out.print(line, soft_wrap=True)


def as_it_ran(config: RunConfig, environment: Mapping[str, object]) -> RunConfig:
    """The configuration, with `auto` replaced by the kind of cluster that the run really had."""
    backend = part_of(environment, "cluster").get("backend")
    return msgspec.structs.replace(config, cluster=backend) if backend in backends() else config

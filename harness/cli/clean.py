"""`fencepost clean`: remove resources left by crashed runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from cluster.engine_address import NoEngineError, find_engine
from fencepost.errors import BrokenEnvironmentError
from fencepost.options import Option
from harness.cli.command import Call, Command

if TYPE_CHECKING:
    from rich.console import Console


_WHY_IT_STAYS: Final[Mapping[str, str]] = {
    "dead": "that run is dead: `fencepost clean --all` removes them",
    "alive": "that run is alive",
    "unknown": "it cannot be told from here whether that run is alive; clean up as its user, and in the container in "
    "which it was started",
}


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    all: Annotated[
        bool,
        Option(
            "--all",
            "also what dead runs of other users and with another TMPDIR left in the Docker engine, and all images that "
            "fencepost built there",
        ),
    ] = False


def _clean(call: Call, out: Console) -> int:
    from harness.run.prepare import remove_leftovers

    arguments: Arguments = call.arguments
    swept = remove_leftovers(out)
    if swept.unasked:
        return BrokenEnvironmentError.exit_code
    is_told, is_clean = bool(swept.runs or swept.others), not swept.stuck
    try:
        is_told |= _clean_engine(out, everything=arguments.all)
    except NoEngineError as error:
        is_clean &= error.cannot_have_runs
    except BrokenEnvironmentError as error:
        out.print(str(error), soft_wrap=True)
        is_clean = False
    if not is_clean:
        return BrokenEnvironmentError.exit_code
    if not is_told:
        out.print("no resources were left by crashed runs")
    return 0


def _clean_engine(out: Console, *, everything: bool) -> bool:
    """Say what others have in the engine; with `everything` remove that if its run is dead, and all images. Returns
    whether anything was removed, or left by a dead run."""
    from cluster.engine_runs import held_runs, remove_images
    from cluster.engine_sweep import remove_run
    from cluster.lifetime import live_runs, state_parent
    from harness.run.prepare import remove_leftovers

    engine = find_engine()
    told = False
    for run in held_runs(engine):
        parent = run.state.parent
        if parent == state_parent():
            continue  # swept already, or alive
        told |= run.life != "alive"
        if run.life == "dead" and everything:
            if parent.is_dir() and parent.stat().st_uid == os.getuid():
                remove_leftovers(out, parent)  # its disks and its folder, too
            for what in remove_run(engine, run.labels):
                out.print(f"removed {what} from the Docker engine", soft_wrap=True)
        else:
            out.print(f"the Docker engine has {run}; {_WHY_IT_STAYS[run.life]}", soft_wrap=True)
    if not everything:
        return told
    if alive := [run.run_id for run in held_runs(engine) if run.life != "dead"] + live_runs(state_parent()):
        out.print(f"images stay as long as a run may use them: {', '.join(dict.fromkeys(alive))}", soft_wrap=True)
        return True
    removed = remove_images(engine)
    for line in removed:
        out.print(line, soft_wrap=True)
    return told or bool(removed)


COMMAND = Command(
    description="Remove resources left by crashed runs: processes, containers, networks, disks and folders of runs "
    "whose harness is gone.",
    arguments=Arguments,
    do=_clean,
)

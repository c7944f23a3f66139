"""`fencepost clean`: remove resources left by crashed runs."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec

from cluster.backend_registry import backends
from cluster.site import UnavailableError
from fencepost.errors import BrokenEnvironmentError
from fencepost.options import Option
from harness.cli.command import Call, Command


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    all: Annotated[
        bool,
        Option(
            "--all",
            "also what dead runs of other users and with another TMPDIR left in the Docker engine, and all images that "
            "fencepost built there",
        ),
    ] = False


def _clean(call: Call) -> int:
    from harness.run.prepare import remove_leftovers

    arguments: Arguments = call.arguments
    swept = remove_leftovers(call.out)
    if swept.unasked:
        return BrokenEnvironmentError.exit_code
    is_told, is_clean = bool(swept.runs or swept.others), not swept.stuck
    for backend in backends().values():
        try:
            for each in backend.left_by_others(partial(remove_leftovers, call.out), everything=arguments.all):
                call.out.print(each.line, soft_wrap=True)
                is_told |= each.is_left
        except UnavailableError as error:
            is_clean &= error.cannot_have_runs
        except BrokenEnvironmentError as error:
            call.out.print(str(error), soft_wrap=True)
            is_clean = False
    if not is_clean:
        return BrokenEnvironmentError.exit_code
    if not is_told:
        call.out.print("no resources were left by crashed runs")
    return 0


COMMAND = Command(
    description="Remove resources left by crashed runs: processes, containers, networks, disks and folders of runs "
    "whose harness is gone.",
    arguments=Arguments,
    do=_clean,
)

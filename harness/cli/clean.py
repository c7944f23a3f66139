"""`fencepost clean`: remove resources left by crashed runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fencepost.errors import BrokenEnvironmentError
from harness.cli.command import Call, Command

if TYPE_CHECKING:
    from rich.console import Console


class Arguments(msgspec.Struct, frozen=True):
    """None."""


def _clean(_call: Call, out: Console) -> int:
    from harness.run.prepare import remove_leftovers

    swept = remove_leftovers(out)
    if swept.stuck or swept.unasked:
        return BrokenEnvironmentError.exit_code
    if not (swept.runs or swept.others):
        out.print("no resources were left by crashed runs")
    return 0


COMMAND = Command(
    description="Remove resources left by crashed runs: processes, containers, networks, disks and folders of runs "
    "whose harness is gone.",
    arguments=Arguments,
    do=_clean,
)

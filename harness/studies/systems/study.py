"""`fencepost study systems`: the comparison as a study, and its quick form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.campaign.grid import Grid
from harness.campaign.study import Study
from harness.studies.systems.grid import systems_grid
from harness.studies.systems.page import document_of, headline
from harness.studies.systems.settle import SystemRow, settle
from harness.studies.systems.table import CROWDS, FAULTS


def study_of(grid: Grid) -> Study[Sequence[SystemRow]]:
    """A system that this machine cannot play is left out, and listed with its reason."""
    return Study(
        grid=grid,
        settle=settle,
        document=document_of,
        tell=lambda rows, out: out.print(headline(rows)),
        exit_code=lambda played, _: 0 if played.is_complete and not played.cannot else 2,
        leaves_out=True,
        group_of=lambda cell: grid.at(cell)["system"],
    )


STUDY: Final = study_of(systems_grid("systems", seeds=10, duration="10s", crowd_duration="10s"))
QUICK: Final = study_of(
    systems_grid(
        "systems-quick",
        seeds=1,
        duration="10s",
        crowd_duration="3s",
        faults=[fault for fault in FAULTS if fault.is_quick],
        crowds=CROWDS[:1],
    )
)

"""`fencepost list`: many runs beside each other, a line each."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.table import Table

from fencepost.errors import UsageError
from harness.report.words import count, figure
from harness.runs import RunListed
from harness.store import RunFolder

_CAPTION = "overlaps: blamed on the lock / on a client that outlived its lease / undecided; lost: updates"


def render_listing(runs: Iterable[RunListed]) -> Table:
    """One row a run: what was tested and what came out. A run that was not judged, or cannot be read, shows only so."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=_CAPTION, caption_justify="left")
    table.add_column("begun (UTC)", no_wrap=True)
    table.add_column("lock, nemesis, fencing", overflow="fold", min_width=18)
    for title in ("sections", "overlaps", "lost"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True, min_width=9)
    for run in runs:
        table.add_row(f"{run.when:%m-%d %H:%M}", *_cells(run), run.verdict)
    return table


def _cells(run: RunListed) -> list[str]:
    folder = RunFolder(run.path)
    try:
        config, verdict = folder.read_config(), folder.read_verdict()
    except UsageError:
        return [run.name, *[""] * 3]
    nemeses = "+".join(part.partition(":")[0] for part in config.nemesis.split("+"))
    what = f"{config.lock_command or config.lock}, {nemeses}, {config.fencing}"
    if verdict is None:
        return [what, *[""] * 3]
    overlaps = [count(figure(verdict, "exclusion", "overlaps", blame)) for blame in ("lock", "client", "undecided")]
    return [
        what,
        count(figure(verdict, "exclusion", "sections")),
        "/".join(overlaps),
        count(figure(verdict, "counter", "lost")),
    ]

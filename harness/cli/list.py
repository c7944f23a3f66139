"""`fencepost list`: the recorded runs, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from fencepost.options import Option
from harness.cli.command import Call, Command
from harness.config import RESULTS
from harness.options import Results

if TYPE_CHECKING:
    from rich.console import Console


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    last: Annotated[int | None, Option("--last", "only the newest N", low=1)] = None
    results: Results = RESULTS


def _list(call: Call, out: Console) -> int:
    from harness.report.listing import list_runs, render_listing

    arguments: Arguments = call.arguments
    runs = list_runs(arguments.results)[-arguments.last if arguments.last else 0 :]
    nothing = f"no runs in {arguments.results} yet; `make test-partition` makes one"
    out.print(render_listing(runs) if runs else nothing)
    return 0


COMMAND = Command(description="List recorded runs, oldest first.", arguments=Arguments, do=_list)

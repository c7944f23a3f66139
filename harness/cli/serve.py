"""`fencepost serve`: recorded runs in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from fencepost.files import check_folder
from fencepost.options import Option
from harness.cli.command import Call, Command
from harness.config import REPORTS, RESULTS
from harness.options import Results


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    port: Annotated[
        int, Option("--port", "where it listens, on 127.0.0.1", low=0, high=65_535, shown_default="any free one")
    ] = 0
    results: Results = RESULTS
    reports: Annotated[Path, Option("--reports", "folder below which campaigns keep their reports", metavar="DIR")] = (
        REPORTS.parent
    )


def _serve(call: Call) -> int:
    import asyncio

    from harness.report.listing import run_folders
    from harness.serve.campaigns import Campaigns
    from harness.serve.index import Index, kept_file
    from harness.serve.server import serve

    arguments: Arguments = call.arguments

    def ready(address: str) -> None:
        call.out.print(f"{arguments.results} is shown at {address} until Ctrl-C", soft_wrap=True)

    for field in call.given & {"results", "reports"}:
        check_folder(getattr(arguments, field), f"--{field}")
    run_folders(arguments.results)  # what is wrong with it is said before an address is
    index = Index(arguments.results, kept_file(arguments.results))
    campaigns = Campaigns(arguments.reports, arguments.results)
    asyncio.run(serve(index, campaigns, arguments.port, ready))
    return 0


COMMAND = Command(
    description="""
Show runs in a browser on this machine: a list to search, each run with its page and files, and what is under way as
it happens. Runs can be started, stopped and repeated there.""",
    arguments=Arguments,
    do=_serve,
    epilog="The address contains a token: without it, other users of this machine and other pages see nothing.",
)

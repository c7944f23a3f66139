"""The command line of explanations: `fencepost explain`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from fencepost.errors import UsageError
from harness.store.run_folder import RESULTS


def add_explain(commands: argparse._SubParsersAction[Any]) -> None:
    """The command `explain`."""
    explain: argparse.ArgumentParser = commands.add_parser(
        "explain",
        help="say how each violation came about",
        description="Say how each violation of a recorded run came about: for each kind the first few and the longest, "
        "with the two sections, what each client had been told, what each node said to them and what happened to it in "
        "between, the faults in force, and one sentence in plain words. Gives no verdict and writes nothing.",
        epilog="what each node said is known from locks that show it (`redlock`, the controls, yours: "
        "docs/lock-protocol.md), else from the witness; what is not known the sentence says, too. See docs/explain.md. "
        "exit codes: 0, whatever is explained; 254 bad arguments or a damaged folder",
    )
    explain.add_argument("run", type=Path, nargs="?", default=RESULTS / "latest", help="run folder (latest)")
    explain.add_argument("--limit", default="3", metavar="N", help="how many of each kind (3)")
    explain.set_defaults(do=_explain)


def _explain(arguments: argparse.Namespace, out: Console) -> int:
    from harness.checkers.judge import judge
    from harness.explain.explanation import explain
    from harness.report.explanations import render_explained
    from harness.store.run_folder import RunFolder

    limit = _limit(arguments.limit)
    folder = RunFolder.open(arguments.run)
    run = folder.load()
    verdict = judge(run)
    out.print(render_explained(run, verdict, explain(run, verdict, folder, limit)))
    return 0


def _limit(text: str) -> int:
    try:
        limit = int(text)
    except ValueError:
        raise UsageError(f"--limit is {text!r}; it must be a whole number") from None
    if limit < 1:
        raise UsageError(f"--limit is {limit}; it must be at least 1")
    return limit

"""The live pages' frames, which the events fill, and what is said when a run or a campaign is over."""

from __future__ import annotations

from pathlib import Path

from fencepost.errors import UsageError
from fencepost.text import printable
from harness.report.html import render
from harness.serve.campaigns import front_page, title_of
from harness.serve.index import JUDGED, summary_of
from harness.serve.live_message import Cell, End
from harness.serve.pages import address, report_address

SCRIPT = "live.js"


def run_live_page(root: str, path: Path, stop: str = "") -> str:
    """`root`: what every address begins with. `stop`: the token of our forms, if the run was started here."""
    run = summary_of(path)
    return render(
        "live_run.html.j2",
        SCRIPT,
        root=root,
        here=address(root, path.name),
        stop=stop,
        title=f"{run.lock} under {run.nemesis}" if run.lock else run.name,
        sub=f"{run.workload} · seed {run.seed} · {path}",
    )


def campaign_live_page(root: str, name: str, path: Path) -> str:
    return render("live_campaign.html.j2", SCRIPT, root=root, title=title_of(path) or name, sub=str(path))


def end_of_run(root: str, path: Path) -> End:
    run = summary_of(path)
    link = Cell("Open the run\u2019s page", address(root, path.name))
    if run.verdict in JUDGED:
        return End(Cell(run.verdict.upper(), tone=run.verdict), f"\u2014 {run.says}" if run.says else "", link)
    return End(Cell("OVER"), "\u2014 it ended without a verdict: it was aborted, or its harness was killed.", link)


def end_of_campaign(root: str, name: str, path: Path) -> End:
    page = front_page(path)
    link = Cell("Open the report", report_address(root, name, page)) if page else Cell("All runs", root)
    return End(Cell("OVER"), "\u2014 no process is running this campaign.", link)


def unreadable(root: str, error: UsageError) -> End:
    return End(Cell("DAMAGED", tone="unknown"), f"\u2014 {printable(str(error))}", Cell("All runs", root))

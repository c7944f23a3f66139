"""The pages: the list of runs, and one run. Made of templates, without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from fencepost.errors import UsageError
from fencepost.text import printable
from harness.checkers.judge import recorded_verdict
from harness.report.html import render
from harness.report.wording import blame, headline, outcomes
from harness.serve.active_runs import UNDER_WAY, is_under_way
from harness.serve.campaigns import CampaignListed
from harness.serve.files import files_of
from harness.serve.filter import ON_A_PAGE, RunFilter
from harness.serve.index import JUDGED, UNREAD, RunSummary, summary_of
from harness.store.run_folder import RunFolder
from harness.verdict import Verdict, hidden, ordered


def list_page(
    root: str,
    results: Path,
    runs: Sequence[RunSummary],
    choice: RunFilter,
    campaigns: Sequence[CampaignListed] = (),
    documents: Sequence[str] = (),
) -> str:
    """The runs that were chosen, the campaigns, and published documents, by their names. `root`: what every address
    begins with."""
    chosen = choice.chosen(runs)
    pages = max(-(-len(chosen) // ON_A_PAGE), 1)
    return render(
        "runs.html.j2",
        root=root,
        results=str(results),
        runs=[(run, _shown_at(root, run)) for run in choice.on_page(chosen)],
        choice=choice,
        fields=[
            ("lock", choice.lock, sorted({run.lock for run in runs if run.lock})),
            ("nemesis", choice.nemesis, sorted({run.nemesis for run in runs if run.nemesis})),
            ("verdict", choice.verdict, sorted({run.verdict for run in runs} - {UNREAD})),
        ],
        shown=len(chosen),
        total=len(runs),
        unread=sum(run.verdict == UNREAD for run in runs),
        again=choice.at(choice.page),
        newer=choice.at(choice.page - 1) if choice.page > 1 else None,
        older=choice.at(choice.page + 1) if choice.page < pages else None,
        pages=pages,
        under_way=UNDER_WAY,
        campaigns=[
            (each, report_address(root, each.name, each.page) if each.page else "", live_address(root, each.name))
            for each in campaigns
        ],
        documents=[(name, f"{root}documents/{quote(name, safe='')}") for name in documents],
    )


def run_page(root: str, path: Path) -> str:
    """One run: its verdict, its findings and its files."""
    summary, folder = summary_of(path), RunFolder(path)
    here = address(root, path.name)
    files = [(each.name, each.bytes, here + "files/" + quote(each.name)) for each in files_of(path)]
    verdict = _verdict(folder) if summary.verdict in JUDGED else None
    word, says = headline(verdict) if verdict else (summary.verdict.upper(), "")
    return render(
        "run.html.j2",
        root=root,
        run=summary,
        word=word,
        says=says,
        outcomes=list(outcomes(verdict)) if verdict else (),
        verdict=verdict.conclusion.replace(" ", "-") if verdict else "",
        hides=bool(verdict and hidden(verdict.findings, verdict.require)),
        findings=[(printable(each.text), blame(each.blame), each.blame) for each in ordered(verdict)]
        if verdict
        else (),
        files=files,
        picture=next((link for name, _, link in files if name == "report.html"), None),
        zip=here + "zip",
        live=here + "live" if is_under_way(path) else None,
        path=str(path),
    )


def address(root: str, run: str) -> str:
    """Where a run is shown."""
    return f"{root}runs/{quote(run, safe='')}/"


def report_address(root: str, campaign: str, file: str) -> str:
    """Where a file of a campaign is shown."""
    return f"{root}reports/{quote(campaign, safe='')}/files/{quote(file)}"


def live_address(root: str, campaign: str) -> str:
    """Where a campaign is shown as far as it is."""
    return f"{root}reports/{quote(campaign, safe='')}/live"


def _shown_at(root: str, run: RunSummary) -> str:
    return address(root, run.name) + ("live" if run.verdict == UNDER_WAY else "")


def _verdict(folder: RunFolder) -> Verdict | None:
    try:
        return recorded_verdict(folder)
    except UsageError:
        return None

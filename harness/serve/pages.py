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
from harness.serve.filter import ON_A_PAGE, SORTS, RunFilter
from harness.serve.index import JUDGED, UNREAD, RunSummary, summary_of
from harness.serve.tags import read_tags
from harness.store.run_folder import RunFolder
from harness.verdict import Verdict, hidden, ordered


def list_page(
    root: str,
    results: Path,
    runs: Sequence[RunSummary],
    choice: RunFilter,
    campaigns: Sequence[CampaignListed] = (),
    documents: Sequence[str] = (),
    form: str = "",
) -> str:
    """The runs that were chosen, the campaigns, and published documents, by their names. `root`: what every address
    begins with. `form`: the token of our forms."""
    tags = read_tags(results)
    chosen = choice.chosen(runs, tags)
    pages = max(-(-len(chosen) // ON_A_PAGE), 1)
    return render(
        "runs.html.j2",
        root=root,
        results=str(results),
        runs=[(run, _shown_at(root, run), tags.get(run.name, ())) for run in choice.on_page(chosen)],
        choice=choice,
        sorts=SORTS,
        order={"": "newest first", "newest": "newest first", "lock": "by lock"}.get(
            choice.sort, f"{choice.sort} first"
        ),
        form=form,
        fields=[
            ("lock", choice.lock, sorted({run.lock for run in runs if run.lock})),
            ("nemesis", choice.nemesis, sorted({run.nemesis for run in runs if run.nemesis})),
            ("verdict", choice.verdict, sorted({run.verdict for run in runs} - {UNREAD})),
            *(
                [("tag", choice.tag, all_tags)]
                if (all_tags := sorted({tag for each in tags.values() for tag in each}))
                else []
            ),
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


def run_page(root: str, path: Path, form: str = "", tab: str = "") -> str:
    """One run: its own page, in a frame; or, on the `tab` "files" and where it has no page, its verdict, its findings
    and its files. `form`: the token of our forms."""
    summary, folder = summary_of(path), RunFolder(path)
    here = address(root, path.name)
    files = [(each.name, each.bytes, here + "files/" + quote(each.name)) for each in files_of(path)]
    verdict = verdict_of(folder) if summary.verdict in JUDGED else None
    word, says = headline(verdict) if verdict else (summary.verdict.upper(), "")
    picture = next((link for name, _, link in files if name == "report.html"), None)
    return render(
        "run_framed.html.j2" if picture and tab != "files" else "run.html.j2",
        root=root,
        here=here,
        form=form,
        tags=read_tags(path.parent).get(path.name, ()),
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
        picture=picture,
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


def verdict_of(folder: RunFolder) -> Verdict | None:
    """None if it was not judged, or cannot be read."""
    try:
        return recorded_verdict(folder)
    except UsageError:
        return None

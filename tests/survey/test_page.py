"""Every form of the page, from lines as runs would leave them."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import msgspec
import pytest

from fencepost.errors import FencepostError, UsageError
from harness.campaign.folder import CampaignFolder
from harness.campaign.grid import Cell
from harness.campaign.study import read_played, write_document
from harness.survey.findings import About, Finding
from harness.survey.page import document_of
from harness.survey.promises import ENOUGH
from harness.survey.session import settle_all
from tests.survey import made
from tests.survey.made import blamed, line

HOSTILE = "</script><script>alert(1)</script>"
NAMES = ("redlock", "control-quorum-of-two", "redlock-ng", "set-nx-px")
FINDING = Finding(
    "mine", About("redlock-ng", "validity", "late-grant", "violation", "mine.tar.xz"), f"# It {HOSTILE}\n\nSo."
)


def write(folder: CampaignFolder, *findings: Finding, cannot: dict[str, FencepostError] | None = None) -> None:
    played = read_played(folder, {}, cannot)
    write_document(document_of(findings, played, settle_all(findings, {}, played)), folder.path)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """redlock-ng broke one promise and kept others; one control was caught, another never blamed."""
    campaign = made.campaign(made.grid(*NAMES))
    folder = CampaignFolder.claim(tmp_path / "survey", campaign)
    for seed in range(1, ENOUGH + 1):
        folder.append(line("redlock-ng", seed=seed))
        folder.append(line("redlock", seed=seed))
    late = made.Blamed("late-grant", 5.0, HOSTILE, None, HOSTILE, 1)
    folder.append(line("redlock-ng", "slow answers", "long holds", late, verdict="violation"))
    folder.append(line("control-quorum-of-two", "partition", "short holds", blamed("overlap"), verdict="violation"))
    moment = {"folder": HOSTILE, "seed": 1, "show": 0, "text": HOSTILE, "from_s": 1.5, "data": {"clients": [HOSTILE]}}
    folder.keep_timeline("redlock-ng · slow answers · long holds", moment | {"finding": "late-grant"})
    write(folder, FINDING, cannot={"set-nx-px · partition · short holds": UsageError("no server")})
    folder.close()
    return folder.path


def test_the_matrix_shows_every_answer_and_a_cross_leads_to_what_was_found(written: Path) -> None:
    page = (written / "index.html").read_text()
    assert page.count('<td class="broken"') == 2
    assert '<a href="#redlock-ng-validity">✗</a><span>1 of 7</span>' in page
    assert 'id="redlock-ng-validity"' in page
    assert "<b>✓</b><span>≤ 41 %</span>" in page
    assert "1 lock of 1 library in 1 language, 14 runs: 1 lock broke a promise (redlock-ng)." in page
    assert "redlock (ours, a correct lock: it must not be blamed): 6 runs, not blamed." in page
    assert "control-quorum-of-two (ours, broken on purpose: it must be blamed): 1 run, blamed for exclusive." in page
    assert "set-nx-px: not played: no server." in page
    assert "Of the others, 14 of 585 runs were made so far." in page
    assert "set-nx-px (ours, a correct lock: it must not be blamed): no run." in page
    assert "fencepost test --nodes=5" not in page, "a command has all that decides the run"
    assert (
        "--lock=redlock-ng --require=lease --nemesis=latency:interval=2s,duration=1s,kind=delay "
        "--hold=uniform:300ms-900ms --seed=1" in page
    )


def test_the_page_says_first_which_lock_to_take(written: Path) -> None:
    said = (written / "survey.md").read_text().partition("## Which one to take")[2].partition("\n## ")[0]
    rows = [line for line in said.splitlines() if line.startswith("| ")][1:]
    assert rows == ["| Python, five servers | none |  | redlock-ng: validity true is broken |  |"]


def test_the_page_says_how_each_library_was_configured(written: Path) -> None:
    table = (written / "survey.md").read_text().partition("## With which settings")[2].partition("\n## ")[0]
    assert re.findall(r"^\| ([\w-]+) \| \w+: ", table, re.MULTILINE) == ["redlock-ng"]


def test_foreign_text_does_not_break_the_page_and_it_loads_nothing(written: Path) -> None:
    page = (written / "index.html").read_text()
    assert "alert(1)</script>" not in page
    assert page.count("<script") == 2, "the picture and our own"
    assert not re.search(r'(?:src|url\()\s*=?\s*["\']?http', page)
    assert "default-src 'none'" in page


def test_a_cross_shows_its_picture_and_what_somebody_found_out(written: Path) -> None:
    page = (written / "index.html").read_text()
    assert page.count("data-timeline=") == 1
    assert 'id="moment-redlock-ng-validity"' in page
    assert "findings/mine.tar.xz" in page
    assert "late-grant in 1 run. By fault: slow answers in 1 run." in page


def test_a_finding_whose_run_is_awaited_leads_to_none(tmp_path: Path) -> None:
    folder = CampaignFolder.claim(tmp_path / "survey", made.campaign(made.grid("redlock-ng")))
    folder.append(line("redlock-ng", "jitter", "long holds", blamed("late-grant"), verdict="violation"))
    awaited = Finding("mine", About("redlock-ng", "validity", "late-grant", "violation", "awaited"), "# It\n\nSo.")
    write(folder, awaited)
    folder.close()
    page = (folder.path / "index.html").read_text()
    assert "<summary>It</summary>" in page
    assert "The run that shows it best" not in page


def test_a_finding_is_shown_as_it_is_meant_and_not_as_it_was_typed(tmp_path: Path) -> None:
    folder = CampaignFolder.claim(tmp_path / "survey", made.campaign(made.grid("redlock-ng")))
    folder.append(line("redlock-ng", "jitter", "long holds", blamed("late-grant"), verdict="violation"))
    text = f"# A title\n\n**Where.** `a<b`, [as here](other.md).\n\n    make it {HOSTILE}\n"
    finding = Finding("mine", FINDING.about, text)
    write(folder, finding)
    folder.close()
    page = (folder.path / "index.html").read_text()
    assert '<p><strong>Where.</strong> <code>a&lt;b</code>, <a href="findings/other.md">as here</a>.</p>' in page
    assert "<pre><code>make it &lt;/script&gt;" in page
    assert page.count("A title") == 1


def test_a_finding_that_explains_several_crosses_is_open_at_the_first(tmp_path: Path) -> None:
    folder = CampaignFolder.claim(tmp_path / "survey", made.campaign(made.grid("redlock-ng")))
    for fault in ("server killed, back empty", "server hung"):
        folder.append(line("redlock-ng", fault, "short holds", blamed("unavailable-while-free")))
    about = About("redlock-ng", "minority, hung", "unavailable-while-free", "valid", "mine.tar.xz")
    write(folder, Finding("mine", about, "# It"))
    folder.close()
    page = (folder.path / "index.html").read_text()
    assert page.count("<summary>It</summary>") == 2
    assert page.index("<details open><summary>It") < page.index("<details><summary>It")


def test_a_finding_on_another_kind_stands_under_no_cross_that_it_does_not_explain(tmp_path: Path) -> None:
    folder = CampaignFolder.claim(tmp_path / "survey", made.campaign(made.grid("redlock-ng")))
    folder.append(line("redlock-ng", "jitter", "long holds", blamed("late-grant"), verdict="violation"))
    other = About("redlock-ng", "validity", "lease-without-majority", "violation", "other.tar.xz")
    write(folder, FINDING, Finding("other", other, "# Another"))
    folder.close()
    text = (folder.path / "survey.md").read_text()
    crosses, others = text.split("## Findings that explain no ✗ of these runs")
    assert ("findings/mine.md" in crosses, "findings/mine.md" in others) == (True, False)
    assert ("findings/other.md" in crosses, "findings/other.md" in others) == (False, True)


def test_only_what_is_played_is_called_a_fault_and_who_is_spared_one_is_said(tmp_path: Path) -> None:
    def is_played(cell: Cell) -> bool:
        return cell.at["fault"] != "clock set" and (cell.at["subject"], cell.at["fault"]) != ("redlock-py", "jitter")

    (whole,) = (grid := made.grid("redlock-ng", "redlock-py")).parts
    part = msgspec.structs.replace(whole, cells=tuple(filter(is_played, whole.cells)))
    campaign = made.campaign(msgspec.structs.replace(grid, parts=(part,)))
    folder = CampaignFolder.claim(tmp_path / "survey", campaign)
    for name in ("redlock-ng", "redlock-py"):
        folder.append(line(name))
    write(folder)
    folder.close()
    for name in ("index.html", "survey.md"):
        text = (folder.path / name).read_text()
        assert "redlock-py: not played under jitter." in text
        assert "the wall clock of servers jumps" not in text
        assert text.count("not played under") == 1
    assert "12 kinds of fault" in (folder.path / "index.html").read_text()


def test_a_table_has_no_column_that_nobody_in_it_can_be_asked_about(written: Path) -> None:
    page, text = ((written / name).read_text() for name in ("index.html", "survey.md"))
    five, one = (page.split("<h2>Five servers, ")[1].split("<h2>Controls")[0]).split("<h2>One server, ")
    assert (five.count("survives a hung node</th>"), one.count("survives a hung node</th>")) == (1, 0)
    assert (one.count("<tr>"), one.count("<td class=")) == (2, 6), "heads and one lock"
    assert "| returns within its own timeout |\n" in text.split("## One server, ")[1]


def test_what_the_libraries_did_comes_before_what_the_controls_did_and_few_runs_are_named(tmp_path: Path) -> None:
    folder = CampaignFolder.claim(tmp_path / "survey", made.campaign(made.grid("control-quorum-of-two", "redlock-ng")))
    for seed in range(1, 5):
        folder.append(line("redlock-ng", "jitter", "long holds", blamed("overlap"), seed=seed, verdict="violation"))
    for seed in range(1, 4):
        for use in ("short holds", "long holds"):
            folder.append(
                line("control-quorum-of-two", "jitter", use, blamed("overlap"), seed=seed, verdict="violation")
            )
    about = About("redlock-ng", "exclusive", "overlap", "violation", "it.tar.xz")
    write(folder, Finding("it", about, "# A title\n\nSo."))
    folder.close()
    for name, at in (("index.html", 'id="{}-exclusive"'), ("survey.md", "### {}: exclusive")):
        text = (folder.path / name).read_text()
        assert text.index(at.format("redlock-ng")) < text.index(at.format("control-quorum-of-two"))
        assert text.count("more, in survey.json") == 1, name


def test_the_other_forms_say_the_same(written: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((written / "survey.csv").read_text())))
    answers = {(row["subject"], row["promise"]): row["answer"] for row in rows}
    assert answers["redlock-ng", "validity"] == "broken"
    assert answers["redlock-ng", "exclusive"] == "kept"
    assert answers["set-nx-px", "exclusive"] == "unknown"
    document = json.loads((written / "survey.json").read_bytes())
    ng = next(each for each in document["subjects"] if each["name"] == "redlock-ng")
    assert (ng["library"]["version"], ng["runs"]) == ("2.0.4", 7)
    validity = next(each for each in ng["promises"] if each["name"] == "validity")
    assert [run["folder"] for run in validity["runs"]] == ["run-redlock-ng-slow-answers-long-holds-1"]
    text = (written / "survey.md").read_text()
    assert "### redlock-ng: validity true" in text
    assert "findings/mine.md" in text
    assert "<script>" not in text


def test_a_page_on_which_a_correct_lock_is_blamed_says_so(tmp_path: Path) -> None:
    folder = CampaignFolder.claim(tmp_path / "survey", made.campaign(made.grid("redlock")))
    folder.append(line("redlock", "partition", "short holds", blamed("overlap"), verdict="violation"))
    write(folder)
    folder.close()
    assert "nothing on this page can be relied on" in (folder.path / "index.html").read_text()

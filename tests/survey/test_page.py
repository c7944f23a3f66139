"""Every form of the page, from lines as runs would leave them."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from harness.campaign.folder import CampaignFolder
from harness.survey.findings import About, Finding
from harness.survey.promises import ENOUGH
from harness.survey.session import settle_all, write_page
from tests.survey import made
from tests.survey.made import blamed, line

HOSTILE = "</script><script>alert(1)</script>"
NAMES = ("redlock", "control-quorum-of-two", "redlock-ng", "set-nx-px")
FINDING = Finding(
    "mine", About("redlock-ng", "validity", "late-grant", "violation", "mine.tar.xz"), f"# It {HOSTILE}\n\nSo."
)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """redlock-ng broke one promise and kept others; one control was caught, another never blamed."""
    campaign = made.campaign(made.grid(*NAMES))
    folder = CampaignFolder.claim(tmp_path / "survey", campaign)
    for seed in range(1, ENOUGH + 1):
        folder.append(line("redlock-ng", seed=seed))
        folder.append(line("redlock", seed=seed))
    late = made.Blamed("late-grant", 5.0, HOSTILE, None, HOSTILE, 1, ("lease",))
    folder.append(line("redlock-ng", "slow answers", "long holds", late, verdict="violation"))
    folder.append(line("control-quorum-of-two", "partition", "short holds", blamed("overlap"), verdict="violation"))
    moment = {"folder": HOSTILE, "seed": 1, "show": 0, "text": HOSTILE, "from_s": 1.5, "data": {"clients": [HOSTILE]}}
    folder.keep_timeline("redlock-ng · slow answers · long holds", moment | {"finding": "late-grant"})
    write_page(folder, settle_all(folder, {"set-nx-px": "no server"}, [FINDING]), [FINDING])
    folder.close()
    return folder.path


def test_the_matrix_shows_every_answer_and_a_cross_leads_to_what_was_found(written: Path) -> None:
    page = (written / "index.html").read_text()
    assert page.count('<td class="broken"') == 2
    assert '<a href="#redlock-ng-validity">✗</a><span>1 of 7</span>' in page
    assert 'id="redlock-ng-validity"' in page
    assert "<b>✓</b><span>≤ 41 %</span>" in page
    assert "1 lock of 1 library in 1 language, 14 runs: 1 lock broke a promise." in page
    assert "redlock (ours, a correct lock: it must not be blamed): 6 runs, not blamed." in page
    assert "control-quorum-of-two (ours, broken on purpose: it must be blamed): 1 run, blamed for exclusive." in page
    assert "set-nx-px: not played: no server." in page
    assert "Of the others, 14 of 540 runs were made so far." in page
    assert "set-nx-px (ours, a correct lock: it must not be blamed): no run." in page
    assert "fencepost test --nodes=5" not in page, "a command has all that decides the run"
    assert (
        "--lock=redlock-ng --nemesis=latency:interval=2s,duration=1s,kind=delay --hold=uniform:300ms-900ms --seed=1"
        in page
    )


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
    write_page(folder, settle_all(folder, {}, []), [])
    folder.close()
    assert "nothing on this page can be relied on" in (folder.path / "index.html").read_text()

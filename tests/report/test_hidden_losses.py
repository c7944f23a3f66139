"""A run that is valid as to its lock may have lost data all the same: every place that says `valid` says that, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checkers.judge import judge
from harness.limits import Limit
from harness.report import wording
from harness.report.judged import Judged
from harness.report.listing import listed, render_listing
from harness.report.page import render_page
from harness.report.result import result_of
from harness.serve.index import summary_of
from harness.serve.pages import run_page
from harness.store.run_folder import RunFolder
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.histories import History

LOSS = "1 of 2 acknowledged updates was lost without fencing, by a client that had outlived its lease"


def outlived(**config: object) -> History:
    """c1 outlives its lease and then overwrites what c2 wrote."""
    history = History(ttl_ms=110, **config).section("c1", 0, 500).section("c2", 120, 140)
    return history.write("c2", 1, at=125).write("c1", 1, at=490)


def judged(history: History) -> Verdict:
    return judge(history.recorded())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    history = outlived()
    folder = RunFolder.create(tmp_path, history.config)
    folder.write_verdict(judged(history))
    return folder.path


def test_the_banner_says_both(golden: Golden) -> None:
    verdict = judged(outlived())
    assert verdict.verdict == "valid"
    golden("\n".join(wording.headline(verdict)))


def test_the_page_of_a_run_says_both() -> None:
    history = outlived()
    page = render_page(Judged(history.recorded(), judged(history), {}))
    assert LOSS in page.partition('<section class="banner')[2].partition("</section>")[0]


def test_a_loss_that_the_requirement_names_is_the_violation_itself() -> None:
    word, says = wording.headline(judged(outlived(require="data")))
    assert (word, says.count("1 lost update")) == ("VIOLATION", 1)


def test_a_loss_despite_fencing_says_which_fencing() -> None:
    _, says = wording.headline(judged(outlived(fencing="writes")))
    assert "--fencing writes" in says


def test_a_list_of_runs_says_both(run: Path) -> None:
    seen = listed(run)
    assert LOSS in seen.says
    assert {cell.column: cell.text for cell in seen.cells}["data"] == "broken"
    (*_, verdicts) = render_listing([seen]).columns
    assert list(verdicts.cells) == ["valid, data lost"]


def test_a_list_of_runs_says_valid_alone_where_no_data_were_lost(tmp_path: Path) -> None:
    history = History(ttl_ms=110).section("c1", 0, 500).section("c2", 120, 140)
    folder = RunFolder.create(tmp_path, history.config)
    folder.write_verdict(judged(history))
    assert listed(folder.path).word == "valid"


def test_a_list_of_runs_names_limits_that_were_not_met(tmp_path: Path) -> None:
    history = History(limits=(Limit("sections", ">", 9),)).section("c1", 0, 5).section("c2", 20, 30)
    folder = RunFolder.create(tmp_path, history.config)
    folder.write_verdict(judged(history))
    seen = listed(folder.path)
    assert (seen.verdict, seen.word) == ("valid", "valid, limit missed")
    assert "sections were 2, limit &gt; 9" in run_page("/", folder.path)
    result = result_of(history.config, judged(history), folder.path, "fencepost test")
    assert (result.verdict, result.conclusion, result.limits[0].measured) == ("valid", "limit missed", 2)
    assert result.story.startswith("LIMIT MISSED — sections were 2, limit > 9\n")


def test_the_pages_of_serve_say_both(run: Path) -> None:
    assert LOSS in summary_of(run).says
    assert LOSS in run_page("/", run)


def test_the_result_for_other_programs_says_both() -> None:
    history = outlived()
    result = result_of(history.config, judged(history), Path("run"), "replay")
    assert result.verdict == "valid"
    assert LOSS in result.story.partition("\n")[0]
    (data,) = [each for each in result.promises if each.promise == "data"]
    assert (data.outcome, data.decides) == ("broken", False)
    assert "data 1 × lost update" in result.kept

"""Findings that are kept: each is judged again, and says what its run shows."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from fencepost.errors import UsageError
from harness.campaign.folder import read_campaign, read_run_lines
from harness.cli.main import run
from harness.store.manifest import RunManifest, check_manifest, write_manifest
from harness.store.run_folder import RunFolder
from harness.studies.findings.evidence import EMPTY_BLOCK, block, with_block
from harness.studies.findings.study import replayed
from harness.studies.findings.table import TIGHT
from harness.survey import findings
from harness.survey.findings import MOST_BYTES, About, Finding, pack_small, read_findings
from harness.survey.promises import PROMISES
from harness.survey.session import replayed_kinds
from harness.survey.subjects import SUBJECTS, tells_deadline
from tests.explain.test_terminal import folder_of, restarted
from tests.harness.runs import ROOT
from tests.survey.published import WHY_AWAITED, disagreements, strange_figures, unshown
from workloads.registry import find_lock

KEPT = ROOT / "results" / "survey" / "findings"
TEXT = """\
---
subject: redlock-ng
promise: validity
finding: {finding}
verdict: {verdict}
run: it.tar.xz
---
# A title

What, and where.
"""


def kept(folder: Path, *, finding: str = "overlap", verdict: str = "violation") -> Finding:
    """A finding in this folder: two clients inside at once."""
    recorded = folder_of(restarted(), folder.parent / "runs")
    (recorded.path / "report.html").write_text("made anew")
    folder.mkdir(exist_ok=True)
    pack_small(recorded, folder / "it.tar.xz")
    (folder / "mine.md").write_text(TEXT.format(finding=finding, verdict=verdict))
    (found,) = read_findings(folder)
    return found


@pytest.mark.parametrize("finding", read_findings(KEPT), ids=lambda finding: finding.name)
def test_a_finding_that_is_published_is_what_its_run_shows(finding: Finding) -> None:
    assert set(finding.about.subjects) <= {subject.name for subject in SUBJECTS}
    promises = [each for each in PROMISES if each.name in finding.about.promises]
    assert len(promises) == len(finding.about.promises)
    assert not promises or any(promise.is_about(finding.about.finding) for promise in promises)
    assert finding.about.is_awaited or (KEPT / finding.about.run).stat().st_size <= MOST_BYTES
    assert list(disagreements(finding, KEPT)) == []


@pytest.mark.parametrize("finding", read_findings(KEPT), ids=lambda finding: finding.name)
def test_a_published_finding_shows_in_every_replay_of_each_lock_that_it_names(finding: Finding) -> None:
    record = KEPT.parent / "replays"
    found = replayed(read_campaign(record).grid, read_run_lines(record))
    shown = {one.lock for one in found if one.finding == finding.name and one.settings == TIGHT and one.is_shown}
    assert set(finding.about.subjects) <= shown


@pytest.mark.parametrize("finding", read_findings(KEPT), ids=lambda finding: finding.name)
def test_each_promise_that_a_finding_calls_broken_is_broken_in_every_replay_of_its_subject(finding: Finding) -> None:
    record = KEPT.parent / "replays"
    grid = read_campaign(record).grid
    found = replayed(grid, read_run_lines(record))
    assert unshown(finding, found, grid) == []
    about = msgspec.structs.replace(finding.about, promise="orphans")
    claimed = [(name, "orphans") for name in about.subjects]
    assert unshown(msgspec.structs.replace(finding, about=about), found, grid) == claimed


@pytest.mark.parametrize("finding", read_findings(KEPT), ids=lambda finding: finding.name)
def test_a_text_has_no_figure_that_is_not_one_of_its_data(finding: Finding) -> None:
    fields = [TIGHT, *(str(find_lock(name).manifest) for name in finding.about.subjects)]
    assert strange_figures(finding.text, fields) == []


@pytest.mark.parametrize("finding", read_findings(KEPT), ids=lambda finding: finding.name)
def test_a_text_tells_its_maintainer_everything_and_under_which_ttl(finding: Finding) -> None:
    heads = re.findall(r"^\*\*([^*]+?)[.?]?\*\*", finding.body, re.MULTILINE)
    parts = ["What happens", "Where and why", "Known upstream", "Suggested fix", "What was not shown"]
    assert [part for part in parts if part not in heads] == []
    assert re.search(r"\(.*TTL [\d.]+ s", finding.title)


def test_a_figure_that_was_typed_is_found_and_one_of_the_data_is_not() -> None:
    text = f"""In 3 of 8 runs (12-14), in 2016 (6 of 9), for 2.5 s, `7 ms`, #31, 4.2.1, TTL 10 s.\n\n{EMPTY_BLOCK}"""
    assert strange_figures(text, ["ttl 10"]) == ["3", "8", "6", "9", "2.5"]
    assert (
        strange_figures(with_block(text, block([], read_campaign(KEPT.parent / "replays"))), ["3 8 6 9 2.5 10"]) == []
    )
    words = "It takes four to five seconds, in three of 9 runs; one of five servers, and a second apart."
    assert strange_figures(f"{words}\n\n{EMPTY_BLOCK}", ["9"]) == ["four to five seconds", "three of 9"]
    with pytest.raises(ValueError, match="no block"):
        strange_figures("No comment.", [])


def test_a_finding_explains_each_promise_of_each_subject_that_it_names_and_no_other() -> None:
    about = About("redlock-py, redlock-pypi", "minority,hung", "unavailable-while-free", "valid", "it.tar.xz")
    assert all(about.explains(name, why) for name in ("redlock-py", "redlock-pypi") for why in ("minority", "hung"))
    assert not about.explains("redlock", "hung")
    assert not about.explains("redlock-py", "validity")
    one = msgspec.structs.replace(about, promise="minority, hung of redlock-py")
    assert one.promises == ("minority", "hung")
    assert [one.explains(name, "hung") for name in one.subjects] == [True, False]
    none = msgspec.structs.replace(about, promise="none")
    assert (none.promises, none.explains("redlock-py", "none")) == ((), False)


def test_the_survey_accuses_no_library_without_a_finding_and_says_why_it_does_not_know() -> None:
    """Nor does it call a promise kept that a replay broke."""
    subjects = json.loads((KEPT.parent / "survey.json").read_bytes())["subjects"]
    told = [(one, answer) for one in subjects for answer in one["promises"] if not one.get("role")]
    found = read_findings(KEPT)
    assert sum(answer["answer"] == "broken" for _, answer in told) > 10
    for one, answer in told:
        if answer["answer"] == "broken":
            assert any(each.about.explains(one["name"], answer["name"]) for each in found), (one["name"], answer)
        if answer["answer"] in ("unknown", "inapplicable"):
            assert answer["why"], (one["name"], answer["name"])
    kinds = replayed_kinds(KEPT.parent)
    kept = [
        (one["lock"], promise)
        for one, answer in told
        for promise in PROMISES
        if (answer["name"], answer["answer"]) == (promise.name, "kept")
    ]
    assert len(kept) > 50
    broken = [
        (lock, promise.name)
        for lock, promise in kept
        for kind in kinds.get(lock, ())
        if promise.would_break(kind, tells_deadline(lock))
    ]
    assert broken == []


def test_a_finding_is_judged_again_from_its_one_file(tmp_path: Path) -> None:
    finding = kept(tmp_path / "findings")
    assert (finding.name, finding.title) == ("mine", "A title")
    assert list(disagreements(finding, tmp_path / "findings")) == []


def test_a_finding_that_its_run_does_not_show_is_told(tmp_path: Path) -> None:
    finding = kept(tmp_path / "findings", finding="late-grant", verdict="valid")
    assert list(disagreements(finding, tmp_path / "findings")) == [
        "the verdict is violation, not valid",
        "the lock is blamed for overlap, not for late-grant",
    ]


def test_no_run_is_kept_to_which_no_finding_leads() -> None:
    named = {finding.about.run for finding in read_findings(KEPT) if not finding.about.is_awaited}
    assert {path.name for path in KEPT.glob("*.tar.xz")} == named


def test_a_finding_whose_run_is_awaited_says_so_in_its_first_line(tmp_path: Path) -> None:
    about = About("redlock-ng", "validity", "overlap", "violation", "awaited")
    told = Finding("mine", about, f"# A title\n\n{WHY_AWAITED}\n\nWhat, and where.\n")
    silent = Finding("mine", about, "# A title\n\nWhat, and where.\n")
    assert list(disagreements(told, tmp_path)) == []
    assert list(disagreements(silent, tmp_path)) == [
        "the first line below its title does not say that its run is awaited"
    ]


def test_the_file_unpacks_to_a_run_that_can_be_analyzed_without_what_is_made_anew(tmp_path: Path) -> None:
    finding = kept(tmp_path / "findings")
    subprocess.run(["tar", "-xf", finding.about.run, "-C", tmp_path], cwd=tmp_path / "findings", check=True)
    (folder,) = (path for path in tmp_path.iterdir() if path.name.endswith("-1"))
    assert not (folder / "report.html").exists()
    assert run(["analyze", str(folder)]) == 1


def test_the_file_does_not_say_where_anything_lay(tmp_path: Path) -> None:
    recorded = folder_of(restarted(), tmp_path / "runs")
    places = {"path": "/home/me/bin/redis-server", "command": ["/home/me/node", "--jitless"], "version": "7"}
    recorded.write_environment({"cluster": {"server": places}})
    write_manifest(recorded)
    pack_small(recorded, tmp_path / "it.tar.xz")
    subprocess.run(["tar", "-xf", tmp_path / "it.tar.xz", "-C", tmp_path], check=True)
    unpacked = RunFolder(tmp_path / recorded.name)
    assert unpacked.read_environment() == {
        "cluster": {"server": {"path": "redis-server", "command": ["node", "--jitless"], "version": "7"}}
    }
    manifest = unpacked.read_manifest(RunManifest)
    assert manifest is not None
    check_manifest(unpacked, manifest)
    (recorded.path / "timeline.json").write_text("{}")
    with pytest.raises(UsageError, match=r"timeline\.json is not as the run left it"):
        pack_small(recorded, tmp_path / "it.tar.xz")


def test_a_run_that_is_too_large_is_refused_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MOST_BYTES", 100)
    with pytest.raises(UsageError, match="choose a shorter run"):
        kept(tmp_path / "findings")
    assert list((tmp_path / "findings").iterdir()) == []


@pytest.mark.parametrize(
    "text", ["# No facts", TEXT.format(finding="overlap", verdict="guilty"), "---\nsubject: x\n---\n"]
)
def test_a_text_that_does_not_say_what_it_is_about_is_one_clear_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.md").write_text(text)
    with pytest.raises(UsageError, match=r"bad\.md does not begin with what it is about") as raised:
        read_findings(tmp_path)
    assert len(str(raised.value).splitlines()) == 1

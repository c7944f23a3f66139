"""What the command and the page show, and which files they need."""

from __future__ import annotations

import io
import re
from pathlib import Path

import msgspec
import pytest
from markupsafe import escape
from rich.console import Console

from harness.checkers.explained import explain
from harness.checkers.judge import judge
from harness.cli.main import run
from harness.explain.explanation import Explained
from harness.explain.space_time import Album
from harness.history.recorded import Recorded
from harness.report.explanations import lines, render_explained
from harness.report.judged import Judged
from harness.report.page import render_page
from harness.store.manifest import write_manifest
from harness.store.run_folder import RunFolder
from harness.verdict import Verdict
from tests.explain.pictures import explained as explanation_of
from tests.explain.pictures import recorded
from tests.explain.stories import Story
from tests.explain.test_space_time import taken_away
from tests.golden import Golden
from tests.peers.recorded import complete


def folder_of(story: Story, results: Path) -> RunFolder:
    """The story as a run's folder."""
    folder = RunFolder.create(results, story.config)
    encode = msgspec.json.Encoder().encode_lines
    for (client, life), ops in story.ops.items():
        folder.client_log(client, life).write_bytes(encode(ops))
    with folder.nemesis_log() as log:
        log.extend(story.faults)
    with folder.resource_log() as log:
        log.extend(story.writes)
    complete(folder, story.timeline.end_ns or 0)
    folder.write_timeline(story.timeline)
    folder.write_final({write.key: write.value for write in story.writes})
    write_manifest(folder)
    return folder


def explained(story: Story, limit: int | None = None) -> tuple[Recorded, Verdict, tuple[Explained, ...]]:
    recorded, verdict = story.judged()
    return recorded, verdict, explain(recorded, verdict, limit)


def shown(story: Story, limit: int = 3, width: int = 100) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width)
    console.print(render_explained(*explained(story, limit)))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def restarted() -> Story:
    story = Story().let_in("c1", 10, 50, "OK OK nil").killed("n2", 12, 20).let_in("c2", 30, 60, "nil OK OK")
    return story.fault("far", 35, 40, cut_links=(("c9", "n1"),))


def many() -> Story:
    """Five overlaps of one kind, the fourth the longest."""
    story = Story(nodes=3, ttl_ms=110)
    for number in range(1, 6):
        at = 200 * number
        story.section("c1", at, at + 50 + (number == 4), number=number, asked=at - 2)
        story.section("c2", at + 20, at + 60, number=number, asked=at - 1)
    return story


def test_the_whole_story_of_an_overlap(golden: Golden) -> None:
    golden(shown(restarted()))


def test_a_narrow_terminal_folds_the_nodes_replies_within_their_columns(golden: Golden) -> None:
    text = shown(restarted(), width=60)
    at = text.splitlines().index("   node  to c1           in between (ms)      to c2")
    golden("\n".join(text.splitlines()[at : at + 4]))


def test_the_table_shows_to_whom_else_a_node_granted_the_lock_meanwhile(golden: Golden) -> None:
    story = Story(clients=6).let_in("c1", 10, 90, "OK OK nil").let_in("c2", 60, 80, "nil OK OK")
    for place, at in enumerate((20, 25, 30, 35, 40), 3):
        story.asked(f"c{place}", "acquire", at, "nil nil OK")
    rows = [line.split("  ") for line in shown(story, width=160).splitlines() if line.startswith("   n3 ")]
    golden("  ".join(rows[0]))


def test_the_first_few_and_the_longest_are_explained_and_the_rest_counted(golden: Golden) -> None:
    text = shown(many(), limit=2)
    heads = [line.partition(", from")[2] for line in text.splitlines() if "were inside k1 at the same time" in line]
    assert heads == [" +220.0 ms", " +420.0 ms", " +820.0 ms"]
    golden(text)


def test_a_larger_limit_explains_more_than_the_verdict_lists() -> None:
    text = shown(many(), limit=50)
    assert re.findall(r"^(\d+)\. ", text, re.MULTILINE) == ["1", "2", "3", "4", "5"]
    assert "more of this kind" not in text


def test_two_sections_are_drawn_once_however_many_findings_are_about_them(golden: Golden) -> None:
    text = shown(restarted().write("c1", 1, at=40).write("c2", 1, at=45))
    assert text.count("node  to c1") == 1
    golden(" ".join(text.split()))


def test_each_case_has_a_number_of_its_own_also_without_sections() -> None:
    story = restarted()
    story.acquire_limit_ms = 10
    for at in (100, 600):
        story.op("c2", "acquire", "fail", 2, at, at + 400)
    text = shown(story)
    heads = [line for line in text.splitlines() if line[:1].isdigit() and line[1:2] == "."]
    assert [line[:2] for line in heads] == ["1.", "2.", "3."]
    assert [line[3:] for line in heads[1:]] == ["acquire overrun"] * 2


@pytest.mark.parametrize(
    ("deadline", "drawn"),
    [(110, "█" * 41 + "░" * 15), ((70, 110), "·" * 12 + "█" * 20 + "▒" * 12 + "░" * 12)],
)
def test_the_bar_shows_when_the_lease_expired(deadline: object, drawn: str) -> None:
    story = Story().section("c1", 10, 150, deadline=deadline).section("c2", 120, 130)
    recorded, _, (found,) = explained(story)
    assert f"c1  {drawn}" in lines(recorded, found.explanations[0])


def test_the_page_shows_the_same_next_to_each_example() -> None:
    recorded, verdict, found = explained(restarted())
    page = render_page(Judged(recorded, verdict, {}, explained=found))
    assert f'<p class="why">{escape(found[0].explanations[0].sentence)}</p>' in page
    assert "killed +12.0 to +19.0, key lost" in page


def command(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run(["explain", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_run_without_violations_is_one_line_and_exit_code_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    folder = folder_of(Story().let_in("c1", 10, 20, "OK OK OK").let_in("c2", 30, 40, "OK OK OK"), tmp_path)
    code, out, err = command(str(folder.path), capsys=capsys)
    assert (code, err) == (0, "")
    golden(out)


def test_explaining_changes_nothing_in_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(restarted(), tmp_path)
    before = sorted((path, path.stat().st_mtime_ns) for path in folder.path.rglob("*"))
    assert command(str(folder.path), capsys=capsys)[0] == 0
    assert sorted((path, path.stat().st_mtime_ns) for path in folder.path.rglob("*")) == before


def test_a_run_without_a_record_of_its_links_is_explained_as_far_as_possible(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    code, out, _ = command(str(folder_of(restarted(), tmp_path).path), capsys=capsys)
    assert code == 0
    golden(" ".join(out.split()))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/no/such/run"], "there is no run folder /no/such/run"),
        (["--limit", "0"], "--limit is 0; it must be at least 1"),
        (["--limit", "all"], "--limit is 'all'; it must be a whole number"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_bad_input_is_one_line_and_254(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = command(*arguments, capsys=capsys)
    assert (code, out) == (254, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_the_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "space-time diagram" in said
    assert "docs/explain.md" in said


def test_a_diagram_replaces_the_bars_where_the_terminal_has_room_for_it(tmp_path: Path, golden: Golden) -> None:
    history, links = taken_away()
    run = recorded(history, links)
    verdict = judge(run)
    finding = next(found for found in verdict.findings if found.kind == "overlap")
    album = Album(run, RunFolder(tmp_path), links.wire())

    def said(width: int) -> str:
        out = io.StringIO()
        explained = (Explained(finding, (explanation_of(run, finding),)),)
        Console(file=out, width=width).print(render_explained(run, verdict, explained, album))
        return out.getvalue()

    assert "deletes c1's key" in said(100)
    assert "within its lease" not in said(100)
    assert "deletes c1's key" not in said(62)
    assert "within its lease" in said(62)
    golden(said(62))

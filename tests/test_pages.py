"""What the pages for newcomers show is true of real runs: the tutorial's verdicts, and the files of a run folder."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from harness.checkers.kinds import kinds
from harness.promises import PROMISES
from harness.survey.findings import read_findings
from tests.harness import runs
from tests.harness.second_tries import caught, played, spared, was_held_up

DOCS = Path(__file__).parent.parent / "docs"
FINDINGS = DOCS.parent / "results" / "survey" / "findings"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `([\w.-]+)/?` \|", re.MULTILINE)
ONLY_SOMETIMES = {
    "denied.jsonl",
    "experiment.json",
    "failure.json",
    "gaps",
    "played.json",
    "sealed.json",
    "wire",
}


def blocks(page: str, language: str) -> list[str]:
    return [body for name, body in BLOCK.findall((DOCS / page).read_text()) if name == language]


def in_tutorial(lock: str) -> list[str]:
    """The arguments of the tutorial's command for this lock, with servers that every machine has."""
    (command,) = [line for line in blocks("tutorial.md", "") if f"my_lock:{lock} " in line]
    return [*shlex.split(command)[1:], "--cluster", "process"]


@pytest.mark.timeout(300)
def test_the_broken_lock_of_the_first_verdict_is_caught_as_the_page_says(tmp_path: Path) -> None:
    (command,) = [block for block in blocks("first-verdict.md", "") if "quorum-of-two" in block]
    code, said, _ = caught(tmp_path, [*shlex.split(command)[1:], "--cluster", "process"])
    assert code == 1, said
    assert is_a_violation_of_the_lock(said)


@pytest.fixture
def my_lock() -> str:
    return "\n\n".join(blocks("tutorial.md", "python"))


@pytest.mark.timeout(300)
def test_the_tutorial_s_lock_is_blamed_as_the_tutorial_says(tmp_path: Path, my_lock: str) -> None:
    # Who comes in while a client stands still is left to chance: seldom nobody has a key that could be deleted.
    code, said, _ = played(tmp_path, in_tutorial("MyLock"), lambda each: is_told_of_keys(each.said), my_lock)
    assert code == 1, said
    assert is_a_violation_of_the_lock(said)
    assert is_told_of_keys(said), said


def is_a_violation_of_the_lock(said: str) -> bool:
    return bool(re.search("VIOLATION — .*; the lock is to blame", " ".join(said.split())))


def is_told_of_keys(said: str) -> bool:
    return bool(re.search(r"requests deleted \d+ keys? of (other|another) client", " ".join(said.split())))


@pytest.mark.timeout(300)
def test_the_tutorial_s_mended_lock_is_valid_under_the_same_faults(tmp_path: Path, my_lock: str) -> None:
    code, said, _ = played(
        tmp_path, in_tutorial("MendedLock"), lambda each: each.code != 2 or not was_held_up(each.run), my_lock
    )
    assert code == 0, said


@pytest.mark.needs("node")
def test_the_tutorial_s_program_is_a_lock_in_another_language(tmp_path: Path) -> None:
    (program := tmp_path / "my_lock.mjs").write_text(blocks("lock-protocol.md", "javascript")[-1])
    (command,) = [line for line in blocks("tutorial.md", "") if program.name in line]
    words = shlex.split(command.replace(program.name, str(program)))
    short = ["--cluster", "process", "--clients", "3", "--duration", "3s", "--recovery", "0s"]
    little = ["--least-sections", "0", "--most-empty", "100"]  # one cut of the only node fills such a run
    code, said, _ = spared(tmp_path, [*words[1:], *short, *little])
    assert code == 0, said
    assert re.search(r"sections  [1-9]", said), said


def test_the_page_on_the_run_folder_names_every_file_of_a_run(tmp_path: Path) -> None:
    code, said, run = spared(tmp_path, runs.short_run("--nemesis", "partition"))
    assert code == 0, said
    there = {path.name for path in run.path.iterdir()}
    named = set(ROW.findall((DOCS / "run-folder.md").read_text()))
    assert there - named == set()
    assert named - there <= ONLY_SOMETIMES


def test_the_page_on_verdicts_names_every_kind_of_finding() -> None:
    table = (DOCS / "verdicts.md").read_text().partition("| promise | it is kept if | kinds of findings |")[2]
    rows = [re.findall(r"`([a-z-]+)`", row) for row in table.partition("\n\n")[0].splitlines()[2:]]
    by_promise = {promise: [each.name for each in kinds().values() if each.promise == promise] for promise in PROMISES}
    record, none = ([each.name for each in kinds().values() if each.promise == one] for one in ("record", "none"))
    assert [sorted(row) for row in rows] == [
        *(sorted([promise, *kinds]) for promise, kinds in by_promise.items()), sorted(record), sorted(none)
    ]  # fmt: skip


FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?")


def strange_figures(page: str, data: str) -> list[str]:
    known = set(FIGURE.findall(data))
    return [figure for figure in FIGURE.findall(page) if figure not in known]


def test_the_page_on_choosing_has_no_figure_but_those_of_the_reports() -> None:
    page = (DOCS / "choosing.md").read_text().partition("## Then: what may your servers lose?")[2].partition("## ")[0]
    reports = (DOCS.parent / "results" / "reports" / name / "report.md" for name in ("fsync", "fsync-containers"))
    data = "".join(path.read_text().partition("## In short")[2].partition("\n|")[0] for path in reports)
    assert strange_figures(page, data) == []
    assert len(FIGURE.findall(page)) > 8
    assert strange_figures("in 73.5 % of 2,667", data) == ["73.5", "2,667"]


def test_the_page_on_choosing_names_every_published_finding_with_its_locks_and_its_title() -> None:
    page = (DOCS / "choosing.md").read_text()
    findings = read_findings(FINDINGS)
    assert findings
    rows = [
        f"| {', '.join(f'`{name}`' for name in one.about.subjects)} "
        f"| [{one.title}](../results/survey/findings/{one.name}.md) |"
        for one in findings
    ]
    assert [row for row in rows if row not in page] == []


def test_the_page_on_choosing_sorts_the_locks_by_what_the_survey_and_the_findings_say() -> None:
    subjects = json.loads((DOCS.parent / "results/survey/survey.json").read_bytes())["subjects"]
    with_finding = {name for finding in read_findings(FINDINGS) for name in finding.about.subjects}
    sorted_by: dict[tuple[str, bool], set[str]] = {}
    for each in (each for each in subjects if not each.get("role")):
        broken = any(promise["answer"] == "broken" for promise in each["promises"]) or each["name"] in with_finding
        sorted_by.setdefault((each["library"]["language"], broken), set()).add(each["name"])
    table = (DOCS / "choosing.md").read_text().partition("| language |")[2].partition("\n\n")[0].splitlines()[2:]
    languages = {"Node.js": "node"}
    told = {}
    for language, *columns in ([cell.strip() for cell in row.strip("|").split("|")] for row in table):
        for broken, names in enumerate(columns):
            told[languages.get(language, language.lower()), bool(broken)] = set(re.findall(r"`([\w-]+)`", names))
    assert {key: names for key, names in told.items() if names} == sorted_by


def test_the_page_on_workloads_shows_the_toy_workload_as_it_is() -> None:
    toy = DOCS.parent / "tests/toys/workloads/kinds/guest_book.py"
    assert toy.read_text() in blocks("workloads.md", "python")


def test_the_page_on_nemeses_shows_the_toy_nemesis_as_it_is() -> None:
    toy = DOCS.parent / "tests/toys/nemesis/hiccup.py"
    assert toy.read_text() in blocks("nemeses.md", "python")


def test_the_index_leads_to_every_page() -> None:
    index = (DOCS / "index.md").read_text()
    pages = sorted(path.name for path in DOCS.glob("*.md") if path.name != "index.md")
    assert pages
    assert [name for name in pages if not re.search(rf"\]\({re.escape(name)}[)#]", index)] == []

"""What the pages for newcomers show is true of real runs: the tutorial's verdicts, and the files of a run folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.harness import runs

DOCS = Path(__file__).parent.parent / "docs"
FINDINGS = DOCS.parent / "results" / "survey" / "findings"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `([\w.-]+)/?` \|", re.MULTILINE)
ONLY_SOMETIMES = {"played.json", "gaps", "sealed.json", "failure.json", "links.pcapng"}


def blocks(page: str, language: str) -> list[str]:
    return [body for name, body in BLOCK.findall((DOCS / page).read_text()) if name == language]


@pytest.fixture
def beginner(tmp_path: Path) -> Path:
    """An empty folder with the tutorial's lock."""
    (tmp_path / "my_lock.py").write_text("\n\n".join(blocks("tutorial.md", "python")))
    return tmp_path


def in_tutorial(lock: str) -> list[str]:
    """The arguments of the tutorial's command for this lock, with servers that every machine has."""
    (command,) = [line for line in blocks("tutorial.md", "") if f"my_lock:{lock} " in line]
    return [*shlex.split(command)[1:], "--cluster", "process"]


def test_the_tutorial_s_lock_is_blamed_as_the_tutorial_says(beginner: Path) -> None:
    code, out, err = runs.fencepost(beginner, *in_tutorial("MyLock"))
    assert code == 1, out + err
    said = " ".join(out.split())
    assert "VIOLATION — the lock is to blame" in said
    assert re.search(r"requests deleted \d+ keys? of (other|another) client", said)


def test_the_tutorial_s_mended_lock_is_valid_under_the_same_faults(beginner: Path) -> None:
    code, out, err = runs.fencepost(beginner, *in_tutorial("MendedLock"))
    assert code == 0, out + err


@pytest.mark.needs("node")
def test_the_tutorial_s_program_is_a_lock_in_another_language(tmp_path: Path) -> None:
    (tmp_path / "my_lock.mjs").write_text(blocks("lock-protocol.md", "javascript")[-1])
    (command,) = [line for line in blocks("tutorial.md", "") if "my_lock.mjs" in line]
    short = ["--cluster", "process", "--clients", "3", "--duration", "3s", "--recovery", "0s"]
    code, out, err = runs.fencepost(tmp_path, *shlex.split(command)[1:], *short)
    assert code == 0, out + err
    assert re.search(r"sections  [1-9]", out), out


def test_the_page_on_the_run_folder_names_every_file_of_a_run(tmp_path: Path) -> None:
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--nemesis", "partition"))
    assert code == 0, out + err
    there = {path.name for path in runs.only_run(tmp_path).iterdir()}
    named = set(ROW.findall((DOCS / "run-folder.md").read_text()))
    assert there - named == set()
    assert named - there <= ONLY_SOMETIMES


def test_the_page_on_choosing_names_every_published_finding() -> None:
    page = (DOCS / "choosing.md").read_text()
    findings = sorted(path.name for path in FINDINGS.glob("*.md"))
    assert findings
    assert [name for name in findings if f"/{name})" not in page] == []


def test_the_page_on_workloads_shows_the_toy_workload_as_it_is() -> None:
    toy = DOCS.parent / "tests/toys/workloads/kinds/guest_book.py"
    assert toy.read_text() in blocks("workloads.md", "python")


def test_the_index_leads_to_every_page() -> None:
    index = (DOCS / "index.md").read_text()
    pages = sorted(path.name for path in DOCS.glob("*.md") if path.name != "index.md")
    assert pages
    assert [name for name in pages if not re.search(rf"\]\({re.escape(name)}[)#]", index)] == []

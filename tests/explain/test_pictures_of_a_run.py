"""The diagram of a real violation names the request that took the key away: in the terminal, as SVG and on the page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from harness.cli.main import run
from harness.store.run_folder import RunFolder
from tests.harness import runs

DELETED = re.compile(r"DEL k1 \((?:release|acquire)\)")
BY_ITS_VALUE = ("--lock", "control-release-without-comparing", "--nemesis", "none", "--nodes", "3", "--clients", "3")
LOAD = ("--hold", "uniform:20ms-60ms", "--duration", "3s", "--recovery", "1s", "--seed", "7", "--cluster", "process")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a lock was played whose release deletes any client's key."""
    place = tmp_path_factory.mktemp("played")
    code, out, err = runs.fencepost(place, "test", *BY_ITS_VALUE, *LOAD)
    assert code == 1, out + err
    return place


def test_the_terminal_shows_the_request_that_deleted_the_key(place: Path) -> None:
    code, out, err = runs.fencepost(place, "explain", "--limit", "1", "--kind", "overlap")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if re.search(r"deletes c\d's key", line))
    assert any(DELETED.search(line) and "▶" in line for line in lines[at - 3 : at])
    head = next(line for line in lines if re.search(r" ms  c\d  c\d", line))
    assert {"n1", "n2", "n3"} <= set(head.split())
    assert max(len(line) for line in lines[lines.index(head) : at + 1]) <= 100
    assert "█" in out
    assert out.count("within its lease") == 1, "of the longest overlap; the diagram of the first replaces these bars"


def test_the_svg_shows_it_and_the_page_has_the_same(place: Path) -> None:
    code, _, err = runs.fencepost(place, "explain", "--kind", "overlap", "--svg", "how.svg")
    assert (code, err) == (0, "")
    text = (place / "how.svg").read_text()
    titles = [element.text or "" for element in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}title")]
    culprits = [title for title in titles if DELETED.search(title) and re.search(r"deletes c\d's key", title)]
    assert culprits
    page = (runs.only_run(place) / "report.html").read_text()
    assert page.count('<svg xmlns="http://www.w3.org/2000/svg" class="space-time"') >= 1
    assert culprits[0].splitlines()[0] in page
    assert "data-picture" in page


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--kind", "no-such"), "no finding is of the kind no-such; the kinds here: "),
        (("--svg", "nowhere/how.svg"), "--svg nowhere/how.svg: there is no such folder"),
        (("--svg", "."), "--svg .: there is no such folder, or something else is there"),
    ],
)
def test_what_cannot_be_done_is_one_line(place: Path, options: tuple[str, ...], says: str) -> None:
    code, out, err = runs.fencepost(place, "explain", *options)
    assert (code, out) == (254, "")
    assert says in err
    assert err.count("\n") == 1


def test_a_run_without_a_record_of_its_links_says_that_it_has_no_diagram(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = runs.fencepost(tmp_path, "test", *BY_ITS_VALUE, *LOAD, "--wire", "off")
    assert code == 1, out + err
    folder = RunFolder.open(runs.only_run(tmp_path))
    assert run(["explain", str(folder.path), "--limit", "1"]) == 0
    assert capsys.readouterr().out.count("no space-time diagrams: what clients asked the nodes is not on record") == 1
    assert run(["explain", str(folder.path), "--svg", str(tmp_path / "how.svg")]) == 254
    assert "this run has no space-time diagram: its requests are not on record" in capsys.readouterr().err
    assert not (tmp_path / "how.svg").exists()
    page = (folder.path / "report.html").read_text()
    assert "No space-time diagrams: what clients asked the nodes is not on record." in page
    assert "data-picture>" not in page

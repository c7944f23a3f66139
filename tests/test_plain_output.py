"""What is printed where nobody reads it in a wide UTF-8 terminal: in pipes and files, and in the locale C."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path

import pytest
from rich.table import Table

from fencepost.ascii_forms import ascii_form, encoding
from harness.report.terminal import Terminal, Text
from tests.harness import runs

ROOT = Path(__file__).parents[1]
OURS = ("cluster", "fencepost", "harness", "nemesis", "workloads")


def texts() -> Iterator[str]:
    """All that the source can print."""
    for folder in OURS:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def test_every_character_that_fencepost_prints_has_an_ascii_form() -> None:
    ours = {character for text in texts() for character in text if not character.isascii()}
    assert {"…", "·", "█", "µ", "×"} <= ours
    assert [character for character in sorted(ours) if "\\" in ascii_form(character)] == []
    rich = "─━│┃┏┓┗┛┡┩╇⠋⠙⠹╸╺•"
    assert all(ascii_form(character).isascii() and "\\" not in ascii_form(character) for character in rich)


def test_letters_of_others_keep_what_can_be_kept_of_them() -> None:
    assert "".join(map(ascii_form, "é中")) == "e\\u4e2d"
    assert ascii_form("\udc80") == "\\udc80"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LANG": "C"}, "ascii"),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, "ascii"),  # so Python says it to its own processes
        ({"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, "ascii"),
        ({"LC_ALL": "de_DE.UTF-8", "LANG": "C"}, None),
        ({"LANG": "C.UTF-8"}, None),
        ({"LANG": "C", "PYTHONIOENCODING": "utf-8"}, None),
        ({}, None),
    ],
)
def test_the_locale_c_is_ascii_where_the_user_asked_for_it(
    monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str], expected: str | None
) -> None:
    for name in ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONIOENCODING", "PYTHONUTF8"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert encoding() == expected


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a run was made and judged."""
    folder = tmp_path_factory.mktemp("run")
    code, _, error = runs.fencepost(folder, *runs.short_run("--nemesis", "pause", "--lock", "control-quorum-of-two"))
    assert code in (0, 1, 2), error
    return folder


def said(folder: Path, *words: str, **environment: str) -> bytes:
    """What goes into a pipe, both streams."""
    command = [sys.executable, "-m", "fencepost", *words]
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONIO"))}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, env=keep | {"TERM": "xterm-256color"} | environment, check=False
    )
    return done.stdout + done.stderr


COMMANDS = (["list"], ["analyze"], ["explain"], ["test", "--nemsis"], ["doctor"])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("environment", [{"LANG": "C"}, {"PYTHONIOENCODING": "ascii"}], ids=str)
def test_the_locale_c_gets_ascii_and_no_escapes(run: Path, words: list[str], environment: Mapping[str, str]) -> None:
    text = said(run, *words, **environment)
    assert text
    assert text.isascii()
    assert not re.search(rb"\\u[0-9a-f]{4}|\\x[0-9a-f]{2}", text)


@pytest.mark.parametrize("columns", ["20", "80", "400"])
def test_what_goes_into_a_pipe_is_the_same_however_wide_the_terminal_is(run: Path, columns: str) -> None:
    (folder,) = [path for path in (run / "results" / "runs").iterdir() if not path.is_symlink()]
    listed = said(run, "list", COLUMNS=columns, LANG="C.UTF-8").decode()
    assert b"\x1b" not in listed.encode()
    (row,) = [line for line in listed.splitlines() if line.strip().startswith(folder.name[:15])]
    assert re.search(
        r"control-quorum-of-two, pause, fenced-counter  .*(valid|valid, data lost|violation|unknown)$", row
    )
    judged = said(run, "analyze", COLUMNS=columns, LANG="C.UTF-8").decode()
    assert "\x1b" not in judged
    assert re.search(rf"^  page      \S*{re.escape(folder.name)}/report\.html$", judged, re.MULTILINE)
    assert re.search(r"^  replay    .* --schedule \S+/schedule\.json\b", judged, re.MULTILINE)
    assert re.search(r"^(VALID|VIOLATION|UNKNOWN) — .*[a-z0-9]", judged, re.MULTILINE)
    assert not any(line.endswith(" ") for line in (listed + judged).splitlines())


def test_a_pipe_gets_lines_as_long_as_they_are() -> None:
    out = StringIO()
    terminal = Terminal(out)
    path = "/a/folder/" + "x" * 500 + "/report.html"
    terminal.print(f"run aborted; `fencepost analyze {path}` judges what was recorded")
    table = Table(caption="`fencepost analyze RUN` " * 20)
    table.add_column("path", no_wrap=True)
    table.add_column("words", overflow="fold")
    table.add_row(path, "many words " * 40)
    terminal.print(table)
    terminal.print(Text("a b " * 100))
    lines = out.getvalue().splitlines()
    assert lines[0].count(path) == 1
    assert any(path in line and ("many words " * 40).strip() in line for line in lines)
    assert any(line.count("`fencepost analyze RUN`") == 20 for line in lines)
    assert ("a b " * 100).strip() in lines

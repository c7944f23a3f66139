"""The gate begins with what a newcomer does: the README's commands, word for word, before anything else is set up."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def commands_of_the_readme() -> list[str]:
    """The lines of the first block under "Two commands", without comments."""
    section = (ROOT / "README.md").read_text().split("## Two commands", 1)[1]
    block = section.split("```")[1]
    return [line.split("#")[0].strip() for line in block.strip().splitlines()]


def commands_of_the_newcomer() -> list[str]:
    """What the gate's ordinary user enters in the fresh clone, in order."""
    job = re.search(r"local job='(.*?)'\n", (ROOT / ".ci/run").read_text(), re.DOTALL)
    assert job is not None
    lines = [line.strip() for line in job[1].splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def test_the_gate_plays_the_commands_of_the_readme_word_for_word_and_first() -> None:
    asked = commands_of_the_readme()
    assert len(asked) == 2
    played = commands_of_the_newcomer()
    entered = played.index("cd ~/fencepost") + 1
    assert played[entered : entered + 2] == asked


def test_nothing_is_set_up_before_the_newcomer_comes() -> None:
    script = (ROOT / ".ci/run").read_text()
    before = script.split("\nnewcomer\n", 1)[0]
    outside_of_functions = re.sub(r"^\w+\(\) \{.*?^\}$", "", before, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"^\s*(make|apt-get|pip|\.venv/|install_packages)\b", outside_of_functions, re.MULTILINE)
    assert re.search(r"^(make|install_packages) ", script.split("\nnewcomer\n", 1)[1], re.MULTILINE)


def test_of_the_newcomers_tests_only_those_are_played_again_that_were_skipped() -> None:
    script = (ROOT / ".ci/run").read_text()
    kept = re.search(r'cp "\$home/fencepost/(\S+)" "(\$work/\S+)"', script)
    assert kept is not None
    assert f"--note-skipped={kept[1]}" in (ROOT / "Makefile").read_text()
    (again,) = [line for line in script.splitlines() if re.search(r"\bmake test\b.*ARGS=", line)]
    assert f"--play-skipped={kept[2]} " in again
    assert "--must-have=" in again


def test_a_package_that_not_every_distribution_has_is_looked_for_first() -> None:
    """Ubuntu has no package `chromium`."""
    lines = (ROOT / ".ci/run").read_text().splitlines()
    calls = [(at, words.split()) for at, line in enumerate(lines) for words in line.split("install_packages ")[1:]]
    everywhere = {"python3-venv", "xfsprogs"}
    asked = {name: number for number, names in calls for name in names if name not in everywhere}
    assert asked
    unguarded = [name for name, at in asked.items() if f"apt-cache show {name} " not in "\n".join(lines[at - 2 : at])]
    assert unguarded == []

"""What of the design has reached its goal stays there (`tests/house.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import ROWS, Row, circles

REACHED = [row for row in ROWS if row.name.startswith(("majorities", "getattr"))]


def test_no_modules_import_each_other() -> None:
    """Imports of types alone do not run, and are not looked at."""
    assert circles(types=False) == []


def test_a_circle_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "round_and_round"
    package.mkdir()
    for name, imported in (("__init__", ""), ("one", "two"), ("two", "three"), ("three", "one"), ("apart", "one")):
        (package / f"{name}.py").write_text(f"import round_and_round.{imported}\n" if imported else "")
    monkeypatch.syspath_prepend(tmp_path)
    assert circles("round_and_round") == [[f"round_and_round.{name}" for name in ("one", "three", "two")]]


@pytest.mark.parametrize("row", REACHED, ids=lambda row: row.name)
def test_what_has_reached_its_goal_stays_there(row: Row) -> None:
    found = row.measure()
    assert found.number <= row.goal, "\n".join(found.places)

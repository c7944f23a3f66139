"""What of the design has reached its goal stays there (`tests/house.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import circles


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

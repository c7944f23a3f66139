"""The site of the documentation (`make docs`) leads to every page. The gate builds it, and sees that its links hold."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def pages(nav: Any) -> list[str]:
    """What a list of entries leads to: a page, or more entries, each under a title."""
    if isinstance(nav, str):
        return [nav]
    return [page for entry in nav for under in entry.values() for page in pages(under)]


def test_every_page_is_in_the_navigation_once() -> None:
    named = pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"])
    assert len(named) == len(set(named))
    assert [name for name in named if not (ROOT / name).is_file()] == []
    there = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert {name for name in named if name.startswith("docs/")} == there
    assert named[0] == "README.md"

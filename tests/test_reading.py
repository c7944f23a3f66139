"""Texts for a stranger's reading come from the terminal, the pages and the docs."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def picked(*words: str) -> str:
    return subprocess.check_output([sys.executable, "tools/reading.py", *words], cwd=ROOT, text=True)


def test_as_many_texts_of_each_kind_are_picked() -> None:
    kinds = Counter(line.partition(": ")[0] for line in picked("7", "20").splitlines() if line[:1].strip())
    assert sorted(kinds.items()) == [("docs", 7), ("page", 7), ("terminal", 6)]


def test_the_same_seed_picks_the_same_texts() -> None:
    assert picked("7", "6") == picked("7", "6") != picked("8", "6")

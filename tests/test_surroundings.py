"""A run in each surrounding that is not rare (`make surroundings` plays the others, too)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surroundings import SURROUNDINGS, Surrounding, surround


@pytest.mark.parametrize(
    "surrounding",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.needs(need) for need in each.needs])
        for each in SURROUNDINGS
        if not each.rare
    ],
)
def test_a_command_works_or_ends_in_one_line_and_leaves_nothing(surrounding: Surrounding, tmp_path: Path) -> None:
    ending = surround(surrounding, tmp_path)
    assert ending.wrong(surrounding) == [], ending.out + ending.err

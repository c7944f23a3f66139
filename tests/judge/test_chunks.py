"""Where long tables are cut."""

from __future__ import annotations

import pandas as pd
import pytest

from harness.history.chunks import by_lives, parts


def lengths(lives: str, worth: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many operations each part has. A client is a letter, and so is a life."""
    monkeypatch.setattr("harness.history.chunks.WORTH_A_PART", worth)
    ops = pd.DataFrame({"client": pd.Categorical(list(lives)), "life": 1})
    found = list(by_lives(ops))
    pd.testing.assert_frame_equal(pd.concat(found), ops)
    return [len(part) for part in found]


def test_every_part_has_whole_lives_and_enough_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lengths("aabbc", 1, monkeypatch) == [2, 2, 1]
    assert lengths("aabbc", 2, monkeypatch) == [2, 3]
    assert lengths("aabbcc", 3, monkeypatch) == [6]
    assert lengths("abbbccc", 3, monkeypatch) == [4, 3]


def test_lives_that_are_not_one_after_the_other_are_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lengths("aabba", 1, monkeypatch) == [5]


@pytest.mark.parametrize(("rows", "expected"), [(0, [0]), (3, [3]), (4, [3, 1]), (6, [3, 3])])
def test_a_table_is_cut_at_so_many_rows(rows: int, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.history.chunks.PART_ROWS", 3)
    assert [len(part) for part in parts(pd.DataFrame({"row": range(rows)}))] == expected

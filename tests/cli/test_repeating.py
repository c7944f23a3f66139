"""The command that a report gives to whoever wants to repeat it."""

from __future__ import annotations

import pytest
from rich.console import Console

from harness.cli.command import Call


@pytest.mark.parametrize(
    ("words", "repeated"),
    [
        (["mutants", "--seeds", "3"], "fencepost mutants --seeds 3"),
        (["mutants", "--report", "/home/me/table", "--seeds", "3"], "fencepost mutants --seeds 3"),
        (["mutants", "--only=half is enough", "--results=/tmp/runs"], "fencepost mutants '--only=half is enough'"),
        (["mutants", "--rep", "/home/me/table", "--resu=/tmp/runs"], "fencepost mutants"),
        (["compare", "grid.yaml", "--", "--reports"], "fencepost compare grid.yaml -- --reports"),
    ],
)
def test_it_leaves_out_the_folders_that_were_chosen_on_one_machine(words: list[str], repeated: str) -> None:
    assert Call(None, frozenset(), {}, [], words, Console(quiet=True)).to_repeat == repeated

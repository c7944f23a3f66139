"""When a node certainly did nothing."""

from __future__ import annotations

import pytest

from harness.history.node_downtime import Standstills
from tests.judge.histories import History, ms


def until(history: History, at: float, node: str = "n1") -> float:
    """In milliseconds; faults are injected within one, and healed within one."""
    return (Standstills.of(history.faults).until(node, ms(at)) - ms(0)) / 1e6


def down(*, holds: bool = True, how: str = "kill", healed: float | None = 20) -> History:
    return History().fault("f", 9, healed, holds=holds, nodes=("n1", "n2"), how_down=how)


def test_from_when_it_was_down_until_it_began_to_be_healed() -> None:
    assert [until(down(), at) for at in (9, 9.9, 10, 10.1, 18.9, 19, 25)] == [9, 9.9, 19, 19, 19, 19, 25]
    assert until(down(), 12, "n2") == 19
    assert until(down(), 12, "n3") == 12


def test_several_one_after_the_other() -> None:
    history = down().fault("g", 30, 40, nodes=("n1",)).fault("h", 50, 60, nodes=("n1",))
    assert [until(history, at) for at in (12, 25, 31, 39, 45, 55, 70)] == [19, 25, 39, 39, 45, 59, 70]


@pytest.mark.parametrize(
    "history", [down(holds=False), down(healed=None), History().unplanned("f", 9, 20, nodes=("n1",))]
)
def test_what_nobody_can_vouch_for(history: History) -> None:
    assert until(history, 12) == 12


def test_a_node_that_answers_errors_is_there() -> None:
    assert until(History().fault("f", 9, 20, nodes=("n1",), answers_errors=True), 12) == 12


@pytest.mark.parametrize(
    ("began", "healed", "ends"),
    [(15, 40, 15), (5, 16, 15), (5, 10.5, 11), (5, 10, 19), (5, 40, 19), (30, 40, 19)],
    ids=["injected", "healed", "healed as it went down", "healed before", "healed after", "later"],
)
def test_another_fault_of_the_node_may_have_started_it(began: float, healed: float, ends: float) -> None:
    other = down().fault("g", began, healed, nodes=("n1",), how_down="shutdown")
    assert until(other, 11) == ends
    assert until(other, 11, "n2") == 19
    elsewhere = down().fault("g", began, healed, nodes=("n3",), how_down="shutdown")
    assert until(elsewhere, 11) == 19


def test_somebody_else_started_it() -> None:
    history = down().undone("f", 15, nodes=("n1",))
    assert until(history, 11) == 14
    assert until(history, 11, "n2") == 19

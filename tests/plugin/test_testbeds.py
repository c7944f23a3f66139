"""No more runs at once than the machine bears."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pytest_fencepost.testbeds import bearable, one_place


def test_there_is_a_place_for_each_processor() -> None:
    assert bearable() >= 1


@pytest.mark.parametrize("at_once", [1, 2])
def test_only_so_many_get_in_and_the_next_one_when_somebody_leaves(at_once: int, tmp_path: Path) -> None:
    waiting, is_in, leave = threading.Event(), threading.Event(), threading.Event()

    def another() -> None:
        waiting.set()
        with one_place(tmp_path, at_once, 5):
            is_in.set()
            leave.wait(30)

    thread = threading.Thread(target=another)
    with one_place(tmp_path, at_once, 0):
        thread.start()
        assert waiting.wait(30)
        if at_once == 1:
            assert not is_in.wait(0.2)
        else:
            assert is_in.wait(30)
    assert is_in.wait(30)
    leave.set()
    thread.join(30)

"""Members of a group: they hear each other, do not where they are cut, and hear each other again."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.sandbox import Refusal, launch
from cluster.waiting import is_readable

pytestmark = pytest.mark.needs("members")
TOY = Path(__file__).parents[1] / "toys" / "members.py"


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    path = {"PYTHONPATH": str(TOY.parents[2])}
    sandbox = launch([sys.executable, str(TOY)], path, 2)
    assert not isinstance(sandbox, Refusal), sandbox
    text = b""
    while is_readable(sandbox.messages, 30) and (data := os.read(sandbox.messages, 1 << 16)):
        text += data
    sandbox.launcher.wait()
    os.close(sandbox.orders)
    os.close(sandbox.messages)
    return json.loads(text)


def test_without_a_cut_every_member_hears_every_other_one(seen: dict[str, Any]) -> None:
    assert seen["whole"] == ["heard", "heard", "heard"]


def test_a_cut_in_one_direction_leaves_the_other_one(seen: dict[str, Any]) -> None:
    assert seen["held"] == ["silent", "heard", "heard"]


def test_two_cuts_of_a_pair_are_undone_one_by_one(seen: dict[str, Any]) -> None:
    assert seen["refused back"] == ["silent", "silent", "heard"]  # the reset does not come back
    assert seen["refused"] == ["refused", "refused", "heard"]
    assert seen["owners"] == ["f2"]


def test_a_heal_undoes_everything(seen: dict[str, Any]) -> None:
    assert seen["healed"] == ["heard", "heard", "heard"]


def test_what_works_inside_sees_the_member_s_network_and_has_no_right_to_change_it(seen: dict[str, Any]) -> None:
    words = seen["inside"]
    assert "n2:" in words
    assert os.geteuid() == 0 or int(words[words.index("CapEff:") + 1], 16) == 0


def test_nothing_is_left_when_it_is_closed(seen: dict[str, Any]) -> None:
    assert seen["left"] == 1  # the loopback interface

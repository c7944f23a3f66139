"""Members of a group: they hear each other, do not where they are cut, and hear each other again."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.cluster import sandboxed

pytestmark = pytest.mark.needs("members")


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return sandboxed.said_by("members")


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

"""A driven client: one order, one step, one answer, which is what it recorded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from fencepost.history import Op
from tests.workload.test_fenced_counter import ScriptedLock, ScriptedResource, broken, granted, refused
from workloads.control import Control, State
from workloads.driven_client import StepAnswer, StepOrder, serve
from workloads.kinds.fenced_counter import WORKLOAD
from workloads.lock_steps import LockSteps
from workloads.options import ClientOptions, Fencing
from workloads.recorder import Recorder


class Told:
    """What a driven client answered to orders, and what it recorded; the lock answers acquires in this order."""

    def __init__(self, folder: Path, orders: Sequence[StepOrder], *grants: object, fencing: Fencing = "none") -> None:
        control = Control.create(folder / "control")
        lock, resource = ScriptedLock(control, [*grants, refused]), ScriptedResource()  # type: ignore[list-item]
        record = Recorder(folder / "c1.jsonl")
        steps = LockSteps("c1", ClientOptions(fencing=fencing), lock, record, control)
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        os.write(ours_out, b"".join(msgspec.json.encode(order) + b"\n" for order in orders))
        os.close(ours_out)
        serve(WORKLOAD, steps, resource, theirs_in, theirs_out)
        os.close(theirs_out)
        with os.fdopen(ours_in, "rb") as lines:
            self.answers = [msgspec.json.decode(line, type=StepAnswer) for line in lines]
        self.recorded = [msgspec.json.decode(line, type=Op) for line in (folder / "c1.jsonl").read_bytes().splitlines()]
        self.state, self.resource = control.state, resource


def test_it_takes_each_step_when_it_is_told_and_answers_with_what_it_recorded(tmp_path: Path) -> None:
    orders = [StepOrder("acquire", "k1"), StepOrder("read"), StepOrder("write"), StepOrder("release")]
    told = Told(tmp_path, orders, granted)
    assert [op.f for op in told.recorded] == ["acquire", "read", "write", "release"]
    assert [answer.op for answer in told.answers] == told.recorded
    assert told.resource.value == 1


def test_it_extends_what_it_holds_and_nothing_else(tmp_path: Path) -> None:
    told = Told(tmp_path, [StepOrder("extend"), StepOrder("acquire", "k1"), StepOrder("extend")], granted)
    assert "c1 is not inside and cannot extend" in str(told.answers[0].misfit)
    assert [(op.f, op.outcome) for op in told.recorded] == [("acquire", "ok"), ("extend", "fail")]


def test_tries_after_a_refusal_are_for_the_same_section_and_another_key_or_a_grant_begins_the_next(
    tmp_path: Path,
) -> None:
    one, two = StepOrder("acquire", "k1"), StepOrder("acquire", "k2")
    told = Told(tmp_path, [one, one, one, StepOrder("release"), one, two], refused, broken, granted, refused, refused)
    acquires = [(op.key, op.outcome, op.section) for op in told.recorded if op.f == "acquire"]
    assert acquires == [
        ("k1", "fail", 1),
        ("k1", "info", 1),
        ("k1", "ok", 1),
        ("k1", "fail", 2),
        ("k2", "fail", 3),
    ]


def test_it_shows_whether_it_is_inside(tmp_path: Path) -> None:
    assert Told(tmp_path, [StepOrder("acquire", "k1")], granted).state is State.INSIDE


@pytest.mark.parametrize(
    ("orders", "fencing", "words"),
    [
        ([StepOrder("read")], "none", "c1 is not inside and cannot read"),
        ([StepOrder("acquire", "k1"), StepOrder("write")], "none", "has not read"),
        ([StepOrder("acquire", "k1"), StepOrder("read")], "all", "must show a token"),
        ([StepOrder("acquire", "k1"), StepOrder("acquire", "k2")], "none", "holds k1"),
        (
            [StepOrder("acquire", "k1"), StepOrder("swap")],
            "none",
            "fenced-counter has no step 'swap'; it has acquire, extend",
        ),
    ],
)
def test_a_step_that_does_not_fit_is_answered_and_not_recorded(
    orders: list[StepOrder], fencing: Fencing, words: str, tmp_path: Path
) -> None:
    told = Told(tmp_path, orders, granted, fencing=fencing)
    assert told.answers[-1].op is None
    assert words in str(told.answers[-1].misfit)
    assert len(told.recorded) == len(orders) - 1


def test_a_token_that_was_drawn_is_shown(tmp_path: Path) -> None:
    orders = [StepOrder("acquire", "k1"), StepOrder("token"), StepOrder("read"), StepOrder("write")]
    told = Told(tmp_path, orders, granted, fencing="all")
    assert told.resource.shown == [("read", 1), ("write", 1)]

"""Answers of locks that are none are not believed, whatever they are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.errors import BrokenEnvironmentError
from fencepost.history import Op
from tests.workload.test_lock_steps import Answering, steps_of
from workloads.answer_checks import (
    checked_description,
    checked_lease,
    checked_words,
    checked_yes,
)
from workloads.base import Lease

ANYTHING: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(10**30), max_value=10**30),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    st.lists(st.integers(), max_size=3),
    st.tuples(st.text()),
    st.just(object()),
)
FIELDS = [each for each in Lease.__slots__ if each not in ("key", "handle")]


@pytest.mark.parametrize("answer", [False, True, 7, "k1", {"key": "k1"}, object(), Lease("k2", "v")])
def test_what_is_no_lease_of_the_key_is_refused(answer: object) -> None:
    with pytest.raises(BrokenEnvironmentError, match="the lock's acquire returned"):
        checked_lease("acquire", answer, "k1")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("value", None),
        ("value", b"bytes"),
        ("value", "\ud800"),
        ("value", "v" * 65_537),
        ("validity_ms", math.nan),
        ("validity_ms", math.inf),
        ("validity_ms", "900"),
        ("validity_ms", True),
        ("validity_ms", 10**400),
        ("granted_ms", 0),
        ("granted_ms", -1.0),
        ("granted_ms", math.nan),
        ("deadline_ns", 1.5),
        ("deadline_ns", 2**62 + 1),
        ("deadline_ns", -(2**64)),
        ("requested_ns", "now"),
        ("computed_after_ns", math.nan),
        ("token", 2**63),
        ("token", -(2**63) - 1),
        ("token", 1.0),
        ("open_ended", "yes"),
    ],
)
def test_a_field_that_is_none_is_named(field: str, value: Any) -> None:
    lease = Lease(**{"key": "k1", "value": "v", field: value})
    with pytest.raises(BrokenEnvironmentError, match=field):
        checked_lease("extend", lease, "k1")


@pytest.mark.parametrize("told", ["validity_ms", "granted_ms", "deadline_ns"])
def test_a_lease_without_an_end_tells_none(told: str) -> None:
    lease = Lease("k1", "v", open_ended=True)
    assert checked_lease("acquire", lease, "k1") is lease
    with pytest.raises(BrokenEnvironmentError, match=f"{told} of a lease that is open_ended"):
        checked_lease("acquire", Lease("k1", "v", open_ended=True, **{told: 5}), "k1")


def test_a_number_too_long_to_be_shown_is_refused_like_any_other() -> None:
    with pytest.raises(BrokenEnvironmentError, match="token") as refused:
        checked_lease("acquire", Lease("k1", "v", token=10**5_000), "k1")
    assert len(str(refused.value)) < 200


def test_bounds_in_the_wrong_order_are_no_bounds() -> None:
    with pytest.raises(BrokenEnvironmentError, match="later than computed_before_ns"):
        checked_lease("acquire", Lease("k1", "v", 1.0, computed_after_ns=2, computed_before_ns=1), "k1")


# The first draw makes the strategies, which takes seconds on a busy machine.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=4))
def test_a_lease_that_passes_is_recorded_and_read_again(fields: dict[str, Any]) -> None:
    try:
        lease = checked_lease("acquire", Lease(**{"key": "k1", "value": "v", **fields}), "k1")
    except BrokenEnvironmentError:
        return
    assert lease is not None
    op = Op(
        "acquire", "ok", "k1", 1, 1, 2, token=lease.token, validity_ms=lease.validity_ms, deadline_ns=lease.deadline_ns,
        computed_after_ns=lease.computed_after_ns, computed_before_ns=lease.computed_before_ns,
        requested_ns=lease.requested_ns, granted_ms=lease.granted_ms,
    )  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(op), type=Op) == op


@pytest.mark.parametrize(("answer", "yes"), [(True, True), (False, False), (1, True), (0, False)])
def test_yes_and_no_are_understood(answer: object, yes: bool) -> None:
    assert checked_yes("release", answer) is yes


@pytest.mark.parametrize("answer", [None, "", "no", 2, 1.0, [], object()])
def test_what_is_neither_yes_nor_no_is_refused_instead_of_guessed(answer: object) -> None:
    with pytest.raises(BrokenEnvironmentError, match="True or False"):
        checked_yes("release", answer)


@pytest.mark.parametrize("answer", [7, b"no", "\ud800", "x" * 70_000])
def test_what_are_no_words_is_refused(answer: object) -> None:
    with pytest.raises(BrokenEnvironmentError, match="take_error"):
        checked_words(answer)


def _deep(levels: int) -> dict[str, Any]:
    return {} if not levels else {"a": _deep(levels - 1)}


def test_a_description_is_an_object_of_a_sensible_size() -> None:
    assert msgspec.json.decode(checked_description({"library": "x", "retries": [1, 2]})) == {
        "library": "x",
        "retries": [1, 2],
    }
    circle: dict[str, object] = {}
    circle["circle"] = circle
    for answer in (None, [], "x", circle, _deep(20), {"a": "x" * 70_000}, {"a": object()}, {"a": 10**5_000}):
        with pytest.raises(BrokenEnvironmentError, match="describe"):
            checked_description(answer)


def test_an_answer_that_is_none_is_not_recorded(tmp_path: Path) -> None:
    steps = steps_of(Answering(Lease("k1", "v", math.nan)), tmp_path)
    with pytest.raises(BrokenEnvironmentError, match="validity_ms"):
        steps.acquire("k1")
    assert (tmp_path / "ops").read_bytes() == b""

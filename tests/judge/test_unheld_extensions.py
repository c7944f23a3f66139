"""Extensions that were granted although too few nodes still had the client's value."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.unheld_extensions import Figures, check
from harness.verdict import Answer
from tests.golden import Golden
from tests.judge.histories import History, ms

NODES = ("n1", "n2", "n3")


def extended(outcome: str = "ok", **config: Any) -> History:
    """c1 is inside from 10 to 400, v1 is on three nodes since 8, and an extension is asked for at 60 and answered at
    65."""
    history = History(ttl_ms=500, **config).watch(*NODES).section("c1", 10, 400, deadline=505).sets("c1", "v1")
    for node in NODES:
        history.seen(node, "set", 8, "v1", ttl=500)
    return history.op("c1", "extend", outcome, 1, 60, 65)


def judged(history: History) -> Answer:
    """With the nodes watched to the end."""
    for node in NODES:
        history.seen(node, "blind", 900)
    return check(history.recorded())


def unheld(history: History) -> tuple[int, int]:
    figures: Any = judged(history).figures
    return figures.extensions, figures.unheld


def test_nothing_is_said_of_what_nobody_watched_nor_of_a_lock_that_renews_by_itself() -> None:
    assert check(History().section("c1", 10, 50).op("c1", "extend", "ok", 1, 20, 21).recorded()) == Answer()
    lost = extended(renewal_ms=100).seen("n1", "deleted", 30).seen("n2", "deleted", 30)
    assert judged(lost) == Answer()


def test_an_extension_with_a_majority_is_as_it_should_be() -> None:
    assert unheld(extended()) == (1, 0)
    assert unheld(extended().seen("n3", "deleted", 30)) == (1, 0)


def test_an_extension_without_a_majority_breaks_the_lease(golden: Golden) -> None:
    history = extended().seen("n2", "deleted", 30).seen("n3", "deleted", 30).op("c1", "extend", "ok", 1, 80, 85)
    answer = judged(history)
    assert answer.figures == Figures(extensions=2, unheld=2)
    golden(next(answer.figures.rows()).text)
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "extension-without-majority", "lock", "lease", 2,
    )  # fmt: skip
    golden(finding.text)
    assert finding.examples[0] == {"client": "c1", "section": 1, "key": "k1", "at_ms": 65, "held_by": ("n1",)}


@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_only_a_yes_is_judged(outcome: str) -> None:
    assert unheld(extended(outcome).seen("n2", "deleted", 30).seen("n3", "deleted", 30)) == (0, 0)


@pytest.mark.parametrize(("at", "found"), [(59.9, 1), (60, 0)])
def test_a_node_counts_if_it_may_have_had_the_value_when_it_was_asked(at: float, found: int) -> None:
    assert unheld(extended().seen("n2", "deleted", at).seen("n3", "deleted", 30)) == (1, found)


@pytest.mark.parametrize(("at", "found"), [(65, 0), (65.1, 1)])
def test_a_node_that_the_extension_itself_gave_the_value_counts(at: float, found: int) -> None:
    history = extended().seen("n2", "deleted", 30).seen("n3", "deleted", 30)
    assert unheld(history.seen("n2", "set", at, "v1", ttl=500)) == (1, found)


def test_a_node_out_of_sight_counts_as_if_it_had_the_value() -> None:
    history = extended().seen("n3", "deleted", 30).seen("n2", "blind", 30)
    assert unheld(history.seen("n2", "watching", 62, "n2-second")) == (1, 0)


def test_that_nodes_forgot_is_no_excuse_once_they_were_asked_again() -> None:
    history = extended().fault("f1", 20, 40, nodes=("n2", "n3"), how_down="kill")
    for node in ("n2", "n3"):
        history.seen(node, "blind", 20).seen(node, "watching", 40, f"{node}-second")
    assert unheld(history) == (1, 1)


@pytest.mark.parametrize(("left", "found"), [(2, 0), (1, 1)])
def test_a_node_that_never_showed_the_key_may_have_it_while_it_is_out_of_sight(left: int, found: int) -> None:
    history = extended(nodes=4)
    for node in NODES[left:]:
        history.seen(node, "deleted", 30)
    assert unheld(history) == (1, found)


def test_a_lock_whose_keys_nobody_saw_is_not_judged() -> None:
    history = History(ttl_ms=500).watch(*NODES).section("c1", 10, 400, deadline=505).sets("c1", "v1")
    history.section("c2", 500, 600, deadline=900, key="k2").sets("c2", "v2")
    history.seen("n1", "set", 499, "v2", ttl=500, key="k2")
    assert judged(history.op("c1", "extend", "ok", 1, 60, 65)).findings == ()


def test_a_section_that_set_no_key_has_none_to_extend() -> None:
    history = extended().section("c2", 500, 600, deadline=900)
    assert unheld(history.op("c2", "extend", "ok", 1, 560, 565)) == (2, 1)


def nested(asked: float, outcome: str = "ok", **more: Any) -> History:
    """c1's lease ends at 100. It acquires once more, and is inside until 400; its keys are gone since 101."""
    history = History(ttl_ms=100, **more).watch(*NODES).section("c1", 10, 400, deadline=100).sets("c1", "v1")
    for node in NODES:
        history.seen(node, "set", 8, "v1", ttl=93).seen(node, "expired", 101)
    return history.op("c1", "reenter", outcome, 1, asked, asked + 5)


def unheld_nested(history: History) -> tuple[int, int]:
    figures: Any = judged(history).figures
    assert figures.unheld == 0
    return figures.nested, figures.unheld_nested


def test_who_acquires_once_more_when_the_lease_is_over_must_ask_the_nodes(golden: Golden) -> None:
    answer = judged(nested(120))
    assert answer.figures == Figures(extensions=0, unheld=0, nested=1, unheld_nested=1)
    golden("\n".join([row.text for row in answer.figures.rows()]))
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "nested-acquire-without-majority", "lock", "lease", 1,
    )  # fmt: skip
    golden(finding.text)
    told = {"client": "c1", "section": 1, "key": "k1", "at_ms": 125, "held_by": (), "is_unasked": True}
    assert finding.examples[0] == told
    asked = nested(120).request("c1", "n1", "GET k1", 121, 122, reply="null", did=False)
    assert "is_unasked" not in judged(asked).findings[0].examples[0]


@pytest.mark.parametrize(("asked", "found"), [(100, (0, 0)), (100.1, (1, 0)), (101.1, (1, 1))])
def test_while_the_lease_lasts_a_nested_acquire_may_be_granted_from_memory(
    asked: float, found: tuple[int, int]
) -> None:
    assert unheld_nested(nested(asked)) == found


def test_a_nested_acquire_that_tells_no_time_may_have_granted_any() -> None:
    history = nested(130).op("c1", "reenter", "ok", 1, 110, 115)
    for node in NODES:
        history.seen(node, "set", 112, "v1", ttl=10).seen(node, "expired", 122)
    assert unheld_nested(history) == (1, 0)


@pytest.mark.parametrize("f", ["extend", "reenter"])
@pytest.mark.parametrize(("asked", "found"), [(110, (0, 0)), (130, (1, 1))])
def test_a_lease_that_was_asked_for_and_never_told_may_last(f: str, asked: float, found: tuple[int, int]) -> None:
    assert unheld_nested(nested(120).op("c1", f, "info", 1, asked, asked + 5)) == found


def test_nothing_is_said_of_nested_acquires_of_a_lock_that_renews_by_itself() -> None:
    assert judged(nested(120, renewal_ms=30)) == Answer()


def test_a_nested_acquire_that_is_refused_or_granted_anew_is_as_it_should_be() -> None:
    assert unheld_nested(nested(120, "fail")) == (0, 0)
    anew = nested(120)
    for node in NODES[:2]:
        anew.seen(node, "set", 122, "v1", ttl=100)
    assert unheld_nested(anew) == (1, 0)


@pytest.mark.parametrize(
    ("f", "until", "found"), [("extend", 120, (0, 0)), ("extend", 119.9, (1, 1)), ("reenter", 120, (0, 0))]
)
def test_a_lease_that_was_extended_or_acquired_once_more_is_over_when_that_is(
    f: str, until: float, found: tuple[int, int]
) -> None:
    assert unheld_nested(nested(120).op("c1", f, "ok", 1, 60, 65, deadline_ns=ms(until))) == found


@pytest.mark.parametrize(("told", "found"), [(120, (0, 0)), (120.1, (1, 1))])
def test_a_lease_that_is_told_as_the_client_asks_once_more_lasts(told: float, found: tuple[int, int]) -> None:
    assert unheld_nested(nested(120).op("c1", "extend", "ok", 1, 60, told, deadline_ns=ms(300))) == found


def test_a_lease_that_was_told_later_or_for_another_section_is_no_reason() -> None:
    later = nested(120).op("c1", "extend", "ok", 1, 130, 140, deadline_ns=ms(300))
    assert judged(later).figures == Figures(extensions=1, unheld=1, nested=1, unheld_nested=1)
    other = nested(120).op("c1", "acquire", "ok", 2, 401, 402, deadline_ns=ms(501))
    assert unheld_nested(other) == (1, 1), "that is the lease of another section"

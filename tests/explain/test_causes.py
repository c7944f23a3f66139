"""The cause that an explanation names, as data."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import tell
from harness.explain.causes import IN_WORDS
from harness.explain.evidence import Evidence
from harness.explain.examples import Case
from harness.explain.nodes import Loss, NodeEvent, NodePart, NodeReply
from harness.explain.overlap import cause_of
from harness.verdict import Finding
from tests.explain.stories import Story
from tests.golden import Golden
from tests.judge.histories import History, ms

GRANTED = NodeEvent("n1", "k1", "granted", 0, 1)


EXAMPLE = {
    "at_ms": 10.0, "for_ms": 5.0, "over_for_ms": 1.0, "key": "k1", "node": "n1", "nodes": ["n1"], "client": "c1",
    "clients": ["c1"], "of": "c2", "by": "c1", "shown_by": "keys", "cause": "never set", "how": "deleted", "answers": 0,
    "set_again": False,
}  # fmt: skip


def part(how: Any) -> NodePart:
    return NodePart("n1", NodeReply(), NodeReply(), loss=None if how is None else Loss(how, GRANTED, 2))


@pytest.mark.parametrize(
    ("kind", "example", "cause"),
    [
        ("unavailable-while-free", {"obstacle": "hung"}, "absent node"),
        ("unavailable-while-free", {"obstacle": "stuck keys"}, "stuck keys"),
        ("unavailable-while-free", {"obstacle": "nothing set"}, "nothing set"),
        ("unavailable-while-free", {"obstacle": "rejected", "nodes": ["n1"], "error": "NOSCRIPT"}, "rejected"),
        ("unavailable-while-free", {"obstacle": "split votes", "nodes": []}, "split votes"),
        ("unavailable-while-free", {"obstacle": "split votes", "nodes": ["n1"]}, "stuck keys"),
        ("unavailable-while-free", {"obstacle": "unknown"}, "unknown"),
        ("release-without-effect", {"set_again": True}, "set again"),
        ("release-without-effect", {"set_again": False}, "stayed"),
        ("release-without-effect", {"another_key": "the release named k2"}, "another key"),
        ("waits-for-free-lock", {"answers": 0}, "not woken"),
        ("waits-for-free-lock", {"answers": 3}, "not let in"),
        ("late-grant", {"shown_by": "deadline"}, "deadline"),
        ("late-grant", {"shown_by": "keys"}, "expired"),
        ("lease-without-majority", {"cause": "never set"}, "not set"),
        ("lease-without-majority", {"cause": "gone unread"}, "unknown"),
        ("changed-another-clients-key", {"how": "overwritten"}, "overwritten"),
        ("changed-another-clients-key", {"how": "prolonged"}, "prolonged"),
        ("changed-another-clients-key", {"how": "deleted"}, "deleted"),
        ("changed-another-clients-key", {"how": "removed"}, "deleted"),
        ("no-validity", {}, None),
    ],
)
def test_what_the_example_of_a_finding_shows(kind: str, example: dict[str, Any], cause: str | None) -> None:
    case = Case(Finding(kind, "lock", "text"), EXAMPLE | example, {})
    assert tell(History().recorded(), Evidence(), case).cause == cause
    assert cause is None or cause in IN_WORDS


@pytest.mark.parametrize(
    ("losses", "cause"),
    [
        (["deleted", "expired", "expired"], "expired"),
        (["unknown", "unknown", "deleted"], "deleted"),
        (["went down", None, None], "forgotten"),
        ([None], "unknown"),
        ([], "unknown"),
    ],
)
def test_an_overlap_has_the_cause_that_most_nodes_show(losses: list[str | None], cause: str) -> None:
    assert cause_of([part(how) for how in losses]) == cause


def two() -> Story:
    """c1 and c2 are inside together, by n1 and n2, and by n2 and n3."""
    return Story().let_in("c1", 10, 50, "OK OK nil").let_in("c2", 30, 60, "nil OK OK")


def test_a_key_whose_value_others_used_too_may_have_been_deleted_by_any_of_them(golden: Golden) -> None:
    story = Story().let_in("c1", 10, 50, "OK OK nil", value="same").let_in("c2", 30, 60, "nil OK OK", value="same")
    assert story.told("overlap").cause == "unknown"
    story.watched().sets("c1", "same").sets("c2", "same")
    for node, event, at in (("n1", "set", 9.5), ("n2", "set", 9.5), ("n2", "deleted", 20), ("n2", "set", 29.5)):
        story.seen(node, event, at, "same" if event == "set" else None, since=at - 1)
    story.seen("n3", "set", 29.5, "same", since=28.5)
    told = story.told("overlap")
    assert told.cause == "shared value"
    golden(told.sentence)


def undone(value: str) -> Story:
    """c3 asks with this value while c1 is inside, is refused, and deletes what has the value of c1's key."""
    story = Story(clients=3).watched().let_in("c1", 10, 50, "OK OK OK", value="c1-1").saw(9.5, "set", "n1 n2 n3", "c1")
    story.op("c3", "acquire", "fail", 1, 14, 18).asked("c3", "acquire", 15, "nil nil nil", value=value)
    story.asked("c3", "undo", 17, "1 1 1", value="c1-1").saw(17.5, "deleted", "n1 n2 n3")
    return story.let_in("c2", 30, 60, "OK OK OK").saw(29.5, "set", "n1 n2 n3", "c2")


def test_a_key_that_a_client_with_the_same_value_deleted(golden: Golden) -> None:
    told = undone("c1-1").told("overlap")
    assert told.cause == "shared value"
    golden(told.sentence)


def test_a_client_that_had_read_the_value_did_not_draw_it() -> None:
    assert undone("c3-1").told("overlap").cause == "deleted"
    story = undone("c1-1").request("c3", "n1", "GET k1", 14.2, 14.4, reply='"c1-1"', did=False)
    story.request("c3", "n2", "GET k1", 14.2, 14.4, reply='"c1-1"', did=False)
    story.request("c3", "n3", "GET k1", 14.2, 14.4, reply='"c1-1"', did=False)
    assert story.told("overlap").cause == "deleted"


def test_another_clients_key_with_the_same_value(golden: Golden) -> None:
    told = undone("c1-1").told("changed-another-clients-key")
    assert told.cause == "shared value"
    golden(told.sentence)
    assert undone("c3-1").told("changed-another-clients-key").cause == "deleted"


@pytest.mark.parametrize(("key", "freed", "cause"), [("k2", "free", "deleted"), ("k2", "undo", "shared value")])
def test_a_client_that_drew_the_value_for_another_key_compared_nothing(key: str, freed: str, cause: str) -> None:
    """Unless the request that deletes the key names the value."""
    story = Story(clients=3).watched().let_in("c1", 10, 50, "OK OK OK", value="c1-1").saw(9.5, "set", "n1 n2 n3", "c1")
    story.op("c3", "acquire", "fail", 1, 14, 18).asked("c3", "acquire", 15, "nil nil nil", value="c1-1", name=key)
    story.asked("c3", freed, 17, "1 1 1", value="c1-1").saw(17.5, "deleted", "n1 n2 n3")
    story.let_in("c2", 30, 60, "OK OK OK").saw(29.5, "set", "n1 n2 n3", "c2")
    assert {story.told(kind).cause for kind in ("overlap", "changed-another-clients-key")} == {cause}


def extended(value: str, by: str = "c1") -> Story:
    """The key of c1 expired, and c2 set this value; then an extension prolongs the key."""
    story = Story(clients=3).watched().let_in("c1", 10, 160, "OK OK OK", value="same", deadline=300)
    story.sets("c1", "same").op("c1", "extend", "ok", 1, 108, 126, deadline_ns=ms(320), validity_ms=200)
    story.let_in("c2", 120, 180, "OK OK OK", value=value).sets("c2", value)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "set", 9.5, "same", since=8.5, ttl=100).seen(node, "expired", 110, since=109)
        story.seen(node, "set", 119.5, value, since=118.5, ttl=100)
        story.request(by, node, "EVAL extend 1 k1 same 100", 123, 124, reply="1").seen(node, "prolonged", 124, value)
    return story


def test_an_extension_of_another_clients_key_with_the_same_value(golden: Golden) -> None:
    told = extended("same").told("overlap")
    assert told.cause == "shared value"
    golden(told.sentence)
    assert extended("other").told("overlap").cause == "expired"
    assert extended("same", by="c2").told("overlap").cause == "expired"


def test_an_explanation_says_what_its_sentence_names() -> None:
    few = Story().let_in("c1", 10, 50, "OK nil nil").let_in("c2", 30, 60, "nil OK OK")
    assert few.told("overlap").cause == "too few nodes"
    assert two().told("overlap").cause == "unknown"


def test_without_the_replies_of_nodes_no_cause_is_named() -> None:
    history = Story().section("c1", 10, 50, deadline=900).section("c2", 30, 60, deadline=900)
    assert isinstance(history, Story)
    assert history.told("overlap").cause == "unknown"


def both_seen() -> Story:
    return two().watched().saw(9.5, "set", "n1 n2", "c1")


def test_a_key_that_no_request_on_record_deleted(golden: Golden) -> None:
    told = both_seen().saw(20, "deleted", "n2").saw(29.5, "set", "n2 n3", "c2").told("overlap")
    assert told.cause == "deleted"
    golden(told.sentence)


def test_a_key_that_was_deleted_before_it_could_be_read() -> None:
    """The node's own order shows that the deletion came after the grant."""
    story = two().watched().saw(9.5, "set", "n1", "c1").saw(10, "set", "n2").saw(10, "deleted", "n2")
    assert story.saw(29.5, "set", "n2 n3", "c2").told("overlap").cause == "deleted"

"""What is told of clients, or tasks of one, that were let in by one key, since both ask for it with the same value."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import spans_of, tell
from harness.explain.evidence import gather
from harness.explain.examples import case_of
from harness.explain.kinds import Told
from harness.explain.same_value import same_value
from tests.explain.stories import Story
from tests.golden import Golden


def both(
    *,
    first: str = "c1@1",
    second: str = "c1@2",
    value: str = "of-c1",
    reply: str = "1",
    expires: bool = False,
    nodes: int = 1,
    alike: int = 1,
) -> Told:
    """The first one sets the key, the second one asks with this value and gets that reply. On the nodes behind the
    first ones (`alike`) the second one does not ask."""
    names = [f"n{number}" for number in range(1, nodes + 1)]
    story = Story(clients=2, nodes=nodes, tasks=2).watched(*names)
    for number, node in enumerate(names):
        story.request(first, node, "EVAL acquire 1 k1 of-c1", 9, 9.2, reply="1")
        story.seen(node, "set", 9.4, "of-c1", since=8.9, ttl=100)
        if expires:
            story.seen(node, "expired", 45.2, since=45)
        if number < alike:
            story.request(second, node, f"EVAL acquire 1 k1 {value}", 49, 49.2, reply=reply, did=False)
    story.section("c1@1", 10, 90, asked=8, deadline=105)
    run, verdict = story.section(second if "@" in second else "c1@2", 50, 95, asked=48.5, deadline=140).judged()
    (finding,) = (one for one in verdict.findings if (one.kind, one.blame) == ("overlap", "lock"))
    case = case_of(run, finding, finding.examples[0])
    return tell(run, gather(run, spans_of(run, [case])), case)


@pytest.mark.parametrize("second", ["c1@2", "c2@1"])
def test_two_tasks_or_clients_that_ask_with_the_same_value_have_the_same_key(golden: Golden, second: str) -> None:
    told = both(second=second)
    assert told.cause == "shared value"
    golden(told.sentence)


@pytest.mark.parametrize(
    "how",
    [
        {"value": "of-another"},
        {"reply": "0"},
        {"expires": True},
        {"first": "c1"},
        {"second": "c1"},
        {"nodes": 3, "alike": 1},
    ],
    ids=[
        "another value",
        "the node refused",
        "the key was gone",
        "who asked first is not known",
        "who asked then is not known",
        "on too few nodes",
    ],
)
def test_it_was_not_the_value(how: dict[str, Any]) -> None:
    assert both(**how).cause != "shared value"


def test_a_key_that_is_set_anew_with_the_same_value_is_another_key() -> None:
    """c1's was deleted before."""
    story = Story(nodes=1).watched("n1")
    for client, at in (("c1", 9), ("c2", 49)):
        story.request(client, "n1", "SET k1 lock NX PX 100", at, at + 0.2).seen(
            "n1", "set", at + 0.4, "lock", since=at - 5, ttl=100
        )
        story.section(client, at + 1, 90, asked=at - 1, deadline=at + 90)
        if client == "c1":
            story.request("c3", "n1", "DEL k1", 30, 30.2, reply="1").seen("n1", "deleted", 30.4, since=30)
    run, verdict = story.judged()
    (finding,) = (one for one in verdict.findings if one.kind == "overlap")
    assert same_value(run, *case_of(run, finding, finding.examples[0]).sides) is None


def test_of_several_nodes_a_majority_must_have_let_both_in_so(golden: Golden) -> None:
    told = both(nodes=3, alike=2)
    assert told.cause == "shared value"
    golden(told.sentence)

"""What is told of a release that deletes the key of another task of its process: both have the same value."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import spans_of, tell
from harness.explain.evidence import gather
from harness.explain.examples import case_of
from harness.explain.kinds import Told
from tests.explain.stories import Story
from tests.golden import Golden


def released(
    *,
    by: str = "c1@1",
    value: str = "of-c1",
    named: str = "of-c1",
    setter: str = "c1",
    key: str = "k1",
    at: float = 70.2,
    nodes: int = 1,
    deleted: int = 1,
    extended: bool = False,
) -> Told:
    """c1@1 outlives its lease, its key expires, and c1@2 gets in. Then c1@1 releases, while c1@3 waits. On the first
    nodes the release deletes the key (`deleted`: on how many), on the others something else does. `extended`: c1@1 had
    named the same value before, in an extension."""
    names = [f"n{number}" for number in range(1, nodes + 1)]
    story = Story(clients=2, nodes=nodes, tasks=3).watched(*names)
    for number, node in enumerate(names):
        story.request("c1", node, "SET k1 of-c1 NX", 9, 9.2).seen(node, "set", 9.4, "of-c1", since=8.9, ttl=36)
        story.seen(node, "expired", 45.2, since=45)
        story.request(setter, node, f"SET k1 {value} NX", 49, 49.2)
        story.seen(node, "set", 49.4, value, since=48.9, ttl=100)
        if extended:
            story.request(by, node, f"EVAL extend 1 k1 {named} 100", 60, 60.2, reply="0", did=False)
        if number < deleted:
            story.request(by, node, f"EVAL release 1 k1 {named}", at, at + 0.2, reply="1")
            story.seen(node, "deleted", at + 0.3, value, since=at - 0.1)
        else:
            story.seen(node, "expired", 72, value, since=71)
        story.request("c2", node, "SET k1 of-c2 NX", 75, 75.2).seen(node, "set", 75.4, "of-c2", since=74.9, ttl=100)
    story.op("c1@3", "acquire", "fail", 1, 8, 120).op("c2@2", "acquire", "fail", 1, 8, 120)
    story.section("c1@1", 10, 70, asked=8, deadline=45, key=key).section("c1@2", 50, 90, asked=48.5, deadline=140)
    run, verdict = story.section("c2@1", 76, 95, asked=74, deadline=174).judged()
    (finding,) = (one for one in verdict.findings if (one.kind, one.blame) == ("overlap", "lock"))
    case = case_of(run, finding, finding.examples[0])
    return tell(run, gather(run, spans_of(run, [case])), case)


def test_a_late_release_deletes_the_key_of_another_task(golden: Golden) -> None:
    told = released()
    assert told.cause == "another task's release"
    golden(told.sentence)


def test_a_release_names_the_value_of_another_task(golden: Golden) -> None:
    told = released(value="of-c1@2", named="of-c1@2", setter="c1@2")
    assert told.cause == "another task's release"
    golden(told.sentence)
    assert released(value="of-c1@2", named="of-c1@2", setter="c1@2", extended=True).sentence == told.sentence
    assert released(value="of-c1@2", setter="c1@2").cause != "another task's release"
    of_another_key = released(value="of-c1@2", named="of-c1@2", setter="c1@2", key="k2")
    assert of_another_key.cause != "another task's release"


@pytest.mark.parametrize(
    "how",
    [{"by": "c2"}, {"by": "c1"}, {"by": "c1@2"}, {"at": 49.6}],
    ids=["another process", "it may be its own", "it is its own", "before it began"],
)
def test_it_is_not_known_to_be_another_tasks(how: dict[str, Any]) -> None:
    assert released(**how).cause != "another task's release"


@pytest.mark.parametrize(("deleted", "is_so"), [(2, True), (1, False)])
def test_of_several_nodes_a_majority_must_have_lost_it_so(deleted: int, is_so: bool) -> None:
    assert (released(nodes=3, deleted=deleted).cause == "another task's release") is is_so

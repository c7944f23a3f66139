"""What is told of a lock that is a subscription, when the connection of the first client's ended."""

from __future__ import annotations

from typing import Any

import pytest

from harness.explain.kinds import Told
from tests.explain.stories import Story
from tests.golden import Golden


def subscribed(
    *, channel: str = "lock:k1", closed: float | None = 20, anew: float | None = 35, sets: bool = False, also: float = 0
) -> Told:
    """c1 holds the lock by a subscription, whose connection the proxy closes; c2 gets in; c1 subscribes again."""
    story = Story(nodes=1).watched("n1")
    story.request("c1", "n1", f"SUBSCRIBE {channel}", 8, 8.2, reply="1", connection=901, did=False)
    story.closed[901] = (None, None, closed)
    if also:
        story.request("c1", "n1", f"SUBSCRIBE {channel}", 9, 9.2, reply="1", connection=904, did=False)
        story.closed[904] = (None, None, also)
    if sets:
        story.request("c1", "n1", "SET k1 c1-1 NX", 9, 9.2).seen("n1", "set", 9.3, "c1-1", since=8.9)
    story.request("c2", "n1", "SUBSCRIBE lock:k1", 28, 28.2, reply="1", connection=902, did=False)
    if anew:
        story.request("c1", "n1", f"SUBSCRIBE {channel}", anew, anew + 0.2, reply="1", connection=903, did=False)
    for client, asked, start, end in (("c1", 7, 10, 60), ("c2", 27, 30, 50)):
        story.op(client, "acquire", "ok", 1, asked, start).op(client, "release", "ok", 1, end, end + 1)
    # Another client waits for a key of a longer name.
    story.op("c2", "acquire", "fail", 2, 70, 71, key="k12")
    return story.told("overlap")


def test_the_end_of_the_subscription_is_told_and_that_it_was_made_anew(golden: Golden) -> None:
    told = subscribed()
    assert told.cause == "ended session"
    golden(told.sentence)


def test_a_subscription_that_was_not_made_anew_ended_all_the_same() -> None:
    told = subscribed(anew=None)
    assert told.cause == "ended session"
    assert "anew" not in told.sentence


@pytest.mark.parametrize(
    "how",
    [{"closed": None}, {"closed": 40}, {"channel": "lock:k12"}, {"sets": True}, {"also": 90}],
    ids=["open", "it ended later", "of another key", "a key holds the lock", "one of two is open"],
)
def test_the_session_may_not_have_ended(how: dict[str, Any]) -> None:
    assert subscribed(**how).cause == "unknown"

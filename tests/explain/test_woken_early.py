"""What is told of a client that was let in by an element of a list, pushed while another client was inside."""

from __future__ import annotations

from typing import Any

import pytest

from harness.explain.kinds import Told
from tests.explain.stories import Story
from tests.golden import Golden


def woken(
    *, by: str = "c3", pushed: float = 25, pops: str = "BLPOP wake:c2 1", reply: str = '["wake:c2","1"]', then: str = ""
) -> Told:
    """c1 is inside from 10 to 60; c2 waits for an element, gets it at 29, and is inside from 30 on."""
    story = Story(clients=3, nodes=1, ttl_ms=200).watched("n1")
    story.request("c1", "n1", "SET k1 c1 NX PX 200", 9, 9.4).seen("n1", "set", 9.3, "c1", since=9.1, ttl=200)
    story.op("c3", "acquire", "fail", 1, 20, 40)
    story.request(by, "n1", "LPUSH wake:c2 1", pushed, pushed + 0.4, reply="1")
    story.seen("n1", "set", pushed + 0.3, since=pushed + 0.1, key="wake:c2").called("LPUSH wake:c2 1")
    story.request("c2", "n1", pops, 26 if by == "c2" else 15, 29, reply=reply)
    story.seen("n1", "deleted", 28.9, since=28.5, key="wake:c2").called("BLPOP wake:c2 1")
    if then:
        story.request("c2", "n1", then, 29.1, 29.3, did=False)
    story.section("c1", 10, 60, asked=8, deadline=190).section("c2", 30, 50, asked=11, deadline=200)
    return story.told("overlap")


@pytest.mark.parametrize("by", ["c3", "c2"])
def test_a_client_that_an_element_lets_in_while_another_one_is_inside(by: str, golden: Golden) -> None:
    told = woken(by=by)
    assert told.cause == "woken early"
    golden(told.sentence)


@pytest.mark.parametrize(
    "how",
    [{"pushed": 9.6}, {"reply": "null"}, {"pops": "LLEN wake:c2", "reply": "1"}, {"then": "SET k1 c2 PX 200"}],
    ids=str,
)
def test_no_element_let_it_in(how: Any) -> None:
    """It was pushed before the other one came in; there was none; nothing was popped; it asked for the key later."""
    assert woken(**how).cause != "woken early"

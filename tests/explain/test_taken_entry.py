"""What is told when another call takes out the entry of a client that is inside, so that the next one gets in."""

from __future__ import annotations

from typing import Any

import pytest

from harness.explain.kinds import Told
from tests.explain.stories import Story
from tests.golden import Golden
from tests.judge.histories import ms


class _Kept(Story):
    """One node, which is watched. What a request does to a key is told beside its words."""

    def does(self, client: str, words: str, at: float, event: Any, did: str, reply: str = "1") -> _Kept:
        self.request(client, "n1", words, at, at + 0.4, reply=reply)
        key = words.split()[3] if words.startswith("EVAL") else words.split()[1]
        self.seen("n1", event, at + 0.3, since=at + 0.1, key=key)
        self.key_events[-1].command = did
        return self


def queue(
    *,
    pop: str = "LPOP",
    popped: float = 25,
    by: str = "c3",
    leaves: str = "EVAL pop 1 queue entry-of-c2",
    enters: str = "queue",
) -> Told:
    """c1 is inside at the head of a queue, c2 and c3 wait behind it; c3 gives up and takes out the head."""
    story = _Kept(clients=4, nodes=1, ttl_ms=200)
    story.watched("n1")
    story.does("c1", "EVAL turn 1 queue entry-of-c1", 9, "set", "RPUSH")
    story.does("c2", f"EVAL turn 1 {enters} entry-of-c2", 12, "changed" if enters == "queue" else "set", "RPUSH", "0")
    story.does("c3", "EVAL turn 1 queue entry-of-c3", 16, "changed", "RPUSH", "0")
    story.does(by, f"EVAL pop 1 queue entry-of-{by}", popped, "changed", pop, "0")
    story.request("c2", "n1", f"EVAL turn 1 {enters} entry-of-c2", 29, 29.4, reply="1", did=False)
    story.does("c2", leaves, 50.2, "changed", "LPOP")
    story.op("c3", "acquire", "fail", 1, 15, 27)
    story.section("c1", 10, 60, asked=8, deadline=190).section("c2", 30, 50, asked=11, deadline=200)
    return story.told("overlap")


def test_a_waiter_that_gives_up_takes_out_the_head_of_the_queue(golden: Golden) -> None:
    told = queue()
    assert told.cause == "entry taken"
    golden(told.sentence)


@pytest.mark.parametrize(
    "how",
    [
        {"pop": "LTRIM"},
        {"popped": 9.2},
        {"by": "c1"},
        {"leaves": "EVAL pop 1 other entry-of-c2"},
        {"enters": "another"},
    ],
    ids=str,
)
def test_no_entry_of_a_client_that_was_inside_is_known_to_be_taken_out(how: Any) -> None:
    """What a command took out is not known; it was taken out before its call was
    granted, or by the client itself; releases take nothing out of it; the one that entered never used it."""
    assert queue(**how).cause == "unknown"


def slots(
    *,
    sent: str = "ZREM slots slot-of-c1",
    by: str = "c1@2",
    did: str = "ZREM",
    left: bool = False,
    renewed: bool = False,
    until: float = 190,
    known: bool = True,
) -> Told:
    """c1@1 and c2 have both permits; the refused acquire of another task takes out the slot of c1@1. `left`: so is the
    slot of an acquire that was refused before. `renewed`: c2 adds its slot once more. `until`: when the lease of c1@1
    ends. `known`: no request took out an entry that is not known before."""
    story = _Kept(workload="semaphore", permits=2, clients=4, nodes=1, ttl_ms=200)
    story.watched("n1")
    if left:
        story.op("c3", "acquire", "fail", 0, 3, 6).does(
            "c3", "EVAL take 1 slots slot-left value", 4, "set", "ZADD", "0"
        )
    story.does("c1", "EVAL take 1 slots slot-of-c1 value-of-c1-1", 9, "changed" if left else "set", "ZADD")
    story.does("c2", "EVAL take 1 slots slot-of-c2 value-of-c2-1", 12, "changed", "ZADD")
    if renewed:
        story.does("c2", "EVAL renew 1 slots slot-of-c2 value-of-c2-1", 16, "changed", "ZADD")
    if not known:
        story.does("c4", "EVAL free 1 slots some", 20, "changed", "ZREM")
    story.does(by.partition("@")[0], sent, 25, "changed", did)
    story.does("c3", "EVAL take 1 slots slot-of-c3 value-of-c3-1", 29, "changed", "ZADD")
    story.does("c3", "EVAL leave 1 slots slot-of-c3 value-of-c3-1", 50.2, "changed", "ZREM")
    story.op(by, "acquire", "fail", 1, 20, 27)
    if renewed:
        story.op("c2", "extend", "ok", 1, 15, 17, deadline_ns=ms(200))
    story.section("c1@1", 10, 70, asked=8, deadline=until).section("c2", 13, 60, asked=11, deadline=190)
    return story.section("c3", 30, 50, asked=28, deadline=200).told("over-capacity")


@pytest.mark.parametrize("by", ["c1@2", "c4"])
def test_a_refused_acquire_takes_out_the_slot_of_a_holder(by: str) -> None:
    told = slots(by=by)
    assert told.cause == "entry taken"
    assert f"{by}, which gave up" in told.sentence


def test_a_slot_that_is_not_named_is_not_told_of() -> None:
    assert slots(sent="ZREM slots slot-of-c9").cause is None
    assert slots(sent="EVAL free 1 slots slot-of-c9").cause is None


def test_a_script_may_mean_the_slot_of_a_call_that_is_over() -> None:
    assert slots(sent="EVAL free 1 slots slot-of-c1", by="c4").cause == "entry taken"
    assert slots(sent="EVAL free 1 slots slot-of-c1", by="c4", left=True).cause is None


@pytest.mark.parametrize("did", ["ZREMRANGEBYSCORE", "ZREMRANGEBYRANK", "ZPOPMIN"])
def test_a_command_that_names_a_range_takes_out_one_of_those_that_were_inside(did: str, golden: Golden) -> None:
    told = slots(sent=f"{did} slots 0 9", by="c4", did=did)
    assert told.cause == "entry taken"
    golden(told.sentence)


def test_an_entry_that_its_client_added_again_is_one(golden: Golden) -> None:
    told = slots(sent="ZREMRANGEBYSCORE slots 0 9", by="c4", did="ZREMRANGEBYSCORE", renewed=True)
    golden(told.sentence)


@pytest.mark.parametrize(
    "how",
    [{"left": True}, {"until": 20}, {"known": False}],
    ids=["of a refused acquire", "of a lease that ended", "what is not known"],
)
def test_a_range_may_hold_nothing_but_what_was_over(how: Any) -> None:
    assert slots(sent="ZREMRANGEBYSCORE slots 0 9", by="c4", did="ZREMRANGEBYSCORE", **how).cause is None

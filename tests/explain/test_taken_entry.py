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
        self.seen("n1", event, at + 0.3, since=at + 0.1, key=key).called(did)
        return self


def queue(
    *,
    pop: str = "LPOP queue",
    popped: float = 25,
    by: str = "c3",
    leaves: str = "EVAL pop 1 queue entry-of-c2",
    enters: str = "queue",
) -> Told:
    """c1 is inside at the head of a queue, c2 and c3 wait behind it; c3 gives up and takes out the head."""
    story = _Kept(clients=4, nodes=1, ttl_ms=200)
    story.watched("n1")
    story.does("c1", "EVAL turn 1 queue entry-of-c1", 9, "set", "RPUSH queue entry-of-c1")
    pushed = f"RPUSH {enters} entry-of-c2"
    story.does("c2", f"EVAL turn 1 {enters} entry-of-c2", 12, "changed" if enters == "queue" else "set", pushed, "0")
    story.does("c3", "EVAL turn 1 queue entry-of-c3", 16, "changed", "RPUSH queue entry-of-c3", "0")
    story.does(by, f"EVAL pop 1 queue entry-of-{by}", popped, "changed", pop, "0")
    story.request("c2", "n1", f"EVAL turn 1 {enters} entry-of-c2", 29, 29.4, reply="1", did=False)
    story.does("c2", leaves, 50.2, "changed", f"LPOP {leaves.split()[3]}")
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
        {"pop": "LPOP"},
        {"popped": 9.2},
        {"by": "c1"},
        {"leaves": "EVAL pop 1 other entry-of-c2"},
        {"enters": "another"},
    ],
    ids=str,
)
def test_no_entry_of_a_client_that_was_inside_is_known_to_be_taken_out(how: Any) -> None:
    """The arguments of what took it out are not on record; it was taken out before its call was
    granted, or by the client itself; releases take nothing out of it; the one that entered never used it."""
    assert queue(**how).cause == ("different keys" if "enters" in how else "unknown")


def seen_first(
    *,
    seen: str = "entry-of-c1",
    pop: str = "LPOP queue",
    popped: float = 25,
    again: bool = False,
    left: str = "c2-runs",
    handed: int = 0,
) -> Told:
    """c1 is told that it is the head of a queue; c3, which had seen it there for too long, pops the head; c1 puts its
    name in place of the head, and so does c2, which had looked before that. `left`: which entry c2's release takes
    out. `again`: c1 puts in another entry. `handed`: releases of c4 take out so many other entries."""
    story = _Kept(clients=4, nodes=1, ttl_ms=200)
    story.watched("n1")
    story.does("c1", "RPUSH queue entry-of-c1", 2, "set", "RPUSH queue entry-of-c1")
    for client, at in (("c2", 4), ("c3", 6)):
        story.does(client, f"RPUSH queue entry-of-{client}", at, "changed", f"RPUSH queue entry-of-{client}", "2")
    story.request("c3", "n1", "LINDEX queue 0", 10, 10.4, reply='"entry-of-c1"', did=False)
    story.request("c1", "n1", "LINDEX queue 0", 20, 20.4, reply=f'"{seen}"', did=False)
    story.does("c3", "LPOP queue", popped, "changed", pop, '"entry-of-c1"')
    story.request("c2", "n1", "LINDEX queue 0", 27, 27.4, reply='"entry-of-c2"', did=False)
    if again:
        story.does("c1", "RPUSH queue more-of-c1", 28, "changed", "RPUSH queue more-of-c1", "3")
    story.does("c1", "LSET queue 0 c1-runs", 30, "changed", "LSET queue 0 c1-runs", '"OK"')
    story.does("c2", "LSET queue 0 c2-runs", 32, "changed", "LSET queue 0 c2-runs", '"OK"')
    story.does("c2", f"LREM queue 0 {left}", 50.2, "changed", f"LREM queue 0 {left}")
    for number in range(handed):
        story.does("c3", f"RPUSH queue more-{number}", 52 + number, "changed", f"RPUSH queue more-{number}", "3")
        story.op("c4", "release", "ok", 1 + number, 54.6 + number, 55.6 + number)
        story.does("c4", f"LREM queue 0 more-{number}", 55 + number, "changed", f"LREM queue 0 more-{number}")
    story.op("c3", "acquire", "fail", 1, 5, 90)
    return (
        story.section("c1", 31, 60, asked=1, deadline=190).section("c2", 33, 50, asked=3, deadline=190).told("overlap")
    )


def test_a_waiter_pops_the_head_that_has_just_been_told_that_it_is_its_turn(golden: Golden) -> None:
    told = seen_first()
    assert told.cause == "entry taken"
    assert "c3" in told.sentence
    golden(told.sentence)


@pytest.mark.parametrize(
    "how",
    [
        {"seen": "entry-of-c9"},
        {"pop": "RPOP queue"},
        {"popped": 19},
        {"again": True},
        {"left": "c9-runs"},
        {"handed": 2},
    ],
    ids=[
        "it saw another's",
        "another one was taken",
        "before it looked",
        "it has another one",
        "none is kept",
        "handed over",
    ],
)
def test_no_entry_of_a_client_is_known_to_be_taken_after_it_was_told_its_turn(how: Any) -> None:
    told = seen_first(**how)
    assert told.cause in ("overwritten", "looked first", "unknown")


def slots(
    did: str = "ZREM slots slot-of-c1",
    *,
    by: str = "c1@2",
    left: bool = False,
    renewed: bool = False,
    until: float = 190,
    known: bool = True,
    again: Any = None,
) -> Told:
    """c1@1 and c2 have both permits; the refused acquire of another task takes out the slot of c1@1. `left`: so is the
    slot of an acquire that was refused before. `renewed`: c2 adds its slot once more. `until`: when the lease of c1@1
    ends. `known`: no request took out an entry that is not known before. `again`: in such a call c1@1 adds its own
    again."""
    story = _Kept(workload="semaphore", permits=2, clients=4, nodes=1, ttl_ms=200)
    story.watched("n1")

    def take(client: str, at: float, slot: str, event: str = "changed") -> None:
        story.does(client, f"EVAL take 1 slots {slot} value-{at}", at, event, f"ZADD slots {at} {slot}")

    if left:
        story.op("c3", "acquire", "fail", 0, 3, 6)
        take("c3", 4, "slot-left", "set")
    take("c1", 9, "slot-of-c1", "changed" if left else "set")
    take("c2", 12, "slot-of-c2")
    if renewed:
        take("c2", 16, "slot-of-c2")
    if not known:
        story.does("c4", "EVAL free 1 slots some", 20, "changed", "ZREM")
    story.does(by.partition("@")[0], "EVAL free 1 slots some", 25, "changed", did)
    take("c3", 29, "slot-of-c3")
    if again:
        story.op("c1@1", again, "ok", 1, 40, 44)
        take("c1", 42, "slot-of-c1")
    story.does("c3", "EVAL leave 1 slots slot-of-c3", 50.2, "changed", "ZREM slots slot-of-c3")
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


@pytest.mark.parametrize("did", ["ZREM slots slot-of-c9", "ZREM slots slot-left", "ZREMRANGEBYSCORE slots 0 (9"])
def test_a_command_that_takes_out_another_slot(did: str) -> None:
    assert slots(did, by="c4", left=True).cause == "unknown"


@pytest.mark.parametrize("did", ["ZREMRANGEBYSCORE slots 0 9", "ZREMRANGEBYRANK slots 0 0", "ZPOPMIN slots"])
def test_a_command_that_means_the_slot_of_a_holder(did: str, golden: Golden) -> None:
    for renewed in (False, True):
        told = slots(did, by="c4", renewed=renewed)
        assert told.cause == "entry taken"
    golden(told.sentence)


@pytest.mark.parametrize(
    ("did", "again", "cause"),
    [
        ("ZREMRANGEBYSCORE slots 0 9", "held", "set by an extension"),
        ("ZREMRANGEBYSCORE slots 0 9", "reenter", "entry taken"),
        ("ZPOPMIN slots", "held", "entry taken"),
    ],
)
def test_a_renewal_may_put_in_again_what_was_too_old(did: str, again: str, cause: str, golden: Golden) -> None:
    """The lock must not take out another slot all the same."""
    told = slots(did, by="c4", again=again)
    assert told.cause == cause
    if cause == "set by an extension":
        golden(told.sentence)


@pytest.mark.parametrize(
    "how",
    [{"left": True}, {"until": 20}, {"known": False}],
    ids=["of a refused acquire", "of a lease that ended", "what is not known"],
)
def test_the_first_one_may_be_of_nobody_who_is_inside(how: Any) -> None:
    assert slots("ZPOPMIN slots", by="c4", **how).cause in (None, "unknown")

"""What is told of a client that was let in because its request raised a count, without the lock's own key.

Readers share the key `lock`: the first one sets it, the others only raise `count`. A writer sets it, too.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.explain.kinds import Told
from tests.explain.stories import Story
from tests.golden import Golden


class _Counted(Story):
    def __init__(self, **config: Any) -> None:
        super().__init__(workload="rw-lock", nodes=1, ttl_ms=100, clients=5, **config)
        self.watched("n1")

    def asks(self, client: str, script: str, at: float, *does: tuple[str, str, Any]) -> _Counted:
        """Its request does all of this, to the key of the second word: the command, and what became of the key."""
        words = f"EVAL {script} 2 lock count value-of-{client}"
        for place, (did, event, value) in enumerate(does):
            self.request(client, "n1", words, at, at + 0.4, reply="1") if not place else None
            self.seen("n1", event, at + 0.3, since=at + 0.1, key=did.split()[1])
            self.key_events[-1].value = value
            if place:
                self.by(self.key_events[-1], len(self.requests) - 1)
            self.called(did)
        return self


def raised(value: int) -> tuple[str, str, Any]:
    return "INCR count", "changed", str(value)


FIRST = ("INCR count", "set", "1"), ("SET lock readers", "set", "readers")


def left_over(
    *, key: bool = False, sets: bool = True, alone: bool = True, dies: bool = True, after: bool = False
) -> Told:
    """c1 reads, and is killed inside; its key expires, and its count stays. c2 reads, and then c3 writes. `key`: the
    key is still there. `sets`: c1 had set it. `alone`: c2 sets no key. `dies`: if not, c1 gives back what it had
    raised. `after`: c3 writes first."""
    story = _Counted()
    story.asks("c1", "read", 9, *(FIRST if sets else FIRST[:1]))
    story.op("c1", "acquire", "ok", 1, 8, 10, validity_ms=90.0, shared=True)
    if dies:
        story.end("c1", "killed", 20)
    else:
        story.op("c1", "release", "ok", 1, 40, 42, shared=True)
        story.asks("c1", "leave", 41, ("DECR count", "changed", "0"))
    if not key and sets:
        story.seen("n1", "expired", 110, since=109, key="lock")
    write = ("SET lock value-of-c3", "overwritten" if key else "set", "value-of-c3")
    if after:
        story.asks("c3", "write", 195, write)
    set_by_c2 = () if alone else (("SET lock readers", "set", "readers"),)
    story.asks("c2", "read", 199, raised(2 if dies else 1), *set_by_c2)
    if not after:
        story.asks("c3", "write", 209, write)
    story.section("c2", 200, 240, asked=198, deadline=290, shared=True)
    begun = 196 if after else 210
    return story.section("c3", begun, 230, asked=begun - 2, deadline=begun + 90).told("overlap")


@pytest.mark.parametrize("how", [{}, {"dies": False}, {"after": True}], ids=str)
def test_a_reader_that_only_raises_the_count_leaves_the_key_to_a_writer(how: Any, golden: Golden) -> None:
    told = left_over(**how)
    assert told.cause == "count alone"
    assert ("c1's: in its acquire" in told.sentence) == ("dies" not in how)
    golden(told.sentence)


@pytest.mark.parametrize("how", [{"key": True}, {"sets": False}, {"alone": False}], ids=str)
def test_it_is_not_known_to_be_the_count(how: Any) -> None:
    """The key was there; no reader ever set it; or this one did."""
    assert left_over(**how).cause != "count alone"


def test_a_count_is_the_value_of_no_client() -> None:
    """It is at 1, and both requests say that they name one key."""
    story = _Counted()
    for client, at, event in (("c1", 9, "set"), ("c2", 29, "changed")):
        story.request(client, "n1", f"EVAL take 1 count {client}", at, at + 0.4, reply="1")
        story.seen("n1", event, at + 0.3, since=at + 0.1, key="count").called("INCR count")
        story.key_events[-1].value = str(1 + (client == "c2"))
    told = story.section("c1", 10, 60, asked=8, shared=True).section("c2", 30, 50, asked=28).told("overlap")
    assert told.cause != "shared value"


def test_a_value_of_all_readers_is_not_drawn_twice() -> None:
    """c1 and c4 read, and c1 leaves. It deletes the key, which c4 had set."""
    story = _Counted()
    story.asks("c4", "read", 29, *FIRST)
    story.op("c1", "acquire", "ok", 1, 8, 10, validity_ms=90.0, shared=True)
    story.op("c1", "release", "ok", 1, 40, 42, shared=True)
    story.asks("c1", "leave", 41, ("DECR count", "changed", "0"), ("DEL lock", "deleted", "readers"))
    story.asks("c3", "write", 49, ("SET lock value-of-c3", "set", "value-of-c3"))
    story.section("c4", 30, 70, asked=28, shared=True)
    told = story.section("c3", 50, 60, asked=48).told("overlap")
    assert told.cause == "deleted"
    assert "drawn" not in told.sentence
    assert "same value" not in told.sentence

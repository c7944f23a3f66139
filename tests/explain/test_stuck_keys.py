"""Why keys that no client owned stayed on the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from harness.explain.stuck_keys import why_stuck
from tests.golden import Golden
from tests.judge.histories import History, ms


def left(ttl_ms: int | None = 400) -> History:
    """c1 is inside, and leaves its key; a section of another key before it has a key that expires. Was it stuck from
    500 to 1500?"""
    history = History(ttl_ms=400, nodes=1, clients=3, keys=2).watch("n1")
    history.section("c3", -60, -50, asked=-70, key="k2").section("c1", 10, 300, asked=4)
    asked(history, "c3", "SET k2 b NX PX 400", -66, "set", "b", ttl=400, key="k2").seen("n1", "deleted", -49, key="k2")
    return asked(history, "c1", "SET k1 a NX", 5, "set", "a", ttl=ttl_ms)


def asked(history: History, client: str, words: str, at: float, *event: str, **more: Any) -> History:
    history.request(client, "n1", words, at, at + 1, reply="1", did=False)
    what, value = event
    history.seen("n1", what, at + 0.5, value, since=at, **more)
    history.by(history.key_events[-1], len(history.requests) - 1)
    return history


def renewed(by: str, *times: float) -> History:
    history = left()
    for at in times:
        asked(history, by, "PEXPIRE k1 400", at, "prolonged", "a", ttl=400)
    return history


def why(history: History) -> tuple[str, str] | None:
    return why_stuck(history.seen("n1", "blind", 9_000).recorded(), "k1", ("n1",), ms(500), ms(1500))


@pytest.mark.parametrize(("by", "cause"), [("c1", "renewed unheld"), ("c2", "prolonged")])
def test_a_client_went_on_prolonging_the_key(by: str, cause: str, golden: Golden) -> None:
    told = why(renewed(by, 250, 550, 850))
    assert told is not None
    assert told[1] == cause
    golden(told[0])


def test_a_task_that_prolongs_the_key_of_its_process_prolongs_its_own() -> None:
    history = History(ttl_ms=400, nodes=1, tasks=2).watch("n1").section("c1@2", 10, 300, asked=4)
    asked(history, "c1", "SET k1 a NX PX 400", 2, "set", "a", ttl=400)
    for at in (250, 550, 850):
        asked(history, "c1@1", "PEXPIRE k1 400", at, "prolonged", "a", ttl=400)
    told = why(history)
    assert told is not None
    assert told[1] == "renewed unheld"


def test_one_renewal_may_have_been_under_way() -> None:
    assert why(renewed("c1", 250, 450, 550)) is None


def test_a_key_without_an_expiry_stayed(golden: Golden) -> None:
    told = why(left(None))
    assert told is not None
    assert told[1] == "no expiry"
    golden(told[0])


def held_by_gone(*, takes: bool = False) -> History:
    """c1 puts its own field into a hash of readers, and is killed; c2 does, and takes its own out."""
    history = History(ttl_ms=400, nodes=1, clients=3, workload="rw-lock").watch("n1")
    history.section("c2", 10, 100, asked=4, shared=True).section("c1", 20, None, asked=14, shared=True)
    for client, at in (("c2", 5), ("c1", 15)):
        history.request(client, "n1", f"HSET k1 {client}-one R", at, at + 1, reply="1", did=False)
        history.seen("n1", "set" if at == 5 else "changed", at + 0.5, since=at, is_hash=True)
        history.by(history.key_events[-1], len(history.requests) - 1)
        history.called(f"HSET k1 {client}-one R")
    history.end("c1", "killed", 50)
    for client, at in (("c2", 101), ("c3", 600)):
        if client == "c2" or takes:
            of = "c1" if client == "c3" else "c2"
            history.request(client, "n1", f"HDEL k1 {of}-one", at, at + 1, reply="1", did=False)
            history.seen("n1", "changed", at + 0.5, since=at, is_hash=True)
            history.by(history.key_events[-1], len(history.requests) - 1)
            history.called(f"HDEL k1 {of}-one")
    return history


def test_the_entry_of_a_client_that_was_gone_stayed(golden: Golden) -> None:
    told = why(held_by_gone())
    assert told is not None
    assert told[1] == "dead entry"
    golden(told[0])
    assert why(held_by_gone(takes=True)) is None


def test_a_lock_whose_keys_have_none_keeps_it_elsewhere() -> None:
    history = left(None)
    history.key_events[1].ttl_ms = None
    assert why(history) is None

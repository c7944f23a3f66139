"""Keys that were set for a call which had ended without the lock."""

from __future__ import annotations

from harness.explain.given_to_ended import given_to_ended
from tests.golden import Golden
from tests.judge.histories import History, ms


def handed(ended: float = 100, *, gone: float = 900, outcome: str = "fail", by: str = "c3") -> str | None:
    """c2 asks for the lock until `ended`. At 500, an acquire of another client, or c2's next one, finds c2's ticket in
    the queue, and sets the key for it; the key stays until `gone`. What was set for it from 500 to 1000?"""
    history = History(ttl_ms=400, nodes=1, clients=3).watch("n1").section("c1", 10, 300, asked=4)
    history.op("c2", "acquire", outcome, 1, 50, ended).op(by, "acquire", "fail", 1, 450, 600)
    history.request("c1", "n1", "SET k1 a NX PX 400", 5, 6).seen("n1", "set", 7, "a", since=4, ttl=400)
    history.request("c2", "n1", "EVAL script 1 k1 ticket 400", 60, 61, reply="-1", did=False)
    history.request("c1", "n1", "DEL k1", 300.3, 300.5, reply="1").seen("n1", "deleted", 300.4, since=300)
    history.request(by, "n1", "EVAL script 1 k1 other 400", 500, 501, reply="-1")
    history.seen("n1", "set", 500.5, "ticket", since=500, ttl=400).by(history.key_events[-1], 3)
    history.seen("n1", "expired", gone, since=gone - 1)
    return given_to_ended(history.recorded(), "k1", ("n1",), ms(500), ms(1000))


def test_a_key_for_a_call_that_had_ended_kept_the_lock(golden: Golden) -> None:
    golden(str(handed()))


def test_so_did_one_that_the_same_client_found_in_its_next_call(golden: Golden) -> None:
    golden(str(handed(by="c2")))


def test_it_is_not_told_of_a_call_that_was_still_waiting_or_was_let_in_nor_of_a_short_time() -> None:
    assert handed(ended=505) is None
    assert handed(outcome="ok") is None
    assert handed(gone=700) is None

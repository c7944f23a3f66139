"""What the requests of a transaction did is told by its EXEC."""

from __future__ import annotations

import pytest

from tests.judge.histories import History, ms

QUEUED = '"QUEUED"'


def transaction(executed: str | None, *, ends: str = "EXEC") -> History:
    """Two requests between MULTI and what ends the transaction, at 30."""
    history = History(nodes=1).request("c1", "n1", "MULTI", 10, 11, transaction=7, did=False)
    history.request("c1", "n1", "SET k1 a", 12, 13, reply=QUEUED, transaction=7, did=False)
    history.request("c1", "n1", "PEXPIRE k1 400", 14, 15, reply=QUEUED, transaction=7, did=False)
    answered = None if executed is None else 31
    return history.request("c1", "n1", ends, 30, answered, reply=executed, transaction=7, did=False)


def replies(history: History) -> list[str | None]:
    record = history.recorded().wire()
    assert record is not None
    return [str(reply) for reply in record.requests["reply"].to_pylist()[1:3]]


@pytest.mark.parametrize(
    ("executed", "told"),
    [
        ('["OK",1]', ['"OK"', "1"]),
        ("null", ["null", "null"]),  # a key that was watched had changed
        ('["OK"', [QUEUED, QUEUED]),
        ('["OK",1,1]', [QUEUED, QUEUED]),
        ('{"error":"EXECABORT"}', [QUEUED, QUEUED]),
        (None, [QUEUED, QUEUED]),
    ],
)
def test_each_request_has_its_reply_out_of_the_exec(executed: str | None, told: list[str]) -> None:
    assert replies(transaction(executed)) == told


def test_they_come_to_the_node_and_are_answered_with_the_exec() -> None:
    record = transaction('["OK",1]').recorded().wire()
    assert record is not None
    times = record.requests.select(["from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns"]).to_pylist()[1]
    assert list(times.values()) == [ms(11.9), ms(30), ms(31), ms(31.1)]


def test_what_is_discarded_or_has_no_transaction_stays_as_it_is() -> None:
    assert replies(transaction('"OK"', ends="DISCARD")) == [QUEUED, QUEUED]
    history = History(nodes=1)
    for at in (10, 20, 30):
        history.request("c1", "n1", "SET k1 a", at, at + 1, reply=QUEUED, did=False)
    assert replies(history) == [QUEUED, QUEUED]

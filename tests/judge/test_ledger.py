"""Which request changed which key: literal records of what the witness saw and of what went over the links."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from harness.history.ledger import Ledger

from .histories import START_NS, History


def rows(history: History) -> pd.DataFrame:
    ledger = history.recorded().ledger
    assert isinstance(ledger, Ledger)
    return ledger.rows


def told(history: History, *names: str) -> list[tuple[Any, ...]]:
    """These columns of the changes."""
    return list(rows(history)[list(names)].itertuples(index=False, name=None))


def causes(history: History) -> list[tuple[str, str, str | None]]:
    return told(history, "what", "cause", "client")


def watched(**config: Any) -> History:
    return History(**config).watch("n1")


def granted() -> History:
    """c1 sets the key within its acquire, and has it."""
    return (
        watched()
        .section("c1", 12, 60, asked=8)
        .seen("n1", "set", 13, "a", since=5, ttl=100)
        .request("c1", "n1", "SET k1 a NX PX 100", 10, 11)
    )


def test_a_change_belongs_to_the_request_that_the_node_names() -> None:
    (row,) = rows(granted()).itertuples()
    assert (row.what, row.cause, row.client, row.command, row.value) == ("set", "request", "c1", "SET", "a")
    assert [(at - START_NS) / 1e6 for at in (row.to_node_ns, row.from_node_ns)] == [10, 11]
    assert (row.f, row.section, row.life, row.outcome, row.is_in_call) == ("acquire", 1, 1, "ok", True)


def deleted() -> History:
    return granted().seen("n1", "deleted", 40, since=30)


def test_of_two_requests_at_once_the_node_knows_which_it_was() -> None:
    history = deleted().request("c2", "n1", "DEL k1", 32, 35).request("c1", "n1", "DEL k1", 33, 36, did=False)
    assert causes(history)[1] == ("deleted", "request", "c2")


def test_a_change_by_a_request_that_is_not_on_record_has_no_cause() -> None:
    history = deleted().request("c2", "n1", "DEL k1", 33, 36)
    history.requests.pop()
    assert causes(history)[1] == ("deleted", "none", None)
    history.request("c2", "n1", "GET k1", 33, 36, did=False)
    assert causes(history)[1] == ("deleted", "none", None), "another program dialled from the port of this connection"


@pytest.mark.parametrize(("arrived", "answered"), [(20, 29), (40.1, 41), (None, None)])
def test_a_request_at_another_time_is_not_the_one_that_the_node_names(
    arrived: float | None, answered: float | None
) -> None:
    history = deleted().request("c2", "n1", "DEL k1", arrived, answered, sent=19)
    assert causes(history)[1] == ("deleted", "none", None)


def test_a_request_whose_reply_is_missing_may_have_made_it() -> None:
    history = deleted().request("c2", "n1", "DEL k1", 20)
    assert told(history, "cause", "client", "reply", "from_node_ns")[1] == ("request", "c2", None, -1)


def test_a_port_that_was_dialled_from_twice_belongs_to_the_newer_connection() -> None:
    history = deleted().request("c2", "n1", "DEL k1", 33, 36)
    history.request("c1", "n1", "DEL k1", 33, 36, connection=7, did=False)
    history.ports[7], history.opened[7] = 201, 32
    assert causes(history)[1] == ("deleted", "request", "c1")
    history.opened[7] = 41
    assert causes(history)[1] == ("deleted", "request", "c2")


def polling() -> History:
    """c1 asks again and again, in the same words, and gets the key the fourth time. The window in which the witness saw
    it is wide."""
    history = watched().request("c1", "n1", "PING", 5, 5.5, did=False)
    history.request("c1", "n1", "SET k1 first", 6, 6.5).seen("n1", "set", 7, "first", since=6)
    for at in (10, 11, 12):
        history.request("c1", "n1", "EVAL take 1 k1 a", at, at + 0.5, reply="0", did=False)
    return history.request("c1", "n1", "EVAL take 1 k1 a", 13, 13.5, reply="1").seen("n1", "set", 14, "a", since=7)


def test_of_several_requests_of_the_same_words_the_place_tells() -> None:
    """The node does not tell of the PING, so it counts from zero where the record counts from one."""
    history = polling()
    for event in history.key_events[1:]:
        assert event.place is not None
        event.place -= 1
    assert told(history, "request", "command") == [(1, "SET"), (5, "EVAL")]


@pytest.mark.parametrize(
    ("words", "nothing", "done", "found"),
    [
        ("SET k1 a NX", "null", '"OK"', 1),
        ("SETNX k1 a", "0", "1", 1),
        ("SET k1 a NX GET", "null", '"b"', -1),
        ("EVAL take 1 k1 a", "0", "1", -1),
    ],
)
def test_of_several_requests_of_the_same_words_one_that_did_nothing_by_its_reply_is_not_meant(
    words: str, nothing: str, done: str, found: int
) -> None:
    """No other change says how the places that the node tells compare with those on record."""
    history = watched().request("c1", "n1", words, 10, 10.5, reply=nothing, did=False)
    history.request("c1", "n1", words, 13, 13.5, reply=done).seen("n1", "set", 14, "a", since=7)
    assert told(history, "request") == [(found,)]


@pytest.mark.parametrize("times", [3, 40, 400])
def test_the_same_words_again_and_again_are_told_apart_by_their_places(times: int) -> None:
    """A lock that renews without a pause, and a witness that saw each renewal somewhen since the key was set."""
    history = watched().request("c1", "n1", "SET k1 a PX 500", 6, 6.5).seen("n1", "set", 7, "a", since=6, ttl=500)
    for at in range(times):
        history.request("c1", "n1", "PEXPIRE k1 500", 10 + at, 10.5 + at, did=False)
    first = len(history.requests) - times
    for at in range(times):
        history.seen("n1", "prolonged", 11 + times + at / 1_000, "a", since=8, ttl=500)
        history.by(history.key_events[-1], first + at)
    assert [request for (request,) in told(history, "request")] == list(range(times + 1))


def test_where_no_place_fits_the_connection_is_known_and_not_the_request() -> None:
    history = polling()
    assert history.key_events[-1].place == 5
    history.key_events[-1].place = 9
    assert told(history, "cause", "client", "request", "to_node_ns", "f")[1] == ("request", "c1", -1, -1, None)


def test_a_transaction_is_answered_with_its_exec() -> None:
    history = deleted()
    history.request("c2", "n1", "MULTI", 20, 21, transaction=4, did=False)
    history.request("c2", "n1", "DEL k1", 22, 23, reply='"QUEUED"', transaction=4)
    history.request("c2", "n1", "EXEC", 35, 36, reply="[1]", transaction=4, did=False)
    assert told(history, "cause", "client", "command")[1] == ("request", "c2", "DEL")


def test_a_list_is_set_when_it_begins_and_changed_when_it_goes_on() -> None:
    history = watched().request("c1", "n1", "PING", 5, 6, did=False).seen("n1", "changed", 13, since=5)
    history.seen("n1", "changed", 23, since=15).seen("n1", "deleted", 30)
    assert told(history, "what", "owner") == [("set", 0), ("changed", 0), ("deleted", 0)]


def blocked() -> History:
    """c1 and c2 wait for an element; c1 gets none in time. Then c3 pushes one, and later another one for c1. Of the
    clients that wait, the node guesses that it served the one that waits longest."""
    history = watched(clients=4)
    history.request("c3", "n1", "BLPOP list 0.1", 1, 4, reply='["list","w"]', did=False)  # before the node was watched
    history.request("c1", "n1", "BLPOP list 0.1", 6, 17, reply="null", did=False)
    history.request("c2", "n1", "BLPOP list 0.1", 7, 20.2, reply='["list","x"]', did=False)
    history.request("c1", "n1", "BLPOP list 0.1", 18, 30.2, reply='["list","y"]', did=False)
    for at, element, guess in ((20, "x", 1), (30, "y", 2)):
        history.request("c3", "n1", f"LPUSH list {element}", at, at + 0.5, reply="1", did=False)
        history.seen("n1", "set", at + 0.3, since=15, key="list").by(history.key_events[-1], len(history.requests) - 1)
        history.called(f"LPUSH list {element}")
        history.seen("n1", "deleted", at + 0.4, since=15, key="list").by(history.key_events[-1], guess)
        history.called("BLPOP list 0.1")
    return history


def test_of_clients_that_waited_the_replies_tell_which_one_was_served() -> None:
    assert told(blocked(), "did", "client", "request") == [
        ("LPUSH", "c3", 4),
        ("BLPOP", "c2", 2),
        ("LPUSH", "c3", 5),
        ("BLPOP", "c1", 3),
    ]


def test_where_no_reply_tells_of_an_element_the_node_is_believed() -> None:
    history = blocked()
    history.requests[2]["reply"] = history.requests[3]["reply"] = "null"
    assert [row[1] for row in told(history, "did", "client")] == ["c3", "c1", "c3", "c2"]


def test_a_client_that_waited_and_got_no_reply_may_have_been_served() -> None:
    history = blocked()
    history.requests[1] |= {"reply": None, "from_node_ns": None, "to_client_ns": None}
    assert [row[1] for row in told(history, "did", "client")] == ["c3", "c1", "c3", "c2"], "the node is believed"


def test_a_script_takes_at_once() -> None:
    history = blocked()
    history.request("c2", "n1", "EVAL take 1 list", 34, 34.5, reply='"z"', did=False)
    history.seen("n1", "changed", 34.3, since=15, key="list").by(history.key_events[-1], len(history.requests) - 1)
    history.called("BLPOP list 0")
    assert told(history, "did", "client", "request")[-1] == ("BLPOP", "c2", len(history.requests) - 1)


def test_eviction_needs_no_request() -> None:
    assert causes(granted().seen("n1", "evicted", 40, since=30))[1] == ("evicted", "eviction", None)


def test_expiry_needs_no_request() -> None:
    history = (
        granted().seen("n1", "expired", 140, since=110).request("c2", "n1", "DEL k1", 120, 121, reply="0", did=False)
    )
    assert causes(history)[1] == ("expired", "expiry", None)


def test_a_key_is_lost_by_a_restart() -> None:
    history = granted().seen("n1", "blind", 40).seen("n1", "watching", 60, "n1-second", since=50)
    assert told(history, "what", "cause", "is_seen")[1] == ("lost", "restart", False)


def test_a_key_whose_time_ran_out_while_the_node_was_down_may_have_expired() -> None:
    history = granted().seen("n1", "blind", 40).seen("n1", "watching", 300, "n1-second", since=290)
    assert told(history, "what", "cause")[1] == ("lost", "unseen")


def test_a_key_that_a_node_brings_back_was_not_changed() -> None:
    history = granted().seen("n1", "blind", 40).seen("n1", "seen", 59, "a", since=50)
    history.seen("n1", "watching", 60, "n1-second", since=50).seen("n1", "deleted", 70, since=65)
    history.request("c1", "n1", "DEL k1", 66, 67, reply="1")
    assert told(history, "what", "cause", "of") == [("set", "request", -1), ("deleted", "request", 0)]


def test_where_the_record_is_not_whole_no_cause_is_told() -> None:
    history = granted()
    history.not_recorded.add("n1")
    assert causes(history) == [("set", "not recorded", None)]


def test_there_is_no_ledger_without_a_record_of_the_links() -> None:
    history = watched().seen("n1", "set", 13, "a")
    history.wire = False
    assert history.recorded().ledger is None
    assert History().request("c1", "n1", "SET k1 a", 10, 11).recorded().ledger is None


def test_a_request_of_the_harness_is_named() -> None:
    history = watched().seen("n1", "set", 13, "a", since=5).request("c1", "n1", "SET k1 a", 10, 11, by="harness")
    assert told(history, "cause", "by", "f") == [("request", "harness", None)]


@pytest.mark.parametrize(
    ("sent", "f", "is_in_call"),
    [(55, "acquire", False), (60.5, "release", True), (70, "release", False), (5, None, False)],
)
def test_the_call_in_which_a_request_was_sent(sent: float, f: str | None, is_in_call: bool) -> None:
    history = granted().seen("n1", "deleted", 90, since=30)
    history.request("c1", "n1", "DEL k1", 80, 81, reply="1", sent=sent)
    assert told(history, "f", "is_in_call")[1] == (f, is_in_call)


def test_a_request_that_arrives_after_its_call_had_ended() -> None:
    history = granted().seen("n1", "deleted", 90, since=30)
    history.request("c1", "n1", "DEL k1", 80, 81, reply="1", sent=60.5)
    row = rows(history).iloc[1]
    assert row["is_in_call"]
    assert row["to_node_ns"] > row["complete_ns"]


def test_a_call_that_was_under_way_when_its_client_was_killed() -> None:
    history = granted().end("c1", "killed", 90)
    history.ends[0].under_way = "releasing"
    history.seen("n1", "deleted", 90, since=30).request("c1", "n1", "DEL k1", 80, 81, reply="1", sent=79)
    assert told(history, "f", "section", "is_in_call")[1] == ("release", -1, True)


def test_tasks_of_one_process_are_told_apart_by_their_keys() -> None:
    history = watched(tasks=2).op("c1@1", "acquire", "ok", 1, 8, 20).op("c1@2", "acquire", "ok", 1, 8, 20, key="k2")
    history.seen("n1", "set", 13, "a", since=5).request("c1", "n1", "SET k1 a", 10, 11)
    assert told(history, "task", "is_in_call") == [("c1@1", True)]


@pytest.mark.parametrize(("at", "is_in_call"), [(10, True), (25, False)])
def test_the_task_that_a_process_noted_sent_the_request(at: float, is_in_call: bool) -> None:
    """Also if another one asks for the same key, and when its own call is over."""
    history = watched(tasks=2).op("c1@1", "acquire", "fail", 1, 8, 30).op("c1@2", "acquire", "fail", 1, 8, 20)
    history.seen("n1", "set", at + 3, "a", since=5).request("c1@2", "n1", "SET k1 a", at, at + 1)
    assert told(history, "client", "task", "is_in_call") == [("c1", "c1@2", is_in_call)]


def test_tasks_that_ask_for_the_same_key_are_not_told_apart() -> None:
    history = watched(tasks=2).op("c1@1", "acquire", "fail", 1, 8, 20).op("c1@2", "acquire", "fail", 1, 8, 20)
    history.seen("n1", "set", 13, "a", since=5).request("c1", "n1", "SET k1 a", 10, 11)
    assert told(history, "client", "task", "is_in_call") == [("c1", None, True)]


def test_what_a_thread_sends_while_a_task_is_inside_may_be_of_that_task_and_of_no_call() -> None:
    history = watched(tasks=2).op("c1@1", "acquire", "ok", 1, 2, 6).op("c1@2", "acquire", "fail", 1, 8, 20)
    history.seen("n1", "set", 13, "a", since=5).request("c1", "n1", "SET k1 a", 10, 11)
    assert told(history, "client", "task") == [("c1", "c1@2")], "where tasks are not noted, it is likely its own"
    history.request("c1@1", "n1", "GET k1", 3, 4, did=False)
    assert told(history, "client", "task") == [("c1", None)]
    history.op("c1@1", "release", "ok", 1, 7, 7.5)
    assert told(history, "client", "task") == [("c1", "c1@2")]


def test_of_keys_whose_names_begin_alike_the_longest_in_the_request_is_meant() -> None:
    history = watched(tasks=2).op("c1@1", "acquire", "ok", 1, 8, 20).op("c1@2", "extend", "ok", 1, 8, 20, key="k1:2")
    history.seen("n1", "set", 13, "a", since=5, key="k1:2").request("c1", "n1", "SET k1:2 a", 10, 11)
    history.seen("n1", "set", 15, "b", since=13, key="lock:k1").request("c1", "n1", "SET lock:k1 b", 14, 15)
    assert told(history, "task") == [("c1@2",), ("c1@1",)]


def test_the_owner_is_the_request_that_set_the_key() -> None:
    history = granted().seen("n1", "prolonged", 40, "a", since=30).seen("n1", "set", 50, "b", since=45)
    history.seen("n1", "deleted", 60, since=55)
    assert told(history, "what", "owner", "of") == [
        ("set", 0, -1),
        ("prolonged", 0, 0),
        ("overwritten", 2, 0),
        ("deleted", 2, 2),
    ]


def test_a_hash_stays_with_its_owner_when_it_gets_another_field() -> None:
    history, fields = watched(), ("c1", "c1, c2", "c1, c2")
    for event, value, client, at in zip(
        ("set", "set", "prolonged"), fields, ("c1", "c2", "c2"), (10, 20, 30), strict=True
    ):
        history.request(client, "n1", f"EVAL sha 1 k1 {client}", at, at + 1, reply="1")
        history.seen("n1", event, at + 3, value, since=at - 5, is_hash=True)
    assert told(history, "what", "client", "owner") == [("set", "c1", 0), ("changed", "c2", 0), ("prolonged", "c2", 0)]


def test_nodes_on_which_no_key_changed_have_an_empty_ledger() -> None:
    ledger = watched().request("c1", "n1", "SET k1 one NX", 10, 11, reply="null").recorded().ledger
    assert ledger is not None
    assert ledger.table().empty


def test_for_pandas_what_is_not_known_is_missing() -> None:
    ledger = granted().seen("n1", "expired", 140, since=130).recorded().ledger
    assert ledger is not None
    was_set, expired = ledger.table().to_dict("records")
    assert (was_set["request"], was_set["section"]) == (0, 1)
    assert pd.isna(was_set["of"])
    assert pd.isna(was_set["had_until_ns"])
    assert expired["of"] == 0
    assert pd.isna(expired["request"])
    assert pd.isna(expired["to_node_ns"])
    assert (expired["had_until_ns"] - START_NS) / 1e6 == 113

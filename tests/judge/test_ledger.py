"""Which request changed which key: literal records of what the witness saw and of what went over the links."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from harness.history.ledger import Ledger

from .histories import START_NS, History

COMPARE = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"
HASH = "redis.call('hincrby',KEYS[1],ARGV[1],1) return 1"
QUEUE = "return redis.call('del', KEYS[1] .. ':queue')"


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


def test_a_change_belongs_to_the_request_that_made_it() -> None:
    (row,) = rows(granted()).itertuples()
    assert (row.what, row.cause, row.client, row.command, row.value) == ("set", "request", "c1", "SET", "a")
    assert [(at - START_NS) / 1e6 for at in (row.to_node_ns, row.from_node_ns)] == [10, 11]
    assert (row.f, row.section, row.life, row.outcome, row.is_in_call) == ("acquire", 1, 1, "ok", True)


def test_a_request_that_was_answered_before_did_not_make_it() -> None:
    history = granted().seen("n1", "deleted", 40, since=30).request("c2", "n1", "DEL k1", 20, 29, reply="1")
    assert causes(history)[1] == ("deleted", "none", None)


def test_a_request_that_came_later_did_not_make_it() -> None:
    history = granted().seen("n1", "deleted", 40, since=30).request("c2", "n1", "DEL k1", 40.1, 41, reply="1")
    assert causes(history)[1] == ("deleted", "none", None)


def test_a_request_that_never_arrived_did_not_make_it() -> None:
    history = granted().seen("n1", "deleted", 40, since=30).request("c2", "n1", "DEL k1", None, sent=20)
    assert causes(history)[1] == ("deleted", "none", None)


def test_a_request_whose_reply_is_missing_may_have_made_it() -> None:
    history = granted().seen("n1", "deleted", 40, since=30).request("c2", "n1", "DEL k1", 20)
    assert told(history, "cause", "client", "reply", "from_node_ns")[1] == ("request", "c2", None, -1)


def test_a_node_does_nothing_more_for_a_connection_that_it_has_closed() -> None:
    history = granted().seen("n1", "deleted", 40, since=30).request("c2", "n1", "DEL k1", 20, connection=7)
    history.closed[7] = 25
    assert causes(history)[1] == ("deleted", "none", None)


@pytest.mark.parametrize("words", ["GET k1", "PEXPIRE k1 100", "DEL k2", "SET k1 b"])
def test_a_request_that_does_something_else_did_not_make_it(words: str) -> None:
    history = granted().seen("n1", "deleted", 40, since=30).request("c2", "n1", words, 35, 36, reply="1")
    assert causes(history)[1] == ("deleted", "none", None)


def test_a_request_of_another_database_did_not_make_it() -> None:
    history = granted().seen("n1", "deleted", 40, since=30)
    history.request("c2", "n1", "DEL k1", 35, 36, reply="1", database=1)
    assert causes(history)[1] == ("deleted", "none", None)


def test_the_reply_rules_out_the_other_client() -> None:
    history = granted().seen("n1", "deleted", 40, since=30)
    history.request("c2", "n1", "DEL k1", 32, 35, reply="0").request("c1", "n1", "DEL k1", 33, 36, reply="1")
    assert causes(history)[1] == ("deleted", "request", "c1")


def test_the_value_tells_two_clients_apart() -> None:
    history = watched().seen("n1", "set", 13, "b", since=5)
    history.request("c1", "n1", "SET k1 a PX 100", 10, 11).request("c2", "n1", "SET k1 b PX 100", 10, 11)
    assert causes(history) == [("set", "request", "c2")]


def test_two_that_may_both_have_made_it_are_not_told_apart() -> None:
    history = granted().seen("n1", "deleted", 40, since=30)
    history.request("c1", "n1", "DEL k1", 33, 36).request("c2", "n1", "DEL k1", 32, 35)
    assert told(history, "cause", "candidates", "client")[1] == ("several", 2, None)


def test_what_several_have_in_common_is_told() -> None:
    history = granted().seen("n1", "deleted", 40, since=30)
    history.request("c2", "n1", "DEL k1", 33, 36).request("c2", "n1", "DEL k1", 32, 35, connection=7)
    assert told(history, "cause", "candidates", "client")[1] == ("several", 2, "c2")


def test_the_node_s_own_order_decides() -> None:
    """Both requests were under way all the time; c1's value was there before c2's, which the witness read."""
    history = watched().seen("n1", "set", 20, since=5).seen("n1", "set", 20, "b", since=5)
    history.request("c1", "n1", "SET k1 a PX 100", 6, 19).request("c2", "n1", "SET k1 b PX 100", 6, 19)
    assert causes(history) == [("set", "request", "c1"), ("overwritten", "request", "c2")]


def test_a_connection_s_own_order_decides() -> None:
    history = watched()
    for event in ("set", "deleted", "set", "deleted"):
        history.seen("n1", event, 30, since=5)
    for words in ("SET k1 a", "DEL k1", "SET k1 b", "DEL k1"):
        history.request("c1", "n1", words, 20, 21, reply="1" if words == "DEL k1" else '"OK"')
    assert told(history, "cause", "request") == [("request", number) for number in range(4)]


def test_a_script_that_compares_deleted_only_the_value_that_it_names() -> None:
    history = granted().seen("n1", "deleted", 40, since=30)
    ours, others = "EVAL sha 1 k1 a", "EVAL sha 1 k1 b"
    history.scripts["sha"] = COMPARE
    history.request("c1", "n1", ours, 33).request("c2", "n1", others, 32)
    assert causes(history)[1] == ("deleted", "request", "c1")


def test_all_orders_are_tried() -> None:
    """Two clients set and delete the key at once, and the witness read no value: each deletes its own."""
    history = watched()
    history.scripts["sha"] = COMPARE
    for event in ("set", "deleted") * 2:
        history.seen("n1", event, 30, since=5)
    for client, value, at in (("c1", "a", 10), ("c2", "b", 12)):
        history.request(client, "n1", f"SET k1 {value} NX", at, at + 6)
        history.request(client, "n1", f"EVAL sha 1 k1 {value}", at + 2, 25, reply="1")
    assert told(history, "candidates") == [(2,)] * 4  # c1's may have been first, or c2's
    history.requests[0]["from_node_ns"] = history.requests[0]["to_node_ns"] + 1
    assert [client for _, _, client in causes(history)] == ["c1", "c1", "c2", "c2"]


def test_a_request_for_several_keys_may_have_deleted_another_one() -> None:
    """Its reply says that it deleted one of them."""
    history = granted().seen("n1", "deleted", 40, since=30).seen("n1", "blind", 90)
    history.request("c2", "n1", "DEL k1 k2", 33, 36, reply="1")
    assert causes(history)[1] == ("deleted", "request", "c2")
    assert told(history.request("c1", "n1", "DEL k1", 32), "cause", "candidates")[1] == ("several", 2)


def test_a_request_whose_reply_says_that_it_deleted_the_key_did_so() -> None:
    history = granted().seen("n1", "deleted", 40, since=30).seen("n1", "blind", 90)
    history.request("c2", "n1", "DEL k1", 33, 36, reply="1").request("c1", "n1", "DEL k1", 32)
    assert causes(history)[1] == ("deleted", "request", "c2")


def test_a_script_changes_keys_that_nobody_named() -> None:
    history = watched().seen("n1", "set", 13, "a", since=5, key="k1:queue")
    history.scripts["sha"] = QUEUE
    history.request("c1", "n1", "SET k1:queue a", 10, 11).seen("n1", "deleted", 40, since=30, key="k1:queue")
    history.request("c2", "n1", "EVAL sha 1 k1", 33, 36, reply="1")
    assert causes(history)[1] == ("deleted", "request", "c2")


def test_a_transaction_is_done_with_its_exec() -> None:
    history = granted().seen("n1", "deleted", 40, since=30)
    history.request("c2", "n1", "MULTI", 20, 21, transaction=4)
    history.request("c2", "n1", "DEL k1", 22, 23, reply='"QUEUED"', transaction=4)
    history.request("c2", "n1", "EXEC", 35, 36, reply="[1]", transaction=4)
    assert told(history, "cause", "client", "command")[1] == ("request", "c2", "DEL")


@pytest.mark.parametrize("reply", ["null", '{"error":"EXECABORT"}', "[0]"])
def test_a_transaction_that_was_not_done_changed_nothing(reply: str) -> None:
    history = granted().seen("n1", "deleted", 40, since=30)
    history.request("c2", "n1", "MULTI", 31, 32, transaction=4)
    history.request("c2", "n1", "DEL k1", 33, 34, reply='"QUEUED"', transaction=4)
    history.request("c2", "n1", "EXEC", 35, 36, reply=reply, transaction=4)
    assert causes(history)[1] == ("deleted", "none", None)


def test_a_script_may_delete_a_key_by_an_extension() -> None:
    history = granted().seen("n1", "deleted", 40, since=30)
    history.scripts["sha"] = "return redis.call('pexpire', KEYS[1], ARGV[1])"
    history.request("c1", "n1", "EVAL sha 1 k1 0", 33, 36, reply="1")
    assert causes(history)[1] == ("deleted", "request", "c1")
    history.request("c2", "n1", "DEL k1", 33, 36, reply="1")
    assert causes(history)[1] == ("deleted", "request", "c2")


def test_expiry_needs_no_request() -> None:
    history = granted().seen("n1", "expired", 140, since=110).request("c2", "n1", "DEL k1", 120, 121, reply="0")
    assert causes(history)[1] == ("expired", "expiry", None)


def test_a_key_is_lost_by_a_restart() -> None:
    history = granted().seen("n1", "blind", 40).seen("n1", "watching", 60, "n1-second", since=50)
    assert told(history, "what", "cause", "is_seen")[1] == ("lost", "restart", False)


def test_what_a_client_may_have_deleted_out_of_sight_was_not_lost_by_the_restart_alone() -> None:
    history = granted().seen("n1", "blind", 40).seen("n1", "watching", 60, "n1-second", since=50)
    history.request("c1", "n1", "DEL k1", 41)
    assert told(history, "what", "cause", "candidates")[1] == ("lost", "unseen", 1)


def test_a_key_whose_time_ran_out_while_the_node_was_down_may_have_expired() -> None:
    history = granted().seen("n1", "blind", 40).seen("n1", "watching", 300, "n1-second", since=290)
    assert told(history, "what", "cause")[1] == ("lost", "unseen")


def test_a_key_that_a_node_brings_back_was_not_changed() -> None:
    history = granted().seen("n1", "blind", 40).seen("n1", "seen", 59, "a", since=50)
    history.seen("n1", "watching", 60, "n1-second", since=50).seen("n1", "deleted", 70, since=65)
    history.request("c1", "n1", "DEL k1", 66, 67, reply="1")
    assert told(history, "what", "cause", "of") == [("set", "request", -1), ("deleted", "request", 0)]


def test_what_was_sent_to_a_server_is_not_done_by_its_next_run() -> None:
    lost = granted().request("c2", "n1", "DEL k1", 39).seen("n1", "blind", 40)
    lost.seen("n1", "watching", 60, "second", since=50).seen("n1", "set", 70, "b", since=65)
    lost.request("c2", "n1", "SET k1 b", 66, 67).seen("n1", "deleted", 90, since=80)
    assert causes(lost)[-1] == ("deleted", "none", None)


def test_where_the_record_is_not_whole_no_cause_is_told() -> None:
    history = granted()
    history.not_recorded.add("n1")
    assert causes(history) == [("set", "not recorded", None)]


def test_there_is_no_ledger_without_a_record_of_the_links() -> None:
    assert watched().seen("n1", "set", 13, "a").recorded().ledger is None
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
    history.ends[0].under_way = "release"
    history.seen("n1", "deleted", 90, since=30).request("c1", "n1", "DEL k1", 80, 81, reply="1", sent=79)
    assert told(history, "f", "section", "is_in_call")[1] == ("release", -1, True)


def test_tasks_of_one_process_are_told_apart_by_their_keys() -> None:
    history = watched(tasks=2).op("c1@1", "acquire", "ok", 1, 8, 20).op("c1@2", "acquire", "ok", 1, 8, 20, key="k2")
    history.seen("n1", "set", 13, "a", since=5).request("c1", "n1", "SET k1 a", 10, 11)
    assert told(history, "task", "is_in_call") == [("c1@1", True)]


def test_tasks_that_ask_for_the_same_key_are_not_told_apart() -> None:
    history = watched(tasks=2).op("c1@1", "acquire", "ok", 1, 8, 20).op("c1@2", "acquire", "fail", 1, 8, 20)
    history.seen("n1", "set", 13, "a", since=5).request("c1", "n1", "SET k1 a", 10, 11)
    assert told(history, "client", "task", "is_in_call") == [("c1", None, True)]


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
    history = watched().seen("n1", "set", 13, "a", since=5, is_hash=True)
    history.seen("n1", "set", 23, "a, b", since=15, is_hash=True).seen(
        "n1", "prolonged", 33, "a, b", since=25, is_hash=True
    )
    for client, at in (("c1", 10), ("c2", 20), ("c2", 30)):
        history.scripts["sha"] = HASH
        history.request(client, "n1", f"EVAL sha 1 k1 {client}", at, at + 1, reply="1")
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

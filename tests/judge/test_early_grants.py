"""A yes that came before a majority of the nodes had answered: literal records of the links and of the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.early_grants import Figures, check
from harness.verdict import Answer
from tests.golden import Golden
from tests.judge.histories import History

NODES = ("n1", "n2", "n3")


def acquiring(told: tuple[float | None, ...] = (15, 25, None), **more: Any) -> History:
    """c1 asks three nodes at 10, and its lock says yes at 20. `told`: when each node's reply was sent on to it."""
    history = History(**more)
    history.watch(*history.config.node_names).section("c1", 20, 50, asked=10)
    return asks(history, told)


def asks(history: History, told: tuple[float | None, ...], client: str = "c1", sent: float = 11) -> History:
    for node, at in zip(NODES, told, strict=False):
        answered = {} if at is None else {"answered": at - 0.5, "told": at}
        history.request(client, node, f"SET k1 {client} NX PX 100", sent + 0.5, sent=sent, **answered)
    return history


def watched_to_the_end(history: History) -> History:
    for node in history.config.node_names:
        if [event.event for event in history.key_events if event.node == node][-1:] != ["blind"]:
            history.seen(node, "blind", 1000)
    return history


def early(history: History) -> list[tuple[str, ...]]:
    """The nodes that had answered, of each acquire that said yes too early."""
    answer = check(watched_to_the_end(history).recorded())
    figures: Any = answer.figures
    assert figures.early == sum(finding.count for finding in answer.findings)
    assert all((f.kind, f.blame, f.breaks) == ("grant-before-majority", "lock", "lease") for f in answer.findings)
    return [example["answered"] for finding in answer.findings for example in finding.examples]  # type: ignore[misc]


def test_a_yes_after_one_of_three_answers(golden: Golden) -> None:
    answer = check(watched_to_the_end(acquiring()).recorded())
    assert answer.figures == Figures(1, 1)
    golden(next(answer.figures.rows()).text)
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks) == ("grant-before-majority", "lock", "lease")
    assert finding.examples == (
        {
            "client": "c1",
            "life": 1,
            "section": 1,
            "key": "k1",
            "at_ms": 20.0,
            "answered": ("n1",),
            "needed": 2,
        },
    )


def test_without_records_of_links_and_nodes_nothing_is_told() -> None:
    history = History().watch("n1").section("c1", 20, 50)
    history.wire = False
    assert check(history.recorded()) == Answer()
    assert check(asks(History().section("c1", 20, 50, asked=10), (15, 25)).recorded()) == Answer()


@pytest.mark.parametrize("told", [(15, 16, 17), (15, 16, None), (15, 20, 25)])
def test_a_majority_that_had_answered(told: tuple[float | None, ...]) -> None:
    assert check(watched_to_the_end(acquiring(told)).recorded()) == Answer(Figures(1, 0))
    assert list(Figures(1, 0).rows()) == []


def test_what_a_reply_says_does_not_matter() -> None:
    history = acquiring((15, None, None))
    history.request("c1", "n2", "SET k1 c1 NX PX 100", 12, 15, reply="null")
    assert early(history) == []


def test_what_was_answered_is_not_an_answer_to_a_later_call() -> None:
    history = acquiring().request("c1", "n2", "GET k1", 5, 6).request("c1", "n2", "DEL k1", 9.5, 12)
    assert early(history) == [("n1",)], "both were sent before the call"
    assert early(acquiring().request("c1", "n2", "GET k1", 10.1, 12, sent=10)) == []


def test_answers_to_other_clients_and_to_probes_are_none() -> None:
    history = acquiring().request("c2", "n2", "SET k1 c2 NX PX 100", 12, 15)
    history.request("c1", "n3", "PING", 12, 15, by="harness", connection=999)
    assert early(history) == [("n1",)]


def test_what_a_node_says_unasked_counts() -> None:
    history = acquiring().request("c1", "n2", "PUSH", None, 15)
    assert early(history) == []


def test_refused_acquires_and_nested_ones_need_no_majority() -> None:
    history = History().watch(*NODES).op("c1", "acquire", "fail", 1, 10, 20).op("c1", "reenter", "ok", 1, 10, 20)
    assert check(asks(history, (15, 25)).recorded()) == Answer(Figures(0, 0))


def test_each_client_has_answers_of_its_own() -> None:
    history = acquiring((15, 16, 17)).section("c2", 80, 90, asked=70)
    assert early(asks(history, (75, 85, 85), "c2", 71)) == [("n1",)]


def test_a_lock_on_one_node_needs_its_answer() -> None:
    def once(told: float, sent: float = 11) -> History:
        history = History().watch(*NODES).section("c1", 20, 50, asked=10)
        return history.request("c1", "n2", "SET k1 c1 NX PX 100", sent + 0.5, told - 0.5, sent=sent, told=told)

    assert early(once(15)) == []
    assert early(once(21)) == [()]
    assert early(once(21, sent=10)) == [()]
    assert early(once(21, sent=20)) == [()]
    assert early(once(21, sent=20.1)) == [], "it was not asked in the call"


def test_a_lock_that_asks_less_nodes_than_a_majority_needs_a_majority_of_these() -> None:
    assert early(acquiring((15, 16), nodes=5)) == []
    assert early(acquiring((15, 25), nodes=5)) == [("n1",)]
    others = acquiring((15, 16, 25), nodes=5).request("c2", "n4", "SET k1 b NX", 1, 2)
    assert early(others.request("c2", "n5", "SET k1 b NX", 1, 2)) == [("n1", "n2")], "three are a majority of all"


def test_what_most_acquires_of_the_key_ask_counts() -> None:
    """A lock on one node that finds it moved asks a second one."""
    history = asks(History().watch(*NODES).section("c1", 20, 50, asked=10), (15, None))
    for number, at in enumerate((100, 200), 2):
        history.section("c1", at + 10, at + 30, asked=at, number=number)
        history.request("c1", "n2", f"SET k1 {number} NX PX 100", at + 1, at + 2)
    assert early(history) == []


def test_of_equally_many_the_fewer_count() -> None:
    history = asks(History().watch(*NODES).section("c1", 20, 50, asked=10), (15, None))
    history.section("c1", 110, 130, asked=100, number=2).request("c1", "n2", "SET k1 2 NX PX 100", 101, 102)
    assert early(history) == []


def test_keys_are_judged_one_by_one() -> None:
    history = acquiring()
    for number, at in enumerate((100, 200), 2):
        history.section("c1", at + 10, at + 30, asked=at, number=number, key="k2")
        history.request("c1", "n2", f"SET k2 {number} NX PX 100", at + 1, at + 2)
    assert early(history) == [("n1",)]


def test_of_semaphores_one_answer_is_needed() -> None:
    assert early(acquiring(workload="semaphore", permits=2)) == []
    assert early(acquiring((25, 25, 25), workload="semaphore", permits=2)) == [()]


def test_a_call_that_asks_nothing_is_none_of_a_lock_that_asks_nothing() -> None:
    history = History().watch(*NODES).section("c1", 20, 50, asked=10).request("c2", "n1", "PING", 1, 2)
    assert early(history) == []


def test_tasks_share_their_process() -> None:
    history = History(tasks=2, clients=1).watch(*NODES).section("c1@2", 20, 50, asked=10)
    assert early(asks(history, (15, 16, 25))) == []
    history = History(tasks=2, clients=1).watch(*NODES).section("c1@2", 20, 50, asked=10)
    assert early(asks(history, (15, 25, 25))) == [("n1",)]


def keeping(f: str | None = None, told: float | None = 8.5, by: str = "c1", until: float = 100, **sent: Any) -> History:
    """The same, and n2 holds a key that was set at 8."""
    history = acquiring(**sent)
    if f is not None:
        history.op(by, f, "fail", 9, 6, 9)
    history.request(by, "n2", "SET k1 kept NX PX 100", 7.5, 8, sent=7, told=told)
    history.seen("n2", "set", 8, "kept", since=7.5, ttl=100)
    return history.seen("n2", "expired", until + 0.5, since=until)


def test_a_key_that_the_process_has_needs_no_answer() -> None:
    """It renews it in the background, or a release left it for the next acquire."""
    assert early(keeping()) == []


def test_a_key_that_the_process_does_not_know_of_does() -> None:
    assert early(keeping(told=None)) == [("n1",)]
    assert early(keeping(told=20)) == []
    assert early(keeping(told=20.1)) == [("n1",)]


def test_a_key_that_is_gone_does() -> None:
    assert early(keeping(until=15)) == [("n1",)]
    assert early(keeping(until=19.8)) == [], "it may have been there"
    assert early(keeping(until=19.5)) == [("n1",)]


def test_a_key_of_another_client_does_unless_it_was_handed_on() -> None:
    assert early(keeping("acquire", by="c2")) == [("n1",)]
    assert early(keeping("release", by="c2")) == []


def test_a_key_that_may_have_been_set_in_time() -> None:
    history = acquiring().request("c1", "n2", "SET k1 kept NX PX 100", 7.5, 8, sent=7)
    assert early(history.seen("n2", "set", 21, "kept", since=20, ttl=100)) == []
    history = acquiring().request("c1", "n2", "SET k1 kept NX PX 100", 7.5, 8, sent=7)
    assert early(history.seen("n2", "set", 22, "kept", since=21, ttl=100)) == [("n1",)]


def test_a_key_that_no_request_on_record_set_may_be_anybodys() -> None:
    assert early(acquiring().seen("n2", "set", 8, "kept", since=7, ttl=100)) == []


def test_a_key_that_was_there_when_the_node_came_into_sight_may_be_anybodys() -> None:
    assert early(acquiring().seen("n2", "prolonged", 8, "kept", since=7, ttl=100)) == []


def test_other_keys_than_the_locks_do_not_count() -> None:
    history = acquiring((15, None, None)).seen("n1", "set", 13, "c1", since=12, ttl=100)
    history.request("c1", "n2", "SET other c1", 7.5, 8, sent=7).seen("n2", "set", 8, "x", since=7, key="other")
    assert early(history) == [("n1",)]


def test_a_node_out_of_sight_may_hold_a_key() -> None:
    assert early(acquiring().seen("n2", "blind", 18)) == []
    history = acquiring().seen("n2", "blind", 18)
    assert early(history.watch("n2", at=20)) == [("n1",)]
    assert early(acquiring().seen("n2", "blind", 20)) == [("n1",)]


def test_a_node_whose_requests_are_not_all_on_record_may_have_answered() -> None:
    history = acquiring()
    history.not_recorded.add("n2")
    assert early(history) == []


def test_nodes_that_the_lock_does_not_use_are_not_counted() -> None:
    history = acquiring((15, 16, 17), nodes=5).sent("c1", 3, 3, 3, 0, 0).sent("c2", 3, 3, 3, 0, 0)
    assert early(history) == []


@pytest.mark.parametrize(("asked", "number"), [("n1 n2 n3", 0), ("n1 n2 n3 n4", 1)])
def test_a_majority_is_one_of_the_nodes_that_are_asked_for_the_key(asked: str, number: int) -> None:
    """Another client's acquire asks these, for k1, and the others for k2: a lock may spread its keys over the nodes."""
    history = acquiring((15, 16, 25), nodes=5)
    for node in history.config.node_names:
        history.request("c2", node, f"SET {'k1' if node in asked else 'k2'} b NX", 5, 6, did=False)
    history.section("c2", 500, 510, key="k2")
    assert len(early(history)) == number

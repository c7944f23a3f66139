"""Clients that wait beside a free lock. TTL 400 ms: who waits looks again within two seconds."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from fencepost.history import ClientEnd, task_names
from harness.checkers.explained import explain
from harness.checkers.free_waits import Figures, check
from harness.verdict import Finding, Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms

FREE = 102
"""When the witness had seen that the key was gone."""


def freed(**config: Any) -> History:
    """c1 was inside; its key was gone by `FREE`, on each node."""
    history = History(**({"ttl_ms": 400, "nodes": 1, "clients": 3} | config)).section("c1", 20, 100, asked=8)
    for node in history.config.node_names:
        history.watch(node).request("c1", node, "SET k1 a NX PX 400", 10, 11).seen(node, "set", 11, "a", ttl=400)
        history.request("c1", node, "DEL k1", 100.5, 101).seen(node, "deleted", FREE, since=100)
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(90_000), ms(95_000), ms(99_000)
    return history


def waits(until: float, since: float = 50, *, client: str = "c2", history: History | None = None, **op: Any) -> History:
    """It asked once when its call began, which was answered at once, and was refused at the end."""
    history = history or freed()
    history.op(client, "acquire", "fail", 1, since, until, **op)
    for node in history.config.node_names:
        history.request(client, node, "SET k1 b NX PX 400", since + 1, since + 2, reply="null", did=False)
    return history


def judged(history: History, blind_at: float = 80_000) -> Any:
    for node in history.config.node_names:
        own = [event for event in history.key_events if event.node == node]
        if own and own[-1].event != "blind":
            history.seen(node, "blind", blind_at)
    return check(history.recorded())


def only(history: History) -> Finding:
    (finding,) = judged(history).findings
    return finding


def longest(history: History) -> float | None:
    answer = judged(history)
    assert bool(answer.findings) == (answer.figures.waits > 0)
    return answer.figures.longest_ms


def test_a_client_that_sleeps_beside_a_free_lock_was_not_woken(golden: Golden) -> None:
    finding = only(waits(5000))
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "waits-for-free-lock", "lock", "liveness", 1,
    )  # fmt: skip
    golden(finding.text)
    assert finding.examples == (
        {
            "client": "c2", "key": "k1", "at_ms": FREE, "for_ms": 4898, "waited_since_ms": 50, "answers": 0,
            "freed": "deleted", "freed_ms": FREE, "freed_by": "c1",
        },
    )  # fmt: skip
    assert finding.at_ms == FREE


def test_a_run_without_long_waits_has_none() -> None:
    answer = judged(waits(1000))
    assert (answer.figures, answer.findings) == (Figures(0, None, 2000), ())
    assert list(answer.figures.rows()) == []


@pytest.mark.parametrize(("ttl_ms", "patience"), [(400, 2000), (1000, 2000), (1001, 3000), (2500, 4000)])
def test_a_client_may_sleep_for_a_lease_in_whole_seconds_and_a_second_more(ttl_ms: int, patience: float) -> None:
    assert longest(waits(FREE + patience, history=freed(ttl_ms=ttl_ms))) == patience
    assert longest(waits(FREE + patience - 0.001, history=freed(ttl_ms=ttl_ms))) is None


def test_a_longer_lease_that_the_lock_granted_counts() -> None:
    history = waits(3000, history=freed().op("c1", "extend", "ok", 1, 90, 95, granted_ms=1500.0, deadline_ns=ms(1600)))
    assert longest(history) is None


def test_the_last_change_that_freed_the_key_is_told() -> None:
    history = freed().request("c1", "n1", "SET k1 c NX PX 400", 200, 201).seen("n1", "set", 202, "c", ttl=400)
    (example,) = only(waits(5000, history=history.seen("n1", "expired", 700))).examples
    assert (example["at_ms"], example["freed"], example["freed_ms"]) == (700, "expired", 700)
    assert "freed_by" not in example
    kept = History(ttl_ms=400, nodes=1, clients=3).watch("n1").op("c1", "acquire", "info", 1, 1, 3)
    kept.request("c1", "n1", "SET k1 a NX PX 400", 4000, 4001).seen("n1", "set", 4001, "a", ttl=400)
    (example,) = only(waits(3900, history=kept)).examples
    assert "freed" not in example


def asks(
    history: History, every: float, until: float, node: str = "n1", since: float = 100, client: str = "c2", **more: Any
) -> History:
    at = since
    while at < until:
        history.request(client, node, "LINDEX k1:queue 0", at, at + 1, **{"reply": '"c9"', "did": False} | more)
        at += every
    return history


def test_a_client_that_looks_again_in_time_was_not_forgotten() -> None:
    assert longest(asks(waits(5000), 1900, 5000)) is None
    assert longest(asks(waits(5000), 2200, 5000)) == pytest.approx(2198.8)


def test_what_it_hears_counts_like_what_it_sends() -> None:
    history = waits(4000).request("c2", "n1", "BLPOP k1:wake 2", 60, 2100, reply="null", did=False)
    assert longest(history) is None


def test_a_blocking_request_that_is_not_answered_is_silence() -> None:
    assert longest(waits(4000).request("c2", "n1", "BLPOP k1:wake 200", 60, None, did=False)) == 4000 - FREE


def test_another_request_that_is_not_answered_is_the_nodes() -> None:
    assert longest(waits(4000).request("c2", "n1", "GET k1", 60, None, did=False)) is None


def test_other_clients_requests_and_those_of_the_harness_are_not_its_own() -> None:
    history = waits(4000).request("c3", "n1", "GET k1", 2000, 2001, did=False)
    history.request("c2", "n1", "PING", 2000, 2001, by="harness", did=False, connection=7)
    history.request("c2", "n1", "GET k1", 2000, 2001, did=False, connection=8)
    history.requests[-1]["node"] = "resource"
    assert longest(history) == 4000 - FREE


@pytest.mark.parametrize(("until", "found"), [(FREE + 6000, 6000), (FREE + 5999, None)])
def test_a_client_that_asks_and_is_not_let_in_has_three_times_as_long(
    until: float, found: float | None, golden: Golden
) -> None:
    history = asks(waits(until), 300, until)
    assert longest(history) == found
    if found:
        finding = only(history)
        golden(finding.text)
        assert finding.examples[0]["answers"] == 20


def test_it_must_have_been_answered() -> None:
    assert longest(asks(waits(8000), 300, 8000, reply='{"error": "LOADING"}')) is None
    loading = asks(waits(8000), 300, 8000, reply='{"error": "LOADING"}')
    assert longest(asks(loading, 100, 2200, since=2050)) is None  # twice
    assert longest(asks(loading, 100, 2300, since=2250)) == 8000 - FREE


def test_not_while_the_key_is_there() -> None:
    again = freed().request("c1", "n1", "SET k1 c NX PX 400", 1000, 1001).seen("n1", "set", 1001, "c", since=1000)
    again.request("c1", "n1", "DEL k1", 1500, 1501).seen("n1", "deleted", 1501, since=1500)
    assert longest(waits(3500, history=again)) is None
    again.key_events = [event for event in again.key_events if event.at_ns < ms(900)]
    assert longest(waits(3500, history=again)) == 3500 - FREE


def test_not_while_a_client_is_inside_or_gives_the_key_back() -> None:
    assert longest(waits(3900).section("c1", 2000, 2010, number=2)) is None
    assert longest(waits(4050).section("c1", 2000, 2010, number=2)) == 4050 - 2011
    assert longest(waits(4050).section("c1", 2000, 2010, number=2, key="k2")) == 4050 - FREE
    assert longest(waits(4100).op("c3", "release", "info", 9, 1000, 2101)) is None
    assert longest(waits(4101).op("c3", "release", "info", 9, 1000, 2101)) == 2000


def test_a_majority_of_the_nodes_must_be_free() -> None:
    def still_on(*nodes: str) -> float | None:
        history = freed(nodes=3)
        for node in nodes:
            history.request("c1", node, "SET k1 c NX PX 9000", 150, 151).seen(node, "set", 152, "c", since=150)
        return longest(waits(4000, history=history))

    assert still_on() == still_on("n1") == 4000 - FREE
    assert still_on("n1", "n2") is None


def test_a_node_that_is_not_seen_may_hold_the_key() -> None:
    assert longest(waits(4000).seen("n1", "blind", 2000)) is None
    assert longest(waits(4500).seen("n1", "blind", 2000).seen("n1", "watching", 2100, "n1-first")) == 2400


LINK: Any = {"cut_links": (("c2", "n1"),)}


@pytest.mark.parametrize(
    "hit",
    [
        LINK,
        {"slow_links": (("c2", "n1"),)},
        {"nodes": ("n1",)},
        {"wrong_client_clocks": ("c2",)},
    ],
)
def test_not_while_a_fault_is_in_the_way(hit: Any) -> None:
    assert longest(waits(4000).fault("f", 2000, 2100, **hit)) is None
    assert longest(waits(4099).fault("f", 2000, 2100, **hit)) is None
    assert longest(waits(4100).fault("f", 2000, 2100, **hit)) == 2000
    assert longest(waits(4100).fault("f", FREE + 2000, None, **hit)) == 2000
    assert longest(waits(4100).fault("f", FREE + 1999, None, **hit)) is None


def test_a_client_that_was_stopped_comes_back_a_little_later() -> None:
    assert longest(waits(4149).fault("f", 2000, 2100, paused_clients=("c2",))) is None
    assert longest(waits(4150).fault("f", 2000, 2100, paused_clients=("c2",))) == 2050


def test_a_wrong_clock_of_a_node_counts_for_longer() -> None:
    assert longest(waits(4300).fault("f", 2000, 2100, wrong_clocks={"n1": 0.0})) is None


def test_faults_of_others_count_only_while_they_wait_too() -> None:
    hit: Any = {"cut_links": (("c3", "n1"),)}
    assert longest(waits(4000).fault("f", 2000, 2100, **hit)) == 4000 - FREE
    both = waits(4000, client="c3", history=waits(4000))
    assert [example["client"] for example in only(both).examples] == ["c2", "c3"]
    assert only(both).text.startswith("2 clients waited")
    assert longest(both.fault("f", 2000, 2100, **hit)) is None
    assert longest(waits(2500, client="c3", history=waits(4000)).fault("f", 2000, None, **hit)) is None
    assert longest(waits(2500, client="c3", history=waits(4500)).fault("f", 2000, None, **hit)) == 2000


def test_another_waits_for_another_key() -> None:
    history = waits(4000, client="c3", history=waits(4000), key="k2")
    history.seen("n1", "blind", 80_000)
    history.fault("f", 2000, 2100, cut_links=(("c3", "n1"),))
    assert longest(history) == 4000 - FREE


def test_a_client_that_gets_no_processor_cannot_ask() -> None:
    history = waits(3000)
    history.kept_waiting["c2"] = [(ms(1000), ms(2000))]
    assert longest(history) is None
    history.kept_waiting["c2"] = [(ms(1000), ms(1100))]
    assert longest(history) == 3000 - FREE


def test_what_the_proxy_still_has_may_be_what_it_waits_for() -> None:
    assert longest(waits(4000).request("c2", "n1", "SET k1 b NX", None, sent=60, did=False, reply=None)) is None
    lost = waits(4000).request("c2", "n1", "SET k1 b NX", 60, 61, did=False)
    lost.requests[-1]["to_client_ns"] = None
    assert longest(lost) is None
    # It went on, so it no longer waits for that; or it knows that it will not come.
    assert longest(lost.request("c2", "n1", "SET k1 b NX", 70, 71, did=False, reply="null")) == 4000 - FREE


def test_a_call_that_never_ended_counts_until_its_client_was_cut_off() -> None:
    history = freed().op("c2", "acquire", "fail", 1, 10, 40)
    history.request("c2", "n1", "BLPOP k1:wake 200", 60, None, did=False)
    history.ends.append(ClientEnd("c2", 1, "cut-off", ms(99_000), "acquiring"))
    (example,) = only(history).examples
    assert (example["at_ms"], example["for_ms"], example["waited_since_ms"]) == (
        FREE,
        80_000 - FREE,
        pytest.approx(59.9),
    )


def test_the_key_of_such_a_call_is_that_of_its_requests() -> None:
    def cut_off(*names: str) -> History:
        history = freed().op("c3", "acquire", "fail", 1, 10, 40, key="k12").op("c3", "acquire", "fail", 2, 50, 60)
        for name in names:
            history.request("c2", "n1", f"BLPOP {name}:wake 200", 60, None, did=False)
        history.ends.append(ClientEnd("c2", 1, "cut-off", ms(99_000), "acquiring"))
        return history

    assert longest(cut_off("k1")) == 80_000 - FREE
    assert longest(cut_off("k12")) is None  # of which nothing is known
    assert longest(cut_off()) is None


@pytest.mark.parametrize(("how", "under_way"), [("killed", "acquiring"), ("cut-off", "inside")])
def test_a_client_that_was_killed_or_did_something_else_had_not_waited(how: Any, under_way: str) -> None:
    history = freed().request("c2", "n1", "BLPOP k1:wake 200", 60, None, did=False)
    history.ends.append(ClientEnd("c2", 1, how, ms(99_000), under_way))
    assert longest(history) is None


def test_it_waited_at_least_since_it_was_asked_to_end() -> None:
    history = freed()
    history.timeline.stop_ns = ms(70_000)
    history.ends.append(ClientEnd("c2", 1, "cut-off", ms(99_000), "acquiring"))
    assert longest(history) == 10_000
    history.timeline.stop_ns = None
    assert longest(history) is None


def test_without_the_record_of_the_links_or_of_the_nodes_nothing_is_told() -> None:
    history = waits(5000)
    history.not_recorded.add("n1")
    assert judged(history).figures is None
    history = waits(5000)
    history.wire = False
    assert judged(history).figures is None
    history = waits(5000)
    history.key_events.clear()
    assert check(history.recorded()).figures is None


def test_semaphores_are_not_judged() -> None:
    assert judged(waits(5000, history=freed(workload="semaphore", permits=2))).figures is None


def test_tasks_of_a_process_share_its_links() -> None:
    history = freed(tasks=2).op("c2@2", "acquire", "fail", 1, 50, 5000)
    history.request("c2", "n1", "SET k1 b NX PX 400", 51, 52, reply="null", did=False)
    assert longest(history) == 5000 - FREE
    assert longest(asks(history, 1900, 5000)) is None


def listens(words: str = "BLPOP k1:wake 9", *others: tuple[float, str]) -> tuple[str | None, dict[str, Any]]:
    """The cause, and the example, of a client that listens from 60 on; the words of others, and when."""
    history = waits(5_000).request("c2", "n1", words, 60, connection=777, did=False)
    for at, more in others:
        history.request("c1", "n1", more, at, at + 1, connection=778, did=False)
    judged(history)
    run = history.recorded()
    (finding,) = check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    return told.explanations[0].cause, dict(finding.examples[0])


@pytest.mark.parametrize("words", ["BLPOP k1:wake 9", "SUBSCRIBE k1:wake"])
def test_a_client_that_listens_where_no_request_tells_was_not_notified(words: str) -> None:
    cause, example = listens(words, (101, "RPUSH k1:other free"))
    assert cause == "not notified"
    listened = {"listened": words.split()[0], "to": "k1:wake", "on": "n1", "was_notified": False}
    assert example.items() >= listened.items()


@pytest.mark.parametrize(
    ("at", "words", "cause"),
    [
        (101, "RPUSH k1:wake free", "not woken"),
        (101, "EVAL script 2 k1 k1:wake a", "not woken"),
        (101, "BLPOP k1:wake 9", "not notified"),
        (49, "RPUSH k1:wake free", "not notified"),
        (51, "RPUSH k1:wake free", "not woken"),
        (4_999, "RPUSH k1:wake free", "not woken"),
        (5_001, "RPUSH k1:wake free", "not notified"),
    ],
)
def test_a_request_that_names_the_channel_while_it_waits_may_have_told_it(at: float, words: str, cause: str) -> None:
    assert listens("BLPOP k1:wake 9", (at, words))[0] == cause


@pytest.mark.parametrize("words", ["SUBSCRIBE __keyevent@0__:del", "SUBSCRIBE __keyspace@0__:k1"])
def test_what_the_node_tells_itself_no_request_names(words: str) -> None:
    cause, example = listens(words)
    assert (cause, "listened" in example) == ("not woken", False)


def blocked(
    limit: str = "9",
    *,
    clients: int = 3,
    woken: float = 1500,
    expired: float = 411,
    ttl_ms: int = 400,
    others: float = 60,
) -> History:
    """c1 never gives its key back. c2 is blocked on a list from 60 on, `others` later, until c9 gives the lock back."""
    history = History(ttl_ms=ttl_ms, nodes=1, clients=9).watch("n1").op("c1", "acquire", "info", 1, 8, 12)
    history.request("c1", "n1", "SET k1 a NX PX 400", 10, 11).seen("n1", "set", 11, "a", ttl=400)
    history.seen("n1", "expired", expired)
    for number in range(2, 2 + clients):
        of = f"c{number}"
        history.op(of, "acquire", "fail", 1, 50, woken + 4)
        history.request(of, "n1", f"SET k1 {of} NX PX 400", 51, 52, reply="null", did=False)
        since = 60 if number == 2 else others
        history.request(of, "n1", f"BLPOP k1:wake {limit}", since, woken, did=False)
        history.request(of, "n1", f"SET k1 {of} NX PX 400", woken + 2, woken + 3, reply="null", did=False)
    history.section("c9", woken - 45, woken - 5, asked=woken - 50)
    history.request("c9", "n1", "SET k1 z NX PX 400", woken - 49, woken - 48).seen("n1", "set", woken - 48, "z")
    history.request("c9", "n1", "DEL k1", woken - 3, woken - 2).seen("n1", "deleted", woken - 2)
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(90_000), ms(95_000), ms(99_000)
    return history


@pytest.mark.parametrize("limit", ["9", "0", "2.1"])
def test_clients_that_are_blocked_past_every_lease_are_not_woken_by_an_expiry(limit: str, golden: Golden) -> None:
    history = blocked(limit)
    finding = only(history)
    assert (finding.kind, finding.blame, finding.count) == ("waits-for-free-lock", "lock", 3)
    example = finding.examples[0]
    assert (example["at_ms"], example["for_ms"], example["freed"]) == (411, pytest.approx(1041), "expired")
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "blocked too long"
    if limit == "9":
        golden(told.explanations[0].sentence)


def test_one_that_sleeps_for_a_second_shows_that_no_timer_wakes_the_others() -> None:
    assert longest(blocked(woken=1310, others=400)) == pytest.approx(1310 - 48 - 411)
    assert longest(blocked(woken=1309)) is None
    assert longest(blocked(woken=1310, others=700, expired=800)) is None


@pytest.mark.parametrize(
    "how",
    [
        {"limit": "2"},
        {"limit": "1"},
        {"limit": "soon"},
        {"clients": 2},
        {"expired": 1203},
        {"woken": 1250},
        {"ttl_ms": 1300},
    ],
    ids=str,
)
def test_a_client_may_be_blocked_if(how: Any) -> None:
    """Its time limit is a lease in whole seconds and one more, or less, or unknown; it happened twice; the key was free
    for a moment; the client looks again within a second, or within the lease."""
    assert longest(blocked(**how)) is None


def test_another_one_that_looks_again_may_wake_those_that_are_blocked() -> None:
    history = blocked().op("c5", "acquire", "fail", 1, 50, 1504)
    assert longest(history) is None
    history.request("c5", "n1", "BLPOP k1:wake 1", 60, 1061, reply="null", did=False)
    assert longest(history) is None
    history.requests.pop()
    assert longest(history.request("c5", "n1", "BLPOP k1:wake 9", 60, 1500, did=False)) == pytest.approx(1041)


def test_a_release_that_wakes_no_client_is_no_expiry() -> None:
    history = blocked()
    (expiry,) = [event for event in history.key_events if event.event == "expired"]
    expiry.event = "deleted"
    assert longest(history) is None


@pytest.mark.parametrize(
    "hit",
    [{"nodes": ("n1",)}, {"cut_links": (("c2", "n1"),)}, {"paused_clients": ("c3",)}],
    ids=str,
)
def test_not_if_a_fault_may_have_woken_one_that_is_blocked_or_kept_it(hit: Any) -> None:
    assert longest(blocked().fault("f", 400, 1500, **hit)) is None


C3, C4 = "of-client-3", "of-client-4"
WAITS = (60, "c3", f"RPUSH k1:queue {C3}")
"""The place in the queue of a client that dies at 90."""
BEFORE = ((30, "c5", "RPUSH k1:queue of-client-5"), (35, "c5", "LREM k1:queue 0 of-client-5"))
"""Another client took its place in the queue, and gave it back."""


def queue(
    *did: tuple[float, str, str],
    before: Any = BEFORE,
    script: bool = False,
    how: Any = "killed",
    ttl_ms: int = 400,
    until: float = 3000,
    tasks: int = 1,
) -> History:
    """c2 asks in vain until 3,000, every 300 ms. What clients do to the queue: when, and by which words. `how`: c3 ends
    at 90."""
    history = (
        freed(clients=5, ttl_ms=ttl_ms, tasks=tasks)
        .op("c4", "acquire", "fail", 1, 1, 1900)
        .op("c4", "acquire", "fail", 2, 1901, 3100)
    )
    for at, client, words in (*before, *did):
        _, key, *_ = words.split()
        history.request(client, "n1", f"EVAL {words}" if script else words, at, at + 0.5, reply="1")
        history.seen("n1", "changed", at, key=key).called(words)
    if how is not None:
        first, *others = task_names("c3", tasks)
        history.ends.append(ClientEnd(first, 1, how, ms(90), "acquiring"))
        history.ends += (ClientEnd(other, 1, how, ms(90), "inside") for other in others)
    return asks(waits(until, history=history), 300, until)


def test_a_free_lock_that_waits_for_a_client_that_is_gone_has_less_time(golden: Golden) -> None:
    history = queue(WAITS)
    (example,) = only(history).examples
    run = history.recorded()
    assert (example["for_ms"], example["answers"]) == (3000 - FREE, 9)
    assert example["entry"] == {
        "client": "c3", "node": "n1", "key": "k1:queue", "did": "RPUSH", "at_ms": 60, "died_ms": 90,
    }  # fmt: skip
    (told,) = explain(run, Verdict("violation", "lock", check(run).findings, (), {}), 1)
    assert told.explanations[0].cause == "dead entry"
    golden(told.explanations[0].sentence)


@pytest.mark.parametrize(
    "did",
    [
        (WAITS, (2000, "c4", "LPOP k1:queue")),
        (WAITS, (40, "c4", f"RPUSH k1:queue {C4}"), (500, "c4", "LPOP k1:queue"), (1500, "c2", "LPOP k1:queue")),
        (WAITS, (2000, "c4", f"LREM k1:queue 0 {C3}")),
        (WAITS, (2000, "c4", "LTRIM k1:queue 1 -1")),
        (WAITS, (70, "c4", f"RPUSH k1:queue {C3}")),
        ((60, "c3", f"RPUSH k2:queue {C3}"), (61, "c3", f"LPUSH k1:queue {C3}"), (80, "c3", f"LREM k1:queue 0 {C3}")),
        ((60, "c4", f"RPUSH k1:queue {C4}"),),
    ],
)
def test_an_entry_that_may_be_gone_or_may_be_another_clients_is_none(did: Any) -> None:
    history = queue(*did)
    history.op("c1", "acquire", "fail", 7, 6000, 6001, key="k2")
    assert longest(history) is None


@pytest.mark.parametrize(("ttl_ms", "found"), [(965, 3000 - FREE), (967, None)])
def test_it_has_as_long_as_a_gap_without_a_grant_takes(ttl_ms: int, found: float | None) -> None:
    """Three leases, and not a lease and a second."""
    assert longest(queue(WAITS, ttl_ms=ttl_ms)) == found


def test_the_tasks_of_a_process_die_with_it() -> None:
    assert longest(queue(WAITS, tasks=2)) == 3000 - FREE


def test_a_key_from_which_nothing_was_ever_taken_holds_no_places() -> None:
    assert longest(queue(WAITS, before=BEFORE[:1])) is None


@pytest.mark.parametrize("how", ["finished", "cut-off"])
def test_a_client_that_is_not_gone_may_come_back(how: Any) -> None:
    assert longest(queue(WAITS, how=how)) is None
    assert longest(queue(WAITS, how="died")) == 3000 - FREE


@pytest.mark.parametrize(
    "did",
    [
        ((40, "c4", f"RPUSH k1:queue {C4}"), WAITS, (500, "c4", "LPOP k1:queue")),
        (WAITS, (70, "c4", f"RPUSH k1:queue {C4}"), (500, "c4", f"LREM k1:queue 0 {C4}")),
        (WAITS, (70, "c4", f"LPUSH k1:queue {C4}"), (500, "c4", "LPOP k1:queue")),
        (WAITS, (70, "c4", f"RPUSH k1:queue {C4}"), (500, "c4", "RPOP k1:queue")),
        ((60, "c3", "RPUSH k1:queue 3"), (70, "c4", "RPUSH k1:queue 4")),
    ],
)
def test_an_entry_stays_while_others_take_out_their_own(did: Any) -> None:
    for script in (False, True):
        assert longest(queue(*did, script=script)) == 3000 - FREE


def test_an_entry_of_a_set_stays_while_a_client_takes_out_its_own() -> None:
    did = ((60, "c3", f"ZADD k1:queue 1 {C3}"), (70, "c4", f"ZADD k1:queue 2 {C4}"), (500, "c4", f"ZREM k1:queue {C4}"))
    for script in (False, True):
        assert longest(queue(*did, script=script)) == 3000 - FREE


def test_an_entry_counts_from_the_death_of_its_client_on() -> None:
    late = queue(WAITS)
    late.ends[-1].at_ns = ms(1100)
    assert longest(late) is None


MINE = f"RPUSH k1:queue {C3}"


def given_up(
    *did: Any,
    sent: float = 60,
    answered: float = 700,
    until: float = 3000,
    is_cancelled: bool = True,
    outcome: Literal["info", "fail"] = "info",
    **more: Any,
) -> History:
    """As `queue`, but c3 lives, and its user cancels at 90 the call that took a place in the queue, or that call gives
    up then. What it left may be there until 740. c3 then asks for another key."""
    history = queue((sent, "c3", MINE), *did, how=None, until=until, **more)
    history.op("c3", "acquire", outcome, 1, 55, 90, cancelled=is_cancelled).op(
        "c3", "acquire", "fail", 2, 92, 3050, key="k2"
    )
    return asks(history, answered, 3000, client="c3", since=800)


def test_a_free_lock_that_waits_for_a_cancelled_call_has_less_time(golden: Golden) -> None:
    history = given_up()
    (example,) = only(history).examples
    assert (example["at_ms"], example["for_ms"]) == (740, 3000 - 740)
    assert example["entry"] == {
        "client": "c3", "node": "n1", "key": "k1:queue", "did": "RPUSH", "at_ms": 60, "cancelled_ms": 90,
    }  # fmt: skip
    run = history.recorded()
    (told,) = explain(run, Verdict("violation", "lock", check(run).findings, (), {}), 1)
    assert told.explanations[0].cause == "cancelled entry"
    golden(told.explanations[0].sentence)


def test_a_free_lock_that_waits_for_a_call_that_gave_up_has_less_time(golden: Golden) -> None:
    history = given_up(is_cancelled=False, outcome="fail")
    (example,) = only(history).examples
    assert (example["at_ms"], example["for_ms"], example["entry"]["gave_up_ms"]) == (740, 3000 - 740, 90)
    run = history.recorded()
    (told,) = explain(run, Verdict("violation", "lock", check(run).findings, (), {}), 1)
    assert told.explanations[0].cause == "entry of a refused call"
    golden(told.explanations[0].sentence)


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ({"until": 2740}, 2000),
        ({"until": 2739}, None),
        ({"outcome": "info"}, None),
        ({"sent": 91}, None),
        ({"answered": 1_100}, None),
    ],
    ids=str,
)
def test_an_entry_is_a_refused_calls_only_if_all_is_on_record(how: Any, found: float | None) -> None:
    assert longest(given_up(is_cancelled=False, **{"outcome": "fail"} | how)) == found


@pytest.mark.parametrize(("until", "found"), [(2740, 2000), (2739, None)])
def test_what_a_cancelled_call_left_may_be_there_for_its_ttl_and_a_gap_more(until: float, found: float | None) -> None:
    assert longest(given_up(until=until)) == found


@pytest.mark.parametrize(
    "how",
    [
        {"is_cancelled": False},
        {"before": BEFORE[:1]},
        {"sent": 91},
        {"answered": 1_100},
    ],
    ids=lambda how: next(iter(how)),
)
def test_an_entry_is_a_cancelled_calls_only_if_all_is_on_record(how: Any) -> None:
    assert longest(given_up(**how)) is None


@pytest.mark.parametrize(
    "did", [(2000, "c3", f"LREM k1:queue 0 {C3}"), (2000, "c3", MINE), (2000, "c4", "LPOP k1:queue")]
)
def test_an_entry_that_was_taken_out_or_put_again_is_not_the_cancelled_calls(did: Any) -> None:
    assert longest(given_up(did)) is None


def test_another_entry_of_the_same_client_is_told_from_the_cancelled_calls() -> None:
    later = "of-client-3-later"
    did = (1_000, "c3", f"RPUSH k1:queue {later}"), (1_100, "c3", f"LREM k1:queue 0 {later}")
    assert longest(given_up(*did)) == 3000 - 740
    assert longest(given_up(did[0], (1_100, "c3", f"LREM k1:queue 0 {C3}"))) is None


def test_the_client_of_a_cancelled_call_must_be_able_to_take_its_entry_out() -> None:
    assert longest(given_up().fault("f", 1_500, 1_600, cut_links=(("c3", "n1"),))) is None
    assert longest(given_up().fault("f", 1_500, 1_600, cut_links=(("c5", "n1"),))) == 3000 - 740
    ended = given_up()
    ended.ends.append(ClientEnd("c3", 1, "finished", ms(2_950)))
    assert longest(ended) is None


def subscribed(
    *, times: int = 3, silent: float = 1250, command: str = "SUBSCRIBE", looks_after: float = 0, taken: float = 0
) -> History:
    """Every 3,000 ms c2 looks, is refused, listens, and gives up when it has been silent for so long, or it looks again
    meanwhile. The key is there from the first look on for so long."""
    history = freed()
    for number in range(1, times + 1):
        at = 3_000 * number
        history.op("c2", "acquire", "fail", number, at, at + 4.1 + silent)
        history.request("c2", "n1", "SET k1 b NX PX 400", at + 1, at + 2, reply="null", did=False)
        history.request("c2", "n1", f"{command} k1:free", at + 3, at + 4, did=False)
        if looks_after:
            history.request("c2", "n1", "GET k1", at + looks_after, at + looks_after + 1, did=False)
        if taken:
            history.request("c3", "n1", "SET k1 c NX PX 400", at, at + 0.5).seen("n1", "set", at, "c", ttl=9000)
            history.request("c3", "n1", "DEL k1", at + taken, at + taken + 0.5).seen("n1", "deleted", at + taken)
    return history


def test_a_client_that_subscribes_looks_again_when_a_lease_has_passed(golden: Golden) -> None:
    history = subscribed()
    finding = only(history)
    assert (finding.blame, finding.breaks, finding.count) == ("lock", "liveness", 3)
    golden(finding.text)
    run = history.recorded()
    (told,) = explain(run, Verdict("violation", "lock", check(run).findings, (), {}), 1)
    golden(told.explanations[0].sentence)
    assert told.explanations[0].cause == "not notified"
    assert longest(subscribed(silent=1249.9)) is None


@pytest.mark.parametrize(
    "how", [{"times": 2}, {"command": "BLPOP"}, {"looks_after": 700}, {"taken": 1_005}], ids=lambda how: next(iter(how))
)
def test_a_client_that_subscribes_and_that_is_in_order(how: Any) -> None:
    assert longest(subscribed(**how)) is None


def test_a_fault_may_have_taken_the_wake_up_and_not_the_timer() -> None:
    early = subscribed().fault("f", 2_900, 3_900, cut_links=(("c2", "n1"),))
    assert only(early).count == 3
    late = subscribed().fault("f", 4_000, 5_000, cut_links=(("c2", "n1"),))
    assert only(late).count == 3
    assert longest(subscribed().fault("f", 3_100, 4_200, cut_links=(("c2", "n1"),))) is None


def test_the_lock_must_have_been_free_for_a_while() -> None:
    assert longest(subscribed(taken=1_004.1)) == pytest.approx(250)


def told(
    *,
    times: int = 3,
    sleeps: float = 600,
    message: str = '["message","k1:free","free"]',
    heard: float = 1_000.5,
    taken_again: float = 0,
    key: str = "k1",
) -> History:
    """Every 3,000 ms c3 takes the key for 1,000 ms; c2 looks, is refused, is told of the release, and looks again only
    so much later."""
    history = freed()
    for number in range(1, times + 1):
        at = 3_000 * number
        history.op("c2", "acquire", "fail", number, at + 1, at + 1_010 + sleeps)
        history.request("c3", "n1", "SET k1 c NX PX 9000", at, at + 0.5).seen("n1", "set", at, "c", ttl=9000)
        history.request("c2", "n1", "SET k1 b NX PX 400", at + 2, at + 3, reply="null", did=False)
        history.request("c2", "n1", "SUBSCRIBE k1:free", at + 4, at + 5, did=False, connection=777)
        history.request("c3", "n1", "DEL k1", at + 1_000, at + 1_000.5).seen("n1", "deleted", at + 1_000)
        at_told = {"sent": None, "told": at + heard, "connection": 777, "reply": message, "did": False}
        history.request("c2", "n1", "", None, at + heard - 0.1, **at_told)
        if taken_again:
            again = at + 1_000 + taken_again
            history.request("c1", "n1", f"SET {key} d NX PX 50", again, again).seen("n1", "set", again, "d", key=key)
            history.request("c1", "n1", f"DEL {key}", again + 1, again + 1).seen("n1", "deleted", again + 1, key=key)
    return history


def pushed(*, times: int = 3, sleeps: float = 700, blocks: str = "BRPOP wake 2") -> History:
    """c3's release pushes onto the list on which c2 is blocked, and deletes it."""
    history = freed()
    for number in range(1, times + 1):
        at = 3_000 * number
        history.op("c2", "acquire", "fail", number, at + 1, at + 1_010 + sleeps)
        history.request("c3", "n1", "SET k1 c NX PX 9000", at, at + 0.5).seen("n1", "set", at, "c", ttl=9000)
        history.request("c2", "n1", "SET k1 b NX PX 400", at + 2, at + 3, reply="null", did=False)
        history.request("c2", "n1", blocks, at + 4, at + 1_000 + sleeps, reply="null", did=False, connection=777)
        for event, key, did in (("deleted", "k1", "DEL"), ("set", "wake", "LPUSH"), ("deleted", "wake", "DEL")):
            history.seen("n1", event, at + 1_000, key=key)
            if key == "k1":
                history.request("c3", "n1", "EVAL free 2 k1 wake", at + 999.5, at + 1_000.5)
            history.by(history.key_events[-1], len(history.requests) - 1)
            history.key_events[-1].command = did
    return history


def test_a_push_onto_a_list_that_is_deleted_at_once_wakes_no_client() -> None:
    history = pushed()
    finding = only(history)
    assert (finding.kind, finding.blame, finding.count) == ("waits-for-free-lock", "lock", 3)
    (one,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert one.explanations[0].cause == "not notified"
    assert "c3 had pushed onto it" in one.explanations[0].sentence


@pytest.mark.parametrize("how", [{"times": 2}, {"sleeps": 400}, {"blocks": "BRPOP another 2"}], ids=str)
def test_no_push_was_lost_if(how: Any) -> None:
    """It happened twice; the client looked again soon; it was blocked on another list."""
    assert longest(pushed(**how)) is None


def test_a_client_that_was_told_of_the_release_and_sleeps_on(golden: Golden) -> None:
    history = told()
    finding = only(history)
    assert (finding.kind, finding.blame, finding.count) == ("waits-for-free-lock", "lock", 3)
    assert finding.examples[0]["told_ms"] == 4_000.5
    run = history.recorded()
    (one,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert one.explanations[0].cause == "not woken"
    golden(one.explanations[0].sentence)


@pytest.mark.parametrize(
    "how",
    [
        {"times": 2},
        {"sleeps": 480},
        {"message": '["message","k2:free","free"]'},
        {"message": '["subscribe","k1:free",1]', "heard": 400},
        {"heard": 1_254, "sleeps": 900},
        {"taken_again": 200},
        {"taken_again": 200, "key": "k1:queue"},
    ],
    ids=str,
)
def test_a_client_that_was_told_is_in_order_if(how: Any) -> None:
    """It happened twice; it looks within half a second; it was told of another key, or before, or later; another client
    took the key; the lock keeps a queue."""
    assert longest(told(**how)) is None


def test_a_message_that_a_fault_delays_or_a_client_that_is_slow_is_not_the_locks() -> None:
    assert longest(told().fault("f", 3_900, 4_100, cut_links=(("c2", "n1"),))) is None
    history = told()
    history.kept_waiting["c2"] = [(ms(4_100), ms(4_300))]
    assert longest(history) is None


def overtaken(
    *,
    times: int = 3,
    gone: float = 400,
    invoked: float = 20,
    sleeps: float = 1_310,
    ends: Literal["expired", "deleted"] = "expired",
    listens: Literal["each time", "before it asks", "once"] = "each time",
    since: float = 30,
    leaves: bool = False,
) -> History:
    """Every 3,000 ms c3 sets the key, which is `gone` so much later. c2 looks, is refused, listens, and `sleeps` until
    then. c1 asks for the key 20 ms after it was gone, is let in 5 ms later, and stays for a second."""
    history = freed()
    if listens == "once":
        history.request("c2", "n1", "SUBSCRIBE k1:free", since, since + 1, did=False, connection=777)
    for number in range(1, times + 1):
        at = 3_000.0 * number
        history.request("c3", "n1", "SET k1 c NX PX 400", at, at + 0.5).seen("n1", "set", at, "c", ttl=400)
        history.op("c2", "acquire", "fail", number, at + 1, at + sleeps)
        if listens == "before it asks":
            history.request("c2", "n1", "SUBSCRIBE k1:free", at + 2, at + 3, did=False, connection=777)
        history.request("c2", "n1", "SET k1 b NX PX 400", at + 4, at + 5, reply="null", did=False)
        if listens == "each time":
            history.request("c2", "n1", "SUBSCRIBE k1:free", at + 6, at + 7, did=False, connection=777)
        if leaves:
            history.request("c2", "n1", "UNSUBSCRIBE k1:free", at + 8, at + 9, did=False, connection=777)
        at += gone
        if ends == "deleted":
            history.request("c3", "n1", "DEL k1", at - 1, at - 0.5)
        history.seen("n1", ends, at, since=at - 1)
        history.section("c1", at + 25, at + 1_025, number=number + 1, asked=at + invoked, deadline=at + 1_100)
        history.request("c1", "n1", "SET k1 a NX PX 9000", at + 22, at + 23).seen("n1", "set", at + 22.5, "a")
        history.request("c1", "n1", "DEL k1", at + 1_025.5, at + 1_026).seen("n1", "deleted", at + 1_026)
    return history


def test_a_client_that_subscribes_and_sleeps_on_while_a_newcomer_gets_in_did_not_look_again() -> None:
    history = overtaken()
    finding = only(history)
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "waits-for-free-lock",
        "lock",
        "liveness",
        3,
    )
    assert finding.examples[0].items() >= {"client": "c2", "at_ms": 3_400, "for_ms": 25, "freed": "expired"}.items()
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "not notified"


@pytest.mark.parametrize(
    "how", [{"times": 2}, {"invoked": 0}, {"invoked": -1}, {"ends": "deleted"}, {"leaves": True}], ids=str
)
def test_a_client_that_sleeps_on_is_in_order_if(how: Any) -> None:
    """It happened twice; the other client had asked before the key expired; a request deleted the key, so that there
    was a message to lose; the client was not subscribed any more."""
    assert longest(overtaken(**how)) is None


@pytest.mark.parametrize(
    ("began", "hit", "number"),
    [
        (3_390, {"cut_links": (("c2", "n1"),)}, None),
        (3_390, {"paused_clients": ("c2",)}, None),
        (3_390, {"nodes": ("n1",)}, None),
        (3_390, {"paused_clients": ("c3",)}, 3),
        (3_300, {"cut_links": (("c2", "n1"),)}, 3),
    ],
    ids=["its link", "itself", "the node", "another client", "before"],
)
def test_a_client_that_a_fault_kept_from_looking_did_not_sleep(
    began: float, hit: dict[str, Any], number: int | None
) -> None:
    """The key expires at 3,400, the first of three times."""
    history = overtaken()
    history.fault("f1", began, began + 30, **hit)
    findings = check(history.recorded()).findings
    assert [finding.count for finding in findings] == ([] if number is None else [number])


@pytest.mark.parametrize(("sleeps", "found"), [(1_326, 25), (1_324, None)])
def test_a_client_that_wakes_up_before_the_newcomer_is_in_may_have_looked_too_late(
    sleeps: float, found: float | None
) -> None:
    assert longest(overtaken(gone=1_300, sleeps=sleeps)) == (found and pytest.approx(found))


@pytest.mark.parametrize("listens", ["before it asks", "once"])
def test_a_subscription_counts_while_it_is_open_whatever_the_client_sent_last(listens: Any) -> None:
    assert longest(overtaken(listens=listens)) == pytest.approx(25)
    assert longest(overtaken(listens="once", since=5_000)) is None, "it subscribed after the first of three times"
    closed = overtaken(listens="once")
    closed.closed[777] = (2_000,)
    assert longest(closed) is None

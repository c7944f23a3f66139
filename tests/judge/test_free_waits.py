"""Clients that wait beside a free lock."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.history import ClientEnd
from harness.checkers.explained import explain
from harness.checkers.free_waits import Figures, check
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.free_waits import FREE, asks, freed, judged, longest, only, waits
from tests.judge.histories import History, ms


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


@pytest.mark.parametrize(("longest_ms", "cause"), [(1_999, "nothing asked"), (2_001, "not woken")])
def test_a_client_whose_calls_fail_without_a_request_did_not_sleep(
    longest_ms: float, cause: str, golden: Golden
) -> None:
    history = freed().op("c2", "acquire", "fail", 1, 50, 60).op("c2", "acquire", "info", 1, 4_000, 4_000 + longest_ms)
    for at in range(200, 4_000, 100):
        history.op("c2", "acquire", "info", 1, at, at + 1, error="the connection is lost")
    history.request("c2", "n1", "SET k1 b NX PX 400", 51, 52, reply="null", did=False)
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (only(history),), (), {}), 1)
    assert told.explanations[0].cause == cause
    golden(told.explanations[0].sentence)


def test_of_a_sorted_set_it_is_known_when_no_client_was_inside(golden: Golden) -> None:
    history = History(ttl_ms=400, nodes=1, clients=3).watch("n1").section("c1", 20, 100, asked=8)
    for at, words, events in (
        (10, "ZADD k1 9 a", ("changed",)),
        (100.5, "ZREM k1 a", ("changed", "deleted")),
        (200, "ZADD k1 9 z", ("changed",)),
    ):
        history.request("c1" if at < 200 else "c3", "n1", words, at, at + 0.5)
        for event in events:
            history.seen("n1", event, at + 0.5, since=at - 1).called(words)
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(90_000), ms(95_000), ms(99_000)
    finding = only(waits(5_000, history=history))
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    golden(told.explanations[0].sentence)


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
    history.ends.append(ClientEnd("c2", 1, "cut-off", ms(99_000), "acquiring", since_ns=ms(59.9)))
    (example,) = only(history).examples
    assert (example["at_ms"], example["for_ms"], example["waited_since_ms"]) == (
        FREE,
        80_000 - FREE,
        pytest.approx(59.9),
    )
    history.timeline.stop_ns = None
    assert longest(history) is None


def test_the_key_of_such_a_call_is_that_of_its_requests() -> None:
    def cut_off(*names: str) -> History:
        history = freed().op("c3", "acquire", "fail", 1, 10, 40, key="k12").op("c3", "acquire", "fail", 2, 50, 60)
        for name in names:
            history.request("c2", "n1", f"BLPOP {name}:wake 200", 60, None, did=False)
        history.ends.append(ClientEnd("c2", 1, "cut-off", ms(99_000), "acquiring", since_ns=ms(59.9)))
        return history

    assert longest(cut_off("k1")) == 80_000 - FREE
    assert longest(cut_off("k12")) is None  # of which nothing is known
    assert longest(cut_off()) is None


@pytest.mark.parametrize(("how", "under_way"), [("killed", "acquiring"), ("cut-off", "inside")])
def test_a_client_that_was_killed_or_did_something_else_had_not_waited(how: Any, under_way: str) -> None:
    history = freed().request("c2", "n1", "BLPOP k1:wake 200", 60, None, did=False)
    history.ends.append(ClientEnd("c2", 1, how, ms(99_000), under_way, since_ns=ms(59.9)))
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


def between_faults(*spans: tuple[float, float], every: float = 200, until: float = 9_000, **hit: Any) -> History:
    """c2 asks on and on beside the free lock, while faults come and go."""
    history = asks(waits(until), every, until)
    for number, (began, healed) in enumerate(spans):
        history.fault(f"f{number}", began, healed, **(hit or {"nodes": ("n1",)}))
    return history


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (between_faults((3_000, 4_000), (5_000, 6_000)), 9_000 - FREE),
        (between_faults((3_000, 4_000), (5_000, 6_000), until=8_101), None),
        (between_faults((3_000, 4_000), (4_390, 6_000)), None),
        (between_faults((3_000, 3_400), (3_790, 4_190), until=7_000), None),
        (between_faults((3_000, 4_000), (5_000, 6_000), every=300), 9_000 - FREE),
        (between_faults((3_000, 4_000), (5_000, 6_000), every=1_100), None),
        (between_faults((3_000, 4_000), (5_000, 6_000), paused_clients=("c3",)), 9_000 - FREE),
    ],
    ids=[
        *("six seconds in all", "a little less", "a part is too short", "parts that are too short"),
        *("it was answered in each", "too few answers in one", "no fault in the way"),
    ],
)
def test_what_a_client_asks_in_vain_between_faults_adds_up(made: History, found: float | None) -> None:
    assert longest(made) == found


def test_the_parts_without_a_fault_are_told(golden: Golden) -> None:
    made = between_faults((3_000, 4_000), (5_000, 6_000))
    finding = only(made)
    assert finding.examples[0].items() >= {"calm_ms": 2_898 + 1_000 + 3_000}.items()
    golden(finding.text)
    (told,) = explain(made.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "not let in"
    golden(told.explanations[0].sentence)


def test_the_key_must_have_been_free_all_the_while() -> None:
    made = between_faults((3_000, 4_000), (5_000, 6_000))
    made.request("c3", "n1", "SET k1 c NX PX 400", 3_500, 3_501).seen("n1", "set", 3_501, "c", since=3_500, ttl=400)
    made.request("c3", "n1", "DEL k1", 3_600, 3_601).seen("n1", "deleted", 3_601, since=3_600)
    assert longest(made) is None


def queued(*, removed: float = 80, again: str = "", by: str = "c1", began: float = 50) -> History:
    """c2 has put an entry into a queue and sleeps; another client takes the entry out."""
    history = waits(5_000, since=began)
    history.request("c2", "n1", "ZADD k1:queue 1 entry-of-c2", 60, 61).seen("n1", "set", 61, since=59, key="k1:queue")
    history.called("ZADD k1:queue 1 entry-of-c2")
    if again:
        history.request(again, "n1", "ZINCRBY k1:queue -1 entry-of-c2", 65, 66)
        history.seen("n1", "changed", 66, since=64, key="k1:queue").called("ZINCRBY k1:queue -1 entry-of-c2")
    history.request(by, "n1", "ZREM k1:queue entry-of-c2", removed - 1, removed)
    for event in ("changed", "deleted"):
        history.seen("n1", event, removed, since=removed - 2, key="k1:queue").called("ZREM k1:queue entry-of-c2")
    history.key_events.sort(key=lambda event: event.at_ns)
    return history


def cause_of(history: History) -> tuple[str, str]:
    finding = only(history)
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    return str(told.explanations[0].cause), told.explanations[0].sentence


def test_a_client_is_not_woken_because_its_entry_was_taken_out(golden: Golden) -> None:
    cause, sentence = cause_of(queued())
    assert cause == "entry removed"
    golden(sentence)


@pytest.mark.parametrize(
    ("how", "cause"),
    [({"again": "c1"}, "entry removed"), ({"by": "c2"}, "not woken"), ({"removed": 110}, "not woken")],
    ids=["another client had moved it", "it took it out itself", "when the lock was free"],
)
def test_whose_entry_was_taken_out_and_when(how: Any, cause: str) -> None:
    assert cause_of(queued(**how))[0] == cause

"""Does the lock come free, soon, and for everybody?"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.checkers import starvation
from harness.checkers.explained import explain
from harness.checkers.liveness import check
from harness.history.waits import names_of
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms

CUT = (("c1", "n1"), ("c1", "n2"), ("c2", "n1"), ("c2", "n2"))


def figures(history: History) -> Any:
    return check(history.recorded()).figures


moments = st.integers(1, 1099)


@given(st.sets(moments, min_size=1), st.tuples(moments, moments))
def test_no_figure_contradicts_a_larger_one(starts: set[int], cut: tuple[int, int]) -> None:
    history = History(nodes=3).fault("f1", min(cut), max(cut) + 2, cut_links=CUT)
    for number, at in enumerate(sorted(starts), 1):
        history.section("c1", at, at + 0.5, number=number, asked=at - 0.25)
    found = figures(history)
    wait = found.wait_ms
    assert 0 <= wait.p50 <= wait.p90 <= wait.p99 <= wait.max
    assert (found.longest_gap_ms or 0) <= found.longest_ungranted_ms
    assert (found.recovery_first_ms or 0) <= (found.recovery_all_ms or math.inf)
    assert 0 < found.jain <= 1


def test_waiting_is_from_the_first_try_to_the_grant() -> None:
    wait = figures(
        History().op("c1", "acquire", "fail", 1, 10, 12).section("c1", 40, 50).section("c2", 60, 70, asked=50)
    ).wait_ms
    assert (wait.count, wait.p50, wait.p90, wait.p99, wait.max) == (2, 20, 28, pytest.approx(29.8), 30)


def busy(until: float = 1100, gap: tuple[float, float] = (0, 0)) -> History:
    history = History(nodes=3)
    for number, at in enumerate(range(0, int(until), 50), 1):
        if not gap[0] < at < gap[1]:
            history.section(f"c{1 + number % 2}", at, at + 10, number=number)
    return history


def test_the_longest_time_without_a_grant_is_found() -> None:
    found = figures(busy(gap=(300, 700)))
    assert (found.longest_gap_ms, found.longest_gap_at_ms) == (400, 300)


def test_time_in_which_nobody_could_reach_a_majority_is_not_held_against_the_lock() -> None:
    assert figures(busy(gap=(300, 700)).fault("f1", 320, 680, cut_links=CUT)).longest_gap_ms == 50


def test_one_client_with_a_majority_in_reach_is_enough() -> None:
    assert figures(busy(gap=(300, 700)).fault("f1", 320, 680, cut_links=CUT[:2])).longest_gap_ms == 400
    assert figures(busy(gap=(300, 700)).fault("f1", 320, 680, cut_links=CUT[1:])).longest_gap_ms == 400


@pytest.mark.parametrize(
    "hit",
    [
        {"nodes": ("n1", "n2")},
        {"slow_links": CUT},
        {"paused_clients": ("c1", "c2")},
        {"killed_clients": ("c1",), "paused_clients": ("c2",)},
        {"nodes": ("n1",), "cut_links": (("c1", "n2"), ("c2", "n3"))},
    ],
)
def test_whatever_keeps_everyone_from_a_majority_excuses_the_lock(hit: dict[str, Any]) -> None:
    assert figures(busy(gap=(300, 700)).fault("f1", 320, 680, **hit)).longest_gap_ms == 50


def test_a_minority_of_dead_nodes_is_no_excuse() -> None:
    assert figures(busy(gap=(300, 700)).fault("f1", 320, 680, nodes=("n1",))).longest_gap_ms == 400


def test_recovery_is_from_the_heal_to_the_first_grant_and_to_everybody_s() -> None:
    found = figures(History().section("c1", 990, 1010).section("c1", 1020, 1030, number=2).section("c2", 1050, 1060))
    assert (found.recovery_first_ms, found.recovery_all_ms) == (20, 50)


def test_not_everybody_recovered_if_one_that_works_got_nothing() -> None:
    history = History().section("c1", 1020, 1030).section("c2", 10, 20).op("c2", "acquire", "fail", 2, 1030, 1090)
    found = figures(history)
    assert (found.recovery_first_ms, found.recovery_all_ms) == (20, None)


def test_a_client_that_was_dead_by_then_need_not_recover() -> None:
    history = History().section("c1", 1020, 1030).section("c2", 10, 20).end("c2", "killed", 30)
    assert figures(history).recovery_all_ms == 20


@pytest.mark.parametrize(("clients", "tasks", "blame"), [(16, 1, "lock"), (17, 1, "undecided"), (9, 2, "undecided")])
def test_a_crowd_that_does_not_recover_may_keep_itself_out(clients: int, tasks: int, blame: str) -> None:
    history = History(ttl_ms=100, clients=clients, tasks=tasks).section("c1", 10, 20)
    history.op("c1", "acquire", "fail", 2, 1100, 1110)
    history.timeline.stop_ns = ms(1200)
    (finding,) = check(history.recorded()).findings
    assert (finding.kind, finding.blame) == ("no-recovery", blame)
    assert finding.breaks == ("liveness" if blame == "lock" else None)


def test_no_grant_after_the_heal_is_reported_once_there_was_time_for_one(golden: Golden) -> None:
    history = History(ttl_ms=100).section("c1", 10, 20).op("c1", "acquire", "fail", 2, 1100, 1150)
    history.timeline.stop_ns = ms(1199)
    assert check(history.recorded()).findings == ()
    history.timeline.stop_ns = ms(1200)
    (finding,) = check(history.recorded()).findings
    assert (finding.kind, finding.blame, finding.breaks) == ("no-recovery", "lock", "liveness")
    golden(finding.text)
    assert check(history.section("c2", 1100, 1110).recorded()).findings == ()


def test_what_is_gone_may_be_kept_for_as_long_as_a_session_lasts() -> None:
    history = History(ttl_ms=100).section("c1", 10, 20, deadline=None).op("c1", "acquire", "fail", 2, 1100, 1150)
    history.request("c1", "n1", "CONNECT 0x0 400", 1, 2, reply='["0x2a",400]', did=False)
    history.timeline.stop_ns = ms(1799)
    assert check(history.recorded()).findings == ()
    history.timeline.stop_ns = ms(1800)
    assert [finding.kind for finding in check(history.recorded()).findings] == ["no-recovery"]


def mutex(times: int = 3, *, frees: bool = False, ttl: int | None = None, asks: str = "GETSET m 1") -> History:
    """Acquires of c1 set m and delete it again, so often; then one leaves it, and c2 asks for it in vain."""
    history = History(ttl_ms=100, nodes=1).watch("n1").section("c1", 10, 20)
    history.timeline.stop_ns = ms(1200)
    for number in range(times + 1):
        at = 100 + 20 * number
        history.op("c1", "acquire", "fail", 2, at, at + 15)
        history.request("c1", "n1", "SET m 1", at + 2, at + 3).seen(
            "n1", "set", at + 3, "1", since=at + 1, key="m", ttl=ttl
        )
        if frees or number < times:
            history.request("c1", "n1", "DEL m", at + 7, at + 8).seen("n1", "deleted", at + 8, since=at + 6, key="m")
    history.op("c2", "acquire", "fail", 1, 1_050, 1_150).request("c2", "n1", asks, 1_060, 1_061, did=False)
    return history.seen("n1", "blind", 1_300)


@pytest.mark.parametrize(
    ("history", "cause"),
    [
        (mutex(), "left mutex"),
        (mutex(2), None),
        (mutex(frees=True), None),
        (mutex(ttl=100), None),
        (mutex(asks="GETSET another 1"), None),
    ],
    ids=["left", "hardly ever freed", "freed", "it expires", "no other client asked for it"],
)
def test_a_mutex_that_a_call_left_is_why_no_client_gets_in(history: History, cause: str | None) -> None:
    run = history.recorded()
    (finding,) = (one for one in check(run).findings if one.kind == "no-recovery")
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert [one.cause for one in told.explanations] == [cause] * (cause is not None)
    assert all("c1 had set m on n1" in one.sentence for one in told.explanations)


def field(
    *, ttl: int | None = None, gone: bool = False, refused: bool = False, asks: str = "HSETNX locks lock.k1 1"
) -> History:
    """c1 sets its field in a hash, enters, and is killed. c2 asks for the field in vain."""
    history = History(ttl_ms=100, nodes=1).watch("n1")
    if refused:
        history.op("c1", "acquire", "fail", 1, 5, 12)
    else:
        history.section("c1", 10, None, asked=5).end("c1", "killed", 20)
    history.timeline.stop_ns = ms(1200)
    history.request("c1", "n1", "HSETNX locks lock.k1 1", 7, 8, reply="1")
    history.seen("n1", "set", 8, "lock.k1", since=6, key="locks", ttl=ttl, is_hash=True)
    if gone:
        history.request("c2", "n1", "HDEL locks lock.k1", 30, 31, reply="1").seen(
            "n1", "changed", 31, key="locks", since=29
        )
    history.op("c2", "acquire", "fail", 1, 1_050, 1_150).request("c2", "n1", asks, 1_060, 1_061, did=False, reply="0")
    return history.seen("n1", "blind", 1_300)


@pytest.mark.parametrize(
    ("history", "cause"),
    [
        (field(), "no expiry"),
        (field(ttl=5_000), None),
        (field(gone=True), None),
        (field(refused=True), None),
        (field(asks="HSETNX locks lock.k2 1"), None),
    ],
    ids=["left", "it expires", "it is gone", "its client had no lock", "no other client asked for it"],
)
def test_a_field_that_a_client_left_is_why_no_client_gets_in(history: History, cause: str | None) -> None:
    run = history.recorded()
    (finding,) = (one for one in check(run).findings if one.kind == "no-recovery")
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert [one.cause for one in told.explanations] == [cause] * (cause is not None)


def permits(*, value: str = "2", frees: bool = False, stays: bool = False, more: str = "") -> History:
    """A semaphore of two permits: c1 and c3 use one each and give it back. Between these c1 takes one and has its
    release cancelled, c2 is killed inside, and c3 asks in vain. `value`: of the count at last. `frees`: c3's release
    lowers it once more. `stays`: c2 lives on, and is inside. `more`: another command."""
    history = History(workload="semaphore", permits=2, ttl_ms=100, nodes=1, clients=4).watch("n1")
    history.timeline.stop_ns = ms(1_250)

    def does(client: str, words: str, at: float, event: Any, value: str | None) -> None:
        history.request(client, "n1", words, at, at + 1)
        history.seen("n1", event, at + 1, value, since=at - 1, key="k1:count", ttl=9_000)

    history.op("c1", "acquire", "ok", 1, 8, 12, validity_ms=90.0)
    does("c1", "INCR k1:count", 9, "set", None)
    history.op("c1", "release", "ok", 1, 20, 25)
    does("c1", "DECR k1:count", 21, "changed", "0")
    history.op("c3", "acquire", "ok", 1, 94, 96, validity_ms=90.0)
    does("c3", "INCR k1:count", 95, "changed", "1")
    history.op("c1", "acquire", "ok", 2, 98, 104, validity_ms=90.0)
    does("c1", "INCR k1:count", 100, "changed", "2")
    history.op("c3", "release", "ok", 1, 108, 112)
    does("c3", "DECR k1:count", 110, "changed", "1")
    history.op("c1", "release", "info", 2, 120, 125, cancelled=True, error="CancelledCallError")
    if frees:
        history.op("c3", "release", "ok", 1, 126, 129)
        does("c3", "DECR k1:count", 127, "changed", "0")
    history.op("c2", "acquire", "ok", 1, 148, 154, validity_ms=90.0)
    does("c2", "INCR k1:count", 150, "changed", value)
    if more:
        does("c2", more, 156, "changed", value)
    if stays:
        history.op("c2", "release", "info", 1, 1_200, 1_201)
    else:
        history.end("c2", "killed", 170)
    for at in (1_050, 1_150):
        history.op("c3", "acquire", "fail", 2, at, at + 50)
    return history.seen("n1", "blind", 1_300)


@pytest.mark.parametrize(
    ("history", "cause"),
    [
        (permits(), "never given back"),
        (permits(value="3"), None),
        (permits(frees=True), None),
        (permits(more="APPEND k1:count 0"), None),
        (permits(stays=True), None),
    ],
    ids=["kept", "the count is another", "another client gave one back", "another command changed it", "still inside"],
)
def test_permits_that_calls_kept_are_why_no_client_gets_in(history: History, cause: str | None, golden: Golden) -> None:
    run = history.recorded()
    (finding,) = (one for one in check(run).findings if one.kind == "no-recovery")
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert [one.cause for one in told.explanations] == [cause] * (cause is not None)
    for one in told.explanations:
        golden(one.sentence)


def test_permits_that_calls_kept_are_why_no_client_gets_in_while_others_are_out(golden: Golden) -> None:
    """The same of a time before everything was healed."""
    run = permits().op("c3", "acquire", "fail", 3, 1_201, 4_000).recorded()
    (finding,) = starvation.check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    (one,) = told.explanations
    assert (finding.kind, finding.blame, one.cause) == ("unavailable-while-free", "lock", "never given back")
    golden(finding.text)
    golden(one.sentence)


@pytest.mark.parametrize("given", [False, True])
def test_a_lock_that_is_a_count_may_stay_taken(given: bool, golden: Golden) -> None:
    """c2 was killed inside, or had given its own back before."""
    history = History(ttl_ms=100, nodes=1, clients=3).watch("n1")
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(8_000), ms(8_500), ms(9_000)
    steps = [("c1", "acquire", "INCR", 10, "changed", "1"), ("c1", "release", "DECR", 20, "changed", "0")]
    steps += [("c2", "acquire", "INCR", 30, "changed", "1")]
    steps += [("c2", "release", "DECR", 40, "changed", "0")] * given
    for client, f, command, at, event, value in steps:
        history.op(client, f, "ok", 1, at - 2, at + 2, **({"validity_ms": 90.0} if f == "acquire" else {}))
        history.request(client, "n1", f"{command} k1", at, at + 1, reply=value)
        history.seen("n1", event, at + 1, value, since=at - 1, ttl=9_000)
    history.end("c2", "killed", 50).op("c3", "acquire", "fail", 1, 60, 4_000)
    history.request("c3", "n1", "GET k1", 70, 71, did=False, reply='"1"').seen("n1", "blind", 8_900)
    run = history.recorded()
    (finding,) = starvation.check(run).findings
    assert finding.blame == ("undecided" if given else "lock")
    golden(finding.text)
    assert names_of(run, "k1") == set(), "it is not free when its count is not there"


def test_the_longest_time_with_a_majority_in_reach_is_what_it_had(golden: Golden) -> None:
    history = History(ttl_ms=100).section("c1", 10, 20).op("c1", "acquire", "fail", 2, 1100, 1150)
    history.fault("f", 1250, 1300, nodes=("n1", "n2"))
    history.timeline.stop_ns = ms(1400)
    (finding,) = check(history.recorded()).findings
    golden(finding.text)


@pytest.mark.parametrize(("done", "found"), [(999, 0), (1000, 1)])
def test_a_lock_that_nobody_asked_for_after_the_heal_need_not_recover(done: float, found: int) -> None:
    history = History(ttl_ms=100).section("c1", 10, 20).op("c1", "acquire", "fail", 2, 900, done)
    history.timeline.stop_ns = ms(1200)
    assert len(check(history.recorded()).findings) == found


@pytest.mark.parametrize(
    ("under_way", "until", "found"),
    [("acquiring", 1300, 1), ("resting", 1300, 0), ("acquiring", 1000, 1), ("acquiring", 999, 0)],
)
def test_an_acquire_that_never_returned_was_a_try(under_way: str, until: float, found: int) -> None:
    history = History(ttl_ms=100).section("c1", 10, 20).end("c1", "cut-off", until)
    history.ends[-1].under_way = under_way
    history.timeline.stop_ns = ms(1200)
    assert len(check(history.recorded()).findings) == found


@pytest.mark.parametrize(
    ("end", "deadline", "found"), [(1099, 1250, 1), (1101, 1250, 0), (1250, 1099, 1), (1250, 1101, 0)]
)
def test_a_holder_that_was_let_in_before_the_heal_has_its_time_first(end: float, deadline: float, found: int) -> None:
    history = History(ttl_ms=100).section("c1", 990, end, deadline=deadline)
    history.op("c2", "acquire", "fail", 1, 1260, 1290)
    history.timeline.stop_ns = ms(1299.5)
    findings = check(history.recorded()).findings
    assert len(findings) == found
    assert all((finding.kind, "last holder" in finding.text) == ("no-recovery", True) for finding in findings)


def test_who_never_got_in_is_named_and_makes_it_unfair() -> None:
    history = History(clients=4).section("c1", 0, 10).section("c2", 20, 30).op("c3", "acquire", "fail", 1, 0, 30)
    found = figures(history)
    assert found.never_acquired == ("c3", "c4")
    assert found.jain == pytest.approx(2 / 4)


def test_slow_acquires_and_leases_that_arrive_over_are_counted() -> None:
    """What takes just the TTL, or arrives as the validity ends, is neither."""
    history = History(ttl_ms=100).section("c1", 150, 160, asked=10, deadline=120)
    history.section("c2", 200, 210, asked=100).section("c2", 250, 260, number=2, deadline=250)
    found = figures(history)
    assert (found.acquires_longer_than_ttl, found.late_grants) == (1, 1)


def test_of_several_times_with_a_majority_the_longest_gap_in_any_counts() -> None:
    """Apart from the gaps, a grant every 50 ms; the longer gap lies in the second of three windows."""
    history = busy(gap=(300, 700)).fault("f1", 100, 140, cut_links=CUT).fault("f2", 800, 840, cut_links=CUT)
    assert (figures(history).longest_gap_ms, figures(history).longest_gap_at_ms) == (400, 300)


def test_a_client_that_has_ended_reaches_nobody() -> None:
    only_c2_is_cut = (("c2", "n1"), ("c2", "n2"))
    history = busy(gap=(300, 700)).fault("f1", 320, 680, cut_links=only_c2_is_cut)
    assert figures(history).longest_gap_ms == 400
    assert figures(history.end("c1", "killed", 310).end("c2", "finished", 1090)).longest_gap_ms == 50


def test_the_longest_time_without_a_grant_is_told_whatever_was_in_reach_too(golden: Golden) -> None:
    found = figures(busy(gap=(300, 700)).fault("f1", 320, 680, cut_links=CUT))
    assert found.longest_gap_ms == 50
    assert (found.longest_ungranted_ms, found.longest_ungranted_at_ms) == (400, 300)
    (row,) = [row.text for row in found.rows() if row.label == "gap"]
    golden(row)


def test_of_two_equal_gaps_the_first_is_shown() -> None:
    history = History().fault("f1", 520, 530, cut_links=CUT)
    for number, at in enumerate((0, 100, 200, 300, 500, 550, 650, 750, 950, 1000), 1):
        history.section("c1", at, at + 10, number=number)
    found = figures(history)
    assert (found.longest_gap_ms, found.longest_gap_at_ms) == (200, 300)


def test_a_run_that_was_cut_short_is_looked_at_until_the_last_thing_on_record() -> None:
    history = History().section("c1", 0, 10).op("c1", "acquire", "fail", 2, 400, 500).section("c2", 100, 110)
    history.timeline.stop_ns = None
    assert (figures(history).longest_gap_ms, figures(history).longest_gap_at_ms) == (400, 100)


def test_a_grant_in_the_moment_of_the_heal_is_the_first_recovery() -> None:
    history = History().section("c1", 1000, 1010).section("c1", 1030, 1040, number=2).section("c2", 1020, 1030)
    found = figures(history)
    assert (found.recovery_first_ms, found.recovery_all_ms) == (0, 20)


def test_a_client_that_was_there_at_the_heal_must_recover_too() -> None:
    def all_ms(history: History) -> object:
        return figures(history.section("c1", 1020, 1030).section("c2", 10, 20)).recovery_all_ms

    assert all_ms(History().end("c2", "killed", 999)) == 20
    assert all_ms(History().end("c2", "killed", 1000)) is None
    assert all_ms(History().end("c2", "killed", 999, life=1).end("c2", "finished", 1100, life=2)) is None
    assert all_ms(History().end("c2", "killed", 30).op("c2", "acquire", "fail", 2, 990, 1000, life=2)) is None


def test_without_a_heal_or_a_stop_nobody_is_accused_of_no_recovery() -> None:
    for moment in ("healed_ns", "stop_ns"):
        history = History().section("c1", 10, 20)
        history.timeline.stop_ns = ms(5000)
        setattr(history.timeline, moment, None)
        assert check(history.recorded()).findings == ()


def flag(*, taken: int = 3, answered: str = "k1", asked: float = 1_060) -> History:
    """Refused acquires of c1 put a flag into a set, and take it out again, but for the last time. Then the node is out
    of sight. What it answers c2 at the end tells that the flag is still there."""
    history = History(ttl_ms=100, nodes=1).watch("n1").section("c1", 10, 20, asked=5)
    history.timeline.stop_ns = ms(1200)
    for number in range(taken + 1):
        at = 100 + 20 * number
        history.op("c1", "acquire", "fail", 2, at, at + 15)
        history.request("c1", "n1", "SADD flags k1", at + 2, at + 3)
        history.seen("n1", "set" if number == 0 else "changed", at + 3, since=at + 1, key="flags")
        if number < taken:
            history.request("c1", "n1", "SREM flags k1", at + 7, at + 8)
            history.seen("n1", "changed", at + 8, since=at + 6, key="flags")
    history.seen("n1", "blind", 300).seen("n1", "watching", 350, "n1-first").seen("n1", "seen", 350, key="flags")
    history.op("c2", "acquire", "fail", 1, asked - 10, 1_150)
    history.request("c2", "n1", "SMEMBERS flags", asked, asked + 1, did=False, reply=f'["{answered}"]')
    return history.seen("n1", "blind", 1_300)


@pytest.mark.parametrize(
    ("history", "cause"),
    [(flag(), "no expiry"), (flag(taken=2), None), (flag(answered="k2"), None), (flag(asked=200), None)],
    ids=["left", "hardly ever taken out", "no other client met it", "it may be gone since"],
)
def test_a_flag_that_a_call_left_in_a_set_is_why_no_client_gets_in(history: History, cause: str | None) -> None:
    run = history.recorded()
    (finding,) = (one for one in check(run).findings if one.kind == "no-recovery")
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert [one.cause for one in told.explanations] == [cause] * (cause is not None)

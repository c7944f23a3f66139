"""Keys that were left with no owner: whose, how long, and why."""

from __future__ import annotations

from copy import deepcopy
from time import process_time
from typing import Any

import pytest

from fencepost.history import ClientEnd
from harness.checkers.explained import explain
from harness.checkers.orphans import CAUSES, Figures, check
from harness.history.recorded import Recorded
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms


def figures(history: History) -> Any:
    return check(history.recorded()).figures


def orphan(history: History) -> tuple[str, float]:
    """The cause and the length of the only one."""
    found = figures(history)
    assert found.count == 1, found
    (cause,) = (cause for cause in CAUSES if found.by_cause[cause])
    return cause, found.longest_ms


def held(**config: Any) -> History:
    """c1 is inside from 10 to 40; its release is over at 41. n1 holds its key from 9 on."""
    history = History(**config).watch("n1").section("c1", 10, 40).sets("c1", "v1")
    return history.seen("n1", "set", 9.8, "v1", since=9.5, ttl=100)


def test_a_lock_of_which_no_key_was_seen_is_not_called_clean(golden: Golden) -> None:
    """Its keys may be of a kind that the witness does not see."""
    unseen = figures(History().watch("n1").section("c1", 10, 40))
    assert unseen.none_seen is True
    golden(next(iter(unseen.rows())).text)
    for history in (History().watch("n1"), held().seen("n1", "deleted", 41, since=40.5)):
        assert figures(history).none_seen is None
        golden(next(iter(figures(history).rows())).text)


def test_a_key_that_is_gone_with_the_release_had_an_owner_all_the_time() -> None:
    assert figures(held().seen("n1", "deleted", 41, since=40.5)).count == 0


@pytest.mark.parametrize(("again", "orphans"), [(60, [60 - 41]), (41, [])])
def test_who_calls_again_owns_what_its_client_had_left(again: float, orphans: list[float]) -> None:
    """c1 left its field at 41, and keeps the same in its later calls."""
    history = History().watch("n1").section("c1", 10, 40).sets("c1", "client:1")
    history.seen("n1", "set", 9.8, "client:1", since=9.5, ttl=100, is_hash=True)
    history.op("c1", "acquire", "ok", 2, again, again + 5).op("c1", "release", "ok", 2, 80, 81)
    found = figures(history.seen("n1", "deleted", 61, since=61))
    assert [found.longest_ms] * found.count == orphans


@pytest.mark.parametrize(("of", "orphans"), [(1, 0), (2, 1)])
def test_a_nested_acquire_that_was_refused_leaves_the_key_with_its_section(of: int, orphans: int) -> None:
    """c1 counts in the value how often it has acquired the lock. The reply to the second time is lost, and it extends
    its lease. `of`: the section that the second time was for."""
    history = History(nodes=1).watch("n1").section("c1", 10, 400).sets("c1", "v:1")
    history.request("c1", "n1", "SET k1 v:1 NX PX 100", 9.5, 9.9).seen("n1", "set", 9.8, "v:1", since=9.5, ttl=100)
    history.op("c1", "reenter", "fail", of, 49, 60)
    history.request("c1", "n1", "EVAL again 1 k1 v:2", 50, 50.4, told=None)
    history.seen("n1", "set", 50.3, "v:2", since=50, ttl=100)
    history.op("c1", "extend", "ok", 1, 90, 91, deadline_ns=ms(180))
    history.request("c1", "n1", "EVAL extend 1 k1 v:2", 90.2, 90.6, reply="1")
    history.seen("n1", "prolonged", 90.5, "v:2", since=90.2, ttl=300).seen("n1", "deleted", 400.5, since=400.2)
    assert figures(history).count == orphans


def test_what_a_refused_nested_acquire_set_anew_has_no_owner() -> None:
    """The key of the section had expired by then."""
    history = History(nodes=1).watch("n1").section("c1", 10, 400).sets("c1", "v:1")
    history.request("c1", "n1", "SET k1 v:1 NX PX 30", 9.5, 9.9).seen("n1", "set", 9.8, "v:1", since=9.5, ttl=30)
    history.seen("n1", "expired", 41, since=40)
    history.op("c1", "reenter", "fail", 1, 49, 60).request("c1", "n1", "EVAL again 1 k1 v:2", 50, 50.4, told=None)
    history.seen("n1", "set", 50.3, "v:2", since=50, ttl=300).seen("n1", "deleted", 400.5, since=400.2)
    assert orphan(history) == ("given up", pytest.approx(350.3 - 60, abs=1))


@pytest.mark.parametrize("f", ["reenter", "acquire"])
def test_a_nested_acquire_that_is_refused_is_an_attempt(f: str) -> None:
    """Its lease was over at 110, and what it had set stayed until 160."""
    history = held().seen("n1", "deleted", 41, since=40.5).section("c2", 45, 46).sets("c2", "v2")
    history.op("c1", f, "fail", 2, 120, 150).seen("n1", "set", 125, "a try's", since=124, ttl=100)
    assert orphan(history.seen("n1", "deleted", 160, since=160)) == ("given up", 10)


@pytest.mark.parametrize(("field", "length"), [("client:1", 60 - 41), ("client:1-anew", 20)])
def test_a_client_that_was_started_anew_with_another_field_does_not_own_what_its_old_life_had_left(
    field: str, length: float
) -> None:
    history = History().watch("n1").section("c1", 10, 40).sets("c1", "client:1").end("c1", "finished", 42)
    history.section("c1", 65, 70, asked=60, number=2, life=2).sets("c1", field, number=2, life=2)
    history.seen("n1", "set", 9.8, "client:1", since=9.5, ttl=100, is_hash=True)
    history.seen("n1", "deleted", 61, since=61)
    if field != "client:1":
        history.seen("n1", "set", 64, field, since=62, ttl=100, is_hash=True).seen("n1", "deleted", 71, since=70.5)
    assert orphan(history) == ("not released", length)


def test_one_name_on_the_nodes_for_two_keys_is_nobodys_call_again() -> None:
    history = History().watch("n1")
    for client, begin, key in (("c1", 10, "k1"), ("c2", 110, "k2")):
        history.section(client, begin, begin + 30, key=key).sets(client, f"client:{client}")
        history.seen("n1", "set", begin - 0.2, f"client:{client}", since=begin - 0.5, ttl=500, key="lock", is_hash=True)
        history.seen("n1", "deleted", begin + 50, since=begin + 50, key="lock")
    history.op("c1", "acquire", "fail", 2, 45, 46)
    assert (figures(history).count, figures(history).total_ms) == (2, 2 * (60 - 41))


def test_a_deletion_that_may_have_been_in_time_is_no_orphan() -> None:
    assert figures(held().seen("n1", "deleted", 60, since=41)).count == 0
    assert orphan(held().seen("n1", "deleted", 60, since=41.000001)) == ("not released", 1e-6)


def test_a_key_that_the_release_did_not_reach() -> None:
    assert orphan(held().seen("n1", "deleted", 81, since=81)) == ("not released", 40)


def test_a_key_is_no_orphan_for_longer_than_it_lives() -> None:
    assert orphan(held().seen("n1", "expired", 190, since=185)) == ("not released", pytest.approx(68.8))


def test_a_key_whose_owner_was_killed_inside() -> None:
    history = History().watch("n1").section("c1", 10, None).sets("c1", "v1").end("c1", "killed", 30)
    history.seen("n1", "set", 9.8, "v1", ttl=100).seen("n1", "deleted", 70)
    assert orphan(history) == ("client gone", 40)


def test_a_key_keeps_its_owner_if_neither_a_release_nor_the_end_of_the_client_was_recorded() -> None:
    history = History().watch("n1").section("c1", 10, None).sets("c1", "v1")
    history.seen("n1", "set", 9.8, "v1", ttl=100).seen("n1", "deleted", 70)
    assert figures(history).count == 0


def test_a_refused_try_that_left_a_key() -> None:
    history = History().watch("n1").op("c1", "acquire", "fail", 1, 10, 30).seen("n1", "set", 20, "v", ttl=100)
    assert orphan(history.seen("n1", "deleted", 70)) == ("given up", 40)


@pytest.mark.parametrize(("by", "length"), [("c1", 55 - 30), ("c2", 140 - 30)])
def test_a_later_acquire_of_the_same_client_takes_over_what_its_refused_one_had_left(by: str, length: float) -> None:
    """The client's value is its name in this life, and it had no section before."""
    history = History().watch("n1").op("c1", "acquire", "fail", 1, 10, 30).seen("n1", "set", 20, "c1", ttl=100)
    history.request("c1", "n1", "SET k1 c1 NX PX 100", 19, 20).section(by, 60, 90, asked=50)
    history.seen("n1", "prolonged", 56, "c1", since=55, ttl=100).request(by, "n1", "PEXPIRE k1 100", 55.1, 56, sent=55)
    assert orphan(history.seen("n1", "deleted", 140)) == ("given up", length)


@pytest.mark.parametrize(("over", "is_orphan"), [(777, True), (101, False)])
def test_a_key_that_is_renewed_in_the_background_of_later_acquires_is_held_by_none(over: int, is_orphan: bool) -> None:
    """c1's first acquire was cancelled, and its key prolonged over another connection than the next one asks with."""
    history = History(ttl_ms=300, nodes=1).watch("n1").op("c1", "acquire", "info", 1, 10, 30)
    history.request("c1", "n1", "SET k1 value-01 NX PX 300", 19, 20).seen("n1", "set", 20, "value-01", ttl=300)
    history.op("c1", "acquire", "fail", 2, 290, 900)
    history.request("c1", "n1", "SET k1 value-02 NX PX 300", 295, 296, reply="null", did=False)
    for at in (300, 500, 700):
        history.seen("n1", "prolonged", at + 1, "value-01", since=at, ttl=300)
        history.request("c1", "n1", "EVAL renew 1 k1 value-01 300", at + 0.1, at + 0.9, sent=at, connection=over)
    run = history.seen("n1", "expired", 1_002, since=1_001).recorded()
    findings = check(run).findings
    assert bool(findings) == is_orphan
    if findings:
        (told,) = explain(run, Verdict("violation", "lock", findings, (), {}), 1)
        assert told.explanations[0].cause == "renewed unheld"


def test_a_refused_attempt_that_prolongs_its_own_key_takes_over_nothing() -> None:
    history = History().watch("n1").op("c1", "acquire", "fail", 1, 10, 30).seen("n1", "set", 20, "v", ttl=100)
    history.request("c1", "n1", "SET k1 v NX PX 100", 19, 20).seen("n1", "prolonged", 26, "v", since=25, ttl=100)
    history.request("c1", "n1", "PEXPIRE k1 100", 25.1, 26, sent=25)
    assert orphan(history.seen("n1", "deleted", 70)) == ("given up", 40)


def test_whoever_was_trying_when_the_key_was_set_may_own_it_to_the_last() -> None:
    history = History().watch("n1").op("c1", "acquire", "fail", 1, 10, 30).op("c2", "acquire", "info", 1, 15, 50)
    history.op("c2", "acquire", "fail", 2, 60, 65)  # too late to have set it
    assert orphan(history.seen("n1", "set", 20, "v", ttl=100).seen("n1", "deleted", 70)) == ("given up", 20)


def test_a_try_that_began_as_the_key_was_set_may_own_it() -> None:
    history = History().watch("n1").op("c1", "acquire", "fail", 1, 20, 50).seen("n1", "set", 20, "v", ttl=100)
    assert orphan(history.seen("n1", "deleted", 70)) == ("given up", 20)


def test_a_try_that_ended_as_the_key_was_set_may_own_it() -> None:
    history = History().watch("n1").op("c1", "acquire", "fail", 1, 10, 20).seen("n1", "set", 20, "v", ttl=100)
    assert orphan(history.seen("n1", "deleted", 70)) == ("given up", 50)


def test_a_try_for_another_key_owns_nothing_of_this_one() -> None:
    history = History().watch("n1").op("c1", "acquire", "fail", 1, 10, 60, key="k2")
    history.op("c2", "acquire", "fail", 1, 1, 5)
    assert orphan(history.seen("n1", "set", 20, "v", ttl=100).seen("n1", "deleted", 70)) == ("set too late", 50)


def test_an_earlier_round_of_a_try_that_was_granted_in_the_end() -> None:
    history = History().watch("n1").section("c1", 30, 90, asked=10, requested_ns=ms(20)).sets("c1", "v2")
    history.seen("n1", "set", 12, "v1", ttl=100).request("c1", "n1", "SET k1 v1 NX PX 100", 11, 12)
    history.seen("n1", "deleted", 50)
    history.seen("n1", "set", 51, "v2", ttl=100).seen("n1", "deleted", 91)
    assert orphan(history) == ("given up", 20)


def test_what_a_round_deletes_of_the_round_before_it_does_not_give_up_what_it_sets_itself() -> None:
    """The second round takes back the same value from n1 a moment after it set it on n2; n1 has no memory to set it."""
    history = History(nodes=2).watch("n1", "n2").section("c1", 30, 90, asked=10)
    history.seen("n1", "set", 12, "client:1", ttl=100).request("c1", "n1", "SET k1 client:1 NX PX 100", 11, 12)
    history.seen("n2", "set", 20.2, "client:1", ttl=100).request("c1", "n2", "SET k1 client:1 NX PX 100", 20, 25)
    history.seen("n1", "deleted", 20.4).request("c1", "n1", "DEL k1", 20.3, 25)
    assert figures(history.seen("n2", "deleted", 91)).count == 0


def test_a_round_that_was_taken_back_where_it_could_be_is_given_up_everywhere() -> None:
    history = History(nodes=2).watch("n1", "n2").section("c1", 30, 90, asked=10)
    for node in ("n1", "n2"):
        history.seen(node, "set", 12, "v1", ttl=100).request("c1", node, "SET k1 v1 NX PX 100", 11, 12)
    history.seen("n1", "deleted", 20.4).request("c1", "n1", "DEL k1", 20.3, 25)
    history.seen("n1", "set", 26, "v2", ttl=100).request("c1", "n1", "SET k1 v2 NX PX 100", 26, 27)
    assert orphan(history.seen("n1", "deleted", 91).seen("n2", "deleted", 110)) == ("given up", 80)


def test_a_set_that_came_when_its_owner_had_released() -> None:
    history = History().watch("n1").section("c1", 10, 20).sets("c1", "v1")
    history.seen("n1", "set", 50, "v1", since=45, ttl=100).seen("n1", "deleted", 80)
    assert orphan(history) == ("set too late", 30)


def test_a_set_that_may_have_come_in_time() -> None:
    history = History().watch("n1").section("c1", 10, 20).sets("c1", "v1")
    history.seen("n1", "set", 50, "v1", since=21, ttl=100).seen("n1", "deleted", 80)
    assert orphan(history) == ("not released", 30)


def test_a_node_that_comes_back_with_the_key_of_an_owner_that_has_gone() -> None:
    history = held().seen("n1", "blind", 30).seen("n1", "seen", 60, "v1", ttl=50).seen("n1", "watching", 60, "second")
    assert orphan(history.seen("n1", "deleted", 80)) == ("back from disk", 20)


def test_a_node_that_comes_back_with_a_key_that_nobody_can_put_a_value_to() -> None:
    history = History().watch("n1").op("c1", "acquire", "fail", 1, 5, 12).seen("n1", "set", 10, "v", ttl=100)
    history.seen("n1", "blind", 11).seen("n1", "seen", 60, "v", ttl=50).seen("n1", "watching", 60, "second")
    assert orphan(history.seen("n1", "deleted", 80)) == ("back from disk", 20)


def test_a_node_that_came_back_is_back_also_when_it_is_lost_from_sight_again() -> None:
    history = History().watch("n1").section("c1", 10, 70).sets("c1", "v1").seen("n1", "set", 9.8, "v1", ttl=200)
    history.seen("n1", "blind", 30).seen("n1", "seen", 40, "v1", ttl=150).seen("n1", "watching", 40, "second")
    history.seen("n1", "blind", 50).seen("n1", "seen", 80, "v1", ttl=100).seen("n1", "watching", 80, "second")
    assert orphan(history.seen("n1", "deleted", 90)) == ("back from disk", 10)


@pytest.mark.parametrize("known", ["before", "after", "never"])
def test_a_node_of_which_nobody_knows_whether_it_restarted_did_not_come_back_from_disk(known: str) -> None:
    history = History().section("c1", 10, 40).sets("c1", "v1")
    if known == "before":
        history.watch("n1")
    history.seen("n1", "set", 9.8, "v1", ttl=100).seen("n1", "blind", 30).seen("n1", "seen", 60, "v1", ttl=50)
    if known == "after":
        history.seen("n1", "watching", 60, "n1-first")
    else:  # its run id was asked for in vain
        history.seen("n1", "blind", 80).seen("n1", "watching", 80, "n1-first")
    assert orphan(history.seen("n1", "deleted", 80)) == ("not released", 20)


def test_a_node_that_was_only_out_of_sight_did_not_come_back_from_disk() -> None:
    history = held().seen("n1", "blind", 30).seen("n1", "seen", 60, "v1", ttl=50).seen("n1", "watching", 60, "n1-first")
    assert orphan(history.seen("n1", "deleted", 80)) == ("not released", 20)


def test_a_key_that_was_an_orphan_before_and_after_is_one_orphan_and_keeps_its_cause() -> None:
    history = held().seen("n1", "blind", 50).seen("n1", "seen", 60, "v1", ttl=50).seen("n1", "watching", 60, "second")
    assert orphan(history.seen("n1", "deleted", 80)) == ("not released", 29)


def test_values_that_could_not_be_read_are_not_taken_for_the_same() -> None:
    history = History().watch("n1").op("c1", "acquire", "fail", 1, 5, 12).seen("n1", "set", 10, None, ttl=100)
    history.seen("n1", "blind", 11).seen("n1", "seen", 60, None, ttl=50).seen("n1", "watching", 60, "second")
    assert orphan(history.seen("n1", "deleted", 80)) == ("given up", 20)


def test_the_requests_tell_whose_keys_are_that_have_the_same_value() -> None:
    history = History().watch("n1").section("c1", 10, 40).sets("c1", "same").section("c2", 50, 90).sets("c2", "same")
    history.seen("n1", "set", 9.8, "same", ttl=100).seen("n1", "deleted", 48)
    history.seen("n1", "set", 49.8, "same", ttl=100).seen("n1", "deleted", 91)
    found = figures(history)
    assert (found.count, found.longest_ms) == (1, 7)


def test_the_same_number_in_another_life_or_of_another_client_is_another_section() -> None:
    history = History().watch("n1").section("c1", 10, None).sets("c1", "v1").end("c1", "killed", 20)
    history.section("c1", 200, 240, life=2).sets("c1", "v2", life=2).section("c2", 300, 320).sets("c2", "v3")
    history.seen("n1", "set", 9.8, "v1", ttl=100).seen("n1", "deleted", 50)
    assert orphan(history) == ("client gone", 30)


def test_keys_may_be_called_otherwise_on_the_nodes() -> None:
    history = History().watch("n1").section("c1", 10, 40).sets("c1", "v1").op("c2", "acquire", "fail", 1, 50, 60)
    history.seen("n1", "set", 9.8, "v1", key="redlock:k1", ttl=100).seen("n1", "deleted", 41, key="redlock:k1")
    history.seen("n1", "set", 55, "v2", key="redlock:k1", ttl=100).seen("n1", "deleted", 80, key="redlock:k1")
    history.seen("n1", "set", 55, "x", key="something else", ttl=100)
    assert orphan(history) == ("given up", 20)


def test_figures_are_kept_by_node() -> None:
    history = held(nodes=3).watch("n2").seen("n1", "deleted", 81)
    history.seen("n2", "set", 9.8, "v1", ttl=100).seen("n2", "deleted", 51)
    found = figures(history)
    assert (found.watched, found.count, found.total_ms, found.longest_ms) == (True, 2, 50, 40)
    nodes = found.by_node
    assert [(nodes[n].count, nodes[n].total_ms, nodes[n].longest_ms) for n in ("n1", "n2", "n3")] == [
        (1, 40, 40),
        (1, 10, 10),
        (0, 0, 0),
    ]
    assert nodes["n1"].causes == {cause: int(cause == "not released") for cause in CAUSES}
    assert nodes["n3"].unseen_ms == 1200


def test_the_time_that_a_node_was_out_of_sight() -> None:
    history = held().seen("n1", "blind", 100).seen("n1", "watching", 300, "second").seen("n1", "blind", 1150)
    assert figures(history).by_node["n1"].unseen_ms == 250
    history.timeline.end_ns = None
    assert figures(history).by_node["n1"].unseen_ms == 200
    broken_off = History().watch("n1", at=-20).seen("n1", "blind", -10)
    broken_off.timeline.end_ns = None
    assert figures(broken_off).by_node["n1"].unseen_ms == 0


def test_a_key_that_outlasts_the_ttl_is_the_locks_fault() -> None:
    def longer_by(excess: float) -> tuple[Any, ...]:
        history = History().watch("n1").section("c1", 10, 40).sets("c1", "v1").seen("n1", "set", 9.8, "v1", ttl=90_000)
        return check(history.seen("n1", "deleted", 41 + 100 + excess).recorded()).findings

    assert longer_by(100) == ()
    (finding,) = longer_by(100.5)
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "orphan-outlasts-ttl",
        "lock",
        "liveness",
        1,
    )
    assert (finding.examples[0]["at_ms"], finding.examples[0]["for_ms"]) == (41, 200.5)
    assert "1 key without an owner" in finding.text


def left_for_good(
    *tries: tuple[float, float, str], until: float = 900, on: tuple[str, ...] = ("n1", "n2"), **lives: Any
) -> History:
    """c1 was killed inside at 40. Three nodes had its key from 9 on, and these ones until `until`; any lease was over
    by 240. c2 tries from then until then."""
    history = History().watch("n1", "n2", "n3").section("c1", 10, None).sets("c1", "v1").end("c1", "killed", 40)
    for number, (since, answered, outcome) in enumerate(tries, 1):
        history.op("c2", "acquire", outcome, number, since, answered)
    for node in ("n1", "n2", "n3"):
        history.seen(node, "set", 9.8, "v1", **lives).seen(node, "deleted", until if node in on else 60)
    return history


REFUSED = ((300, 320, "fail"), (400, 420, "fail"), (500, 520, "fail"))


def blamed(history: History) -> list[int]:
    return [finding.count for finding in check(history.recorded()).findings if finding.blame == "lock"]


def test_a_key_without_expiry_that_its_dead_owner_left_is_found_when_it_keeps_others_out() -> None:
    """SETNX without an expiry."""
    assert blamed(left_for_good(*REFUSED)) == [2]
    assert blamed(left_for_good(*REFUSED[:2])) == [], "two tries may have been refused for another reason"


def test_a_key_without_expiry_that_keeps_nobody_out_may_have_its_expiry_in_the_value() -> None:
    assert blamed(left_for_good()) == [], "nobody wanted it"
    early = ((50, 70, "fail"), (100, 120, "fail"), (200, 239, "fail"))
    assert blamed(left_for_good(*early)) == [], "its lease may not have been over"
    assert blamed(left_for_good(*early, (300, 320, "ok"))) == []
    assert blamed(left_for_good(*REFUSED, on=("n1",))) == [], "a majority was free"
    unanswered = ((300, 320, "info"), (400, 420, "info"), (500, 520, "info"))
    assert blamed(left_for_good(*unanswered)) == [], "they may not have arrived"
    taken = ((300, 320, "fail"), (400, 420, "fail"), (500, 520, "fail"))
    assert blamed(left_for_good(*taken, until=510)) == [], "it went with the third try"


@pytest.mark.parametrize("hit", [{"cut_links": (("c2", "n1"),)}, {"nodes": ("n2",)}, {"paused_clients": ("c2",)}])
def test_a_fault_may_have_kept_a_try_from_taking_over_a_key_without_expiry(hit: dict[str, Any]) -> None:
    assert blamed(left_for_good(*REFUSED).fault("f", 290, 310, **hit)) == []
    assert blamed(left_for_good(*REFUSED).fault("f", 20, 35, **hit)) == [2]


def test_a_key_with_a_time_to_live_is_blamed_whether_or_not_somebody_wanted_it() -> None:
    assert blamed(left_for_good(ttl=90_000)) == [2]
    assert blamed(left_for_good(ttl=90_000).seen("n3", "set", 950, "v9")) == [2]
    some = left_for_good().section("c2", 920, 930).sets("c2", "v2").seen("n3", "set", 919, "v2", ttl=100)
    assert blamed(some) == [2], "the lock sets a time to live, as a rule"


def outlasts(sent: float, *, killed: bool = False, by: str = "c1") -> bool:
    """c1 was inside from 10 to 40 and had released at 41, or was killed then. At 700 its key was given 400 ms more, by
    a request that was sent at `sent`."""
    history = History(ttl_ms=400).watch("n1").section("c1", 10, None if killed else 40).sets("c1", "v1")
    if killed:
        history.end("c1", "killed", 41)
    history.seen("n1", "set", 9.8, "v1", ttl=1_000)
    if by == "c1":
        history.seen("n1", "prolonged", 700, "v1", ttl=400, sent=sent)
    else:
        history.seen("n1", "prolonged", 700, "v1", ttl=400)
        history.request(by, "n1", "PEXPIRE k1 400", 699, 701, sent=sent)
    return bool(check(history.seen("n1", "deleted", 1_090).recorded()).findings)


@pytest.mark.parametrize("killed", [False, True])
def test_a_renewal_that_was_sent_before_its_owner_was_done_is_excused_however_late_it_came(killed: bool) -> None:
    assert not outlasts(30, killed=killed)
    assert not outlasts(291, killed=killed), "a thread may send one more while the release returns"
    assert outlasts(291.1, killed=killed)


@pytest.mark.parametrize("in_background", [True, False])
def test_a_renewal_that_the_release_overtook_is_called_one(in_background: bool, golden: Golden) -> None:
    history = History(ttl_ms=400).watch("n1").section("c1", 10, 40, asked=5)
    history.request("c1", "n1", "SET k1 v1 PX 400", 8, 9).seen("n1", "set", 9, "v1", ttl=400, since=8)
    history.request("c1", "n1", "DEL k1", 40.4, 40.6).seen("n1", "deleted", 40.6, since=40.4)
    late = {"sent": 39 if in_background else 40.2, "connection": 9}
    history.request("c1", "n1", "SET k1 v1 PX 900", 45, 46, **late)
    history.seen("n1", "set", 46, "v1", ttl=900, since=45).seen("n1", "expired", 946)
    run = history.recorded()
    (finding,) = check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == ("set again" if in_background else "overlong")
    golden(told.explanations[0].sentence)


def cause_of(history: History) -> str | None:
    run = history.recorded()
    (finding,) = check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    return told.explanations[0].cause


def test_what_the_last_request_gave_the_key_is_the_cause() -> None:
    assert cause_of(left_for_good(*REFUSED)) == "no expiry"
    assert cause_of(left_for_good(*REFUSED, ttl=5_000)) == "overlong"


def test_a_renewal_that_another_client_sent_later_is_not_excused() -> None:
    assert outlasts(650, by="c2")


def test_a_key_whose_client_was_killed_in_the_call_that_set_it() -> None:
    history = History().watch("n1").op("c1", "acquire", "fail", 1, 0, 5).seen("n1", "set", 20, "v1", ttl=100)
    history.ends.append(ClientEnd("c1", 1, "killed", ms(30), "acquiring"))
    history.request("c1", "n1", "SET k1 v1 NX PX 100", 19, 20).seen("n1", "deleted", 70)
    assert orphan(history) == ("client gone", 40)


def test_a_request_of_a_refused_attempt_that_arrives_when_that_is_over_sets_its_key_too_late() -> None:
    history = History().watch("n1").op("c1", "acquire", "fail", 1, 10, 30).seen("n1", "set", 50, "v", ttl=100)
    history.request("c1", "n1", "SET k1 v NX PX 100", 49, 50, sent=20).seen("n1", "deleted", 70)
    assert orphan(history) == ("set too late", 20)


def test_renewals_of_a_key_behind_a_time_out_of_sight_count_with_those_before() -> None:
    def blamed(second: float) -> bool:
        history = History(ttl_ms=400).watch("n1").section("c1", 10, None).sets("c1", "v1").end("c1", "killed", 100)
        history.seen("n1", "set", 9.8, "v1", ttl=400).seen("n1", "prolonged", 480, "v1", ttl=400, sent=95)
        history.seen("n1", "blind", 500).seen("n1", "seen", 510, "v1", ttl=370).seen("n1", "watching", 510, "n1-first")
        history.seen("n1", "prolonged", 730, "v1", ttl=400, sent=second).seen("n1", "deleted", 730 + 399)
        return bool(check(history.recorded()).findings)

    assert not blamed(100)
    assert blamed(400)


def test_an_extension_that_gives_too_much_is_the_locks_fault_however_late_it_came() -> None:
    history = History().watch("n1").section("c1", 10, None).sets("c1", "v1").end("c1", "killed", 40)
    history.seen("n1", "set", 9.8, "v1", ttl=100).seen("n1", "prolonged", 90, "v1", ttl=90_000, sent=39)
    assert check(deepcopy(history).seen("n1", "deleted", 290).recorded()).findings == ()
    assert [f.blame for f in check(history.seen("n1", "deleted", 290.5).recorded()).findings] == ["lock"]


def test_what_outlasted_the_ttl_before_and_after_the_node_was_out_of_sight_counts_together() -> None:
    history = History().watch("n1").section("c1", 10, 40).sets("c1", "v1").seen("n1", "set", 9.8, "v1", ttl=90_000)
    history.seen("n1", "blind", 150).seen("n1", "seen", 160, "v1", ttl=90_000).seen("n1", "watching", 160, "n1-first")
    assert check(deepcopy(history).seen("n1", "deleted", 251).recorded()).findings == ()
    assert [f.blame for f in check(history.seen("n1", "deleted", 251.5).recorded()).findings] == ["lock"]


def test_several_that_outlast_the_ttl_show_the_longest_first(golden: Golden) -> None:
    history = History().watch("n1", "n2").section("c1", 10, 40).sets("c1", "v1")
    for node, until in (("n1", 400), ("n2", 500)):
        history.seen(node, "set", 9.8, "v1", ttl=90_000).seen(node, "deleted", until)
    (finding,) = check(history.recorded()).findings
    assert [example["node"] for example in finding.examples] == ["n2", "n1"]
    assert finding.text.startswith("2 keys")
    golden(finding.text)


def test_a_run_that_nobody_watched_says_so() -> None:
    assert figures(History().section("c1", 10, 40)) == Figures(watched=False, asked=True)
    assert figures(History(witness="off")) == Figures(watched=False, asked=False)
    assert figures(History().seen("n1", "blind", 5)).watched is False


def test_a_client_that_is_killed_while_it_releases_owns_its_key_until_then() -> None:
    history = History().watch("n1").section("c1", 10, None).sets("c1", "v1")
    history.ends.append(ClientEnd("c1", 1, "killed", ms(40), "releasing"))
    history.ends.append(ClientEnd("c2", 1, "killed", ms(90), "inside"))
    history.seen("n1", "set", 9.8, "v1", ttl=100).seen("n1", "deleted", 70)
    assert orphan(history) == ("client gone", 30)


def test_a_key_may_stay_for_as_long_as_the_lock_granted() -> None:
    def kinds(granted_ms: float | None) -> list[str]:
        history = History(ttl_ms=100).watch("n1").section("c1", 10, 50, granted_ms=granted_ms).sets("c1", "v1")
        history.seen("n1", "set", 8, "v1", ttl=1_000).seen("n1", "expired", 900)
        return [finding.kind for finding in check(history.recorded()).findings]

    assert kinds(None) == ["orphan-outlasts-ttl"]
    assert kinds(1_000.0) == []


def test_many_keys_take_no_longer_than_few() -> None:
    """Each attempt is looked at once, and not once for each key."""

    def seconds(keys: int) -> float:
        history = History().watch("n1")
        for number in range(1_200):
            at, key = 10 + number * 5, f"k{number % keys}"
            history.section("c1", at, at + 2, key=key, number=number + 1)
            history.seen("n1", "set", at - 0.2, f"v{number}", key=key, ttl=100).seen("n1", "deleted", at + 3, key=key)
        run = history.recorded()
        return min(_processor_seconds(run) for _ in range(3))  # a busy machine only adds to it

    assert seconds(600) < 5 * seconds(2)


def _processor_seconds(run: Recorded) -> float:
    began = process_time()
    check(run)
    return process_time() - began


def marked_free(*, takes_it: bool = True, mark: str = "free", refused: int = 0) -> History:
    """A release sets the key to a mark for five seconds, and an acquire takes that over: c1 is inside from 10 to 40, c2
    from 310 to 330, and is refused so often from 500 on; nobody else comes."""
    history = History(ttl_ms=100).watch("n1").section("c1", 10, 40, asked=5).section("c2", 310, 330, asked=305)
    for client, set_at, left in (("c1", 8, 40), ("c2", 308, 330)):
        if client == "c2" and not takes_it:
            history.seen("n1", "deleted", 304)
        history.seen("n1", "set", set_at + 1, f"v{client}", since=set_at, ttl=100)
        history.request(client, "n1", f"EVAL lock 1 k1 v{client} 100", set_at, set_at + 1)
        history.seen("n1", "set", left + 0.6, mark.format(client), since=left + 0.4, ttl=5_000)
        history.request(client, "n1", f"EVAL unlock 1 k1 v{client}", left + 0.4, left + 0.6)
    for number in range(refused):
        history.op("c2", "acquire", "fail", 2 + number, 550 + 50 * number, 560 + 50 * number)
    return history.seen("n1", "deleted", 900)


def test_what_the_next_client_takes_over_keeps_nobody_out() -> None:
    assert blamed(marked_free(mark="free since {}")) == []
    assert blamed(marked_free(mark="free since {}", refused=2)) == []
    assert blamed(marked_free(mark="free since {}", refused=3)) == [2], "it was in the way"
    assert blamed(marked_free(mark="free since {}", takes_it=False)) == [2], "nobody is known to take it over"
    assert blamed(marked_free(refused=3)) == [], "what several clients' releases set is nobody's key"


def taken_from_a_dead_client(*, by: str = "c2", outcome: str = "ok") -> History:
    """The value tells when the lease is over, and the key lives for ten times as long: c1 is killed inside at 40, c2
    takes its key at 309 and is killed, too. Nobody else comes."""
    history = History(ttl_ms=100).watch("n1").section("c1", 10, None, asked=5).end("c1", "killed", 40)
    history.seen("n1", "set", 9, "v1", since=8, ttl=1_000).request("c1", "n1", "EVAL lock 1 k1 v1 100", 8, 9)
    history.op(by, "acquire", outcome, 1, 305, 310, life=1 if by == "c2" else 2, deadline_ns=ms(400), validity_ms=90.0)
    history.seen("n1", "set", 309, "v2", since=308, ttl=1_000)
    history.request(by, "n1", "EVAL lock 1 k1 v2 100", 308, 309).end(by, "killed", 320, life=1 if by == "c2" else 2)
    return history.seen("n1", "deleted", 900)


def test_a_key_may_live_for_longer_if_its_value_tells_when_it_is_over() -> None:
    assert blamed(taken_from_a_dead_client()) == []
    assert blamed(taken_from_a_dead_client(outcome="fail")) == [2], "the acquire was refused"
    assert blamed(taken_from_a_dead_client(by="c1")) == [2], "it may be that client's own"


@pytest.mark.parametrize(("outcome", "number"), [("ok", 0), ("fail", 1)])
def test_the_names_of_the_fields_do_not_tell_whose_a_hash_is(outcome: str, number: int) -> None:
    """A hash that is never deleted has the owner and the end of its lease. c1 is inside from 10 to 40; another acquire
    changes the fields at 209, and three tries are refused after it."""
    history = History(ttl_ms=100).watch("n1").section("c1", 10, 40, asked=5)
    fields = {"is_hash": True, "value": "ends, owner"}
    history.seen("n1", "set", 9, since=8, **fields).request("c1", "n1", "HSET k1 owner v1 ends 108", 8, 9)
    history.seen("n1", "set", 40.6, since=40.4, **fields).request("c1", "n1", "HSET k1 owner - ends 0", 40.4, 40.6)
    history.op("c2", "acquire", outcome, 2, 205, 210, deadline_ns=ms(300), validity_ms=90.0)
    history.seen("n1", "set", 209, since=208, **fields).request("c2", "n1", "HSET k1 owner v2 ends 308", 208, 209)
    for turn in range(3):
        since = 450 + 30 * turn
        history.op("c3", "acquire", "fail", 1 + turn, since, since + 10)
    history.seen("n1", "blind", 900)
    assert sum(blamed(history)) == number


@pytest.mark.parametrize(("value", "orphans"), [("v1", 0), ("v2", 1)])
def test_a_value_that_the_round_that_was_granted_asks_for_again_is_its_sections(value: str, orphans: int) -> None:
    """c1's first request had no answer. The next one, at 60, found the key, and was told how long it lives."""
    history = History(ttl_ms=100).watch("n1").section("c2", -300, -250, asked=-305).sets("c2", "other")
    history.seen("n1", "set", -302, "other", ttl=100).seen("n1", "deleted", -250)
    history.section("c1", 62, 150, asked=9, requested_ns=ms(59.5), deadline=100)
    history.request("c1", "n1", "EVAL take 1 k1 v1 100", 10, 11, told=None)
    history.seen("n1", "set", 11, "v1", since=9.9, ttl=100)
    history.by(history.key_events[-1], len(history.requests) - 1)
    history.request("c1", "n1", f"EVAL take 1 k1 {value} 100", 60, 61, reply="49", did=False)
    assert figures(history.seen("n1", "deleted", 105)).count == orphans


@pytest.mark.parametrize(("command", "number"), [("SETRANGE", 0), ("SET", 1)])
def test_a_string_that_is_changed_in_place_is_nobodys(command: str, number: int) -> None:
    """c1 made it, with no expiry; each owner writes itself into it."""
    history = History(ttl_ms=100).watch("n1").section("c1", 10, 40, asked=5)
    history.seen("n1", "set", 9, "-", since=8).request("c1", "n1", "EVAL take 1 k1 c1 100", 8, 9)
    history.request("c1", "n1", "EVAL leave 1 k1 c1", 40.2, 40.4).seen("n1", "changed", 40.4, "-", since=40.1)
    history.by(history.key_events[-1], len(history.requests) - 1)
    history.key_events[-1].command = command
    assert figures(history.seen("n1", "deleted", 900)).count == number


@pytest.mark.parametrize(
    ("other", "alone", "kinds"),
    [("c2", False, []), ("c1", False, ["orphan-outlasts-ttl"]), ("c2", True, ["orphan-outlasts-ttl"])],
)
def test_what_releases_of_several_clients_leave_in_a_hash_is_nobodys(other: str, alone: bool, kinds: list[str]) -> None:
    """A token, say, which has no time to live: each release takes its own field out, and leaves the token. If an
    acquire had set it `alone`, it may be a holder's."""
    history = History(ttl_ms=100, clients=2, nodes=1).watch("n1")
    if alone:
        history.op("c2", "acquire", "fail", 9, 1, 4).request("c2", "n1", "EVAL lock 1 k1 fence 100", 1.5, 2)
        history.seen("n1", "set", 2, "fence", since=1, ttl=100, is_hash=True)
        history.by(history.key_events[-1], len(history.requests) - 1)
        history.seen("n1", "deleted", 3, since=2.5)
    for number, (client, at) in enumerate((("c1", 10), (other, 600)), 1):
        history.section(client, at, at + 40, asked=at - 5, number=number)
        history.request(client, "n1", f"EVAL lock 1 k1 v{number} 100", at - 3, at - 2)
        history.seen("n1", "set", at - 2, f"v{number}, fence", since=at - 4, ttl=100, is_hash=True)
        history.by(history.key_events[-1], len(history.requests) - 1)
        history.called(f"HSET k1 v{number} 1")
        history.op(client, "release", "ok", number, at + 40, at + 45)
        history.request(client, "n1", f"EVAL unlock 1 k1 v{number}", at + 41, at + 42, reply="1")
        history.seen("n1", "set", at + 42, "fence", since=at + 40.5, is_hash=True)
        history.by(history.key_events[-1], len(history.requests) - 1)
        history.called(f"HDEL k1 v{number}")
    history.seen("n1", "blind", 2_000)
    assert [one.kind for one in check(history.recorded()).findings] == kinds

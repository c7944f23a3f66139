"""Refused although nothing can have held the lock: somebody left keys behind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from harness.checkers.uncontended_refusals import Figures, check
from tests.golden import Golden
from tests.judge.histories import History, ms

MAJORITY = (("c1", "n1"), ("c1", "n2"))


def refused(history: History, since: float, until: float, *, every: float = 10, section: int = 2) -> History:
    at = since
    while at < until:
        history.op("c1", "acquire", "fail", section, at, at + every - 1)
        at += every
    return history


def alone(since: float = 300, until: float = 400) -> History:
    """One client's first section, and then it is refused for a while; the TTL is 100 ms."""
    return refused(History(clients=2).section("c1", 150, 200), since, until)


def found(history: History) -> int:
    findings = check(history.recorded()).findings
    assert all((f.kind, f.blame, f.breaks) == ("refused-without-rival", "undecided", None) for f in findings)
    return sum(finding.count for finding in findings)


def test_who_is_refused_alone_for_half_a_ttl_found_keys_without_an_owner() -> None:
    answer = check(alone().recorded())
    assert answer.figures == Figures(refused_alone=1, longest_refused_alone_ms=99)
    assert answer.findings[0].examples[0] | {"at_ms": 300, "for_ms": 99, "tries": 10} == answer.findings[0].examples[0]


def test_it_is_found_behind_the_record_of_another_client() -> None:
    history = History(clients=2).section("c2", 10, 20).end("c2", "finished", 30)
    refused(history.section("c1", 150, 200), 300, 400)
    assert check(history.recorded()).figures == Figures(refused_alone=1, longest_refused_alone_ms=99)


@pytest.mark.parametrize(("since", "at", "number"), [(184, 189, 1), (205, 210, 0), (295, 300, 0), (100, 500, 0)])
def test_what_a_call_that_was_cancelled_set_may_be_there_for_a_ttl(since: float, at: float, number: int) -> None:
    history = refused(History(clients=2).section("c1", 150, 200, number=2), 290, 350, section=3)
    assert found(history) == 1
    history.op("c2", "acquire", "info", 1, since, at, key="k2", cancelled=True)
    assert found(history) == number


def blamed(history: History) -> list[str]:
    findings = check(history.recorded()).findings
    assert all(finding.breaks == ("liveness" if finding.blame == "lock" else None) for finding in findings)
    return [finding.blame for finding in findings]


def tried(times: int = 3) -> History:
    return refused(History().section("c1", 150, 200), 300, 300 + 20 * times, every=20)


def test_a_proxy_that_stands_still_answers_nobody_and_is_not_the_lock() -> None:
    """Refused, and it is not known whether the requests arrived."""
    assert blamed(tried()) == ["undecided"]
    assert blamed(tried().watch("n1", "n2", "n3")) == ["undecided"]


def left_on(*nodes: str, key: str = "k1", since: float = 290, until: float = 400, times: int = 3) -> History:
    history = tried(times).watch("n1", "n2", "n3")
    for node in nodes:
        history.seen(node, "set", since, f"left on {node}", key=key).seen(node, "deleted", until, key=key)
    return history


def test_keys_that_the_witness_saw_in_the_way_are_the_locks() -> None:
    assert blamed(left_on("n1", "n2")) == ["lock"]
    assert blamed(left_on("n1")) == ["undecided"]
    assert blamed(left_on("n1", "n2", since=300, until=379)) == ["lock"]
    assert blamed(left_on("n1", "n2", key="other")) == ["undecided"]


@pytest.mark.parametrize(("until", "blame"), [(200, "lock"), (None, "undecided")])
def test_keys_of_a_section_that_was_left_without_a_release_are_its_clients_doing(
    until: float | None, blame: str
) -> None:
    history = refused(History().section("c1", 150, until, asked=145), 300, 360, every=20).watch("n1", "n2", "n3")
    for node in ("n1", "n2"):
        history.seen(node, "set", 149, "own", since=146).seen(node, "deleted", 400)
    assert blamed(history.sets("c1", "own")) == [blame]


def test_keys_that_came_or_went_during_a_try_may_not_have_been_in_its_way() -> None:
    assert blamed(left_on("n1", "n2", since=320.1)) == ["undecided"]
    assert blamed(left_on("n1", "n2", until=338.9)) == ["undecided"]
    assert blamed(left_on("n1", "n2", since=300.1)) == ["lock"], "two tries of three"
    assert blamed(left_on("n1", "n2", since=320)) == ["lock"]
    assert blamed(left_on("n1", "n2", until=339)) == ["lock"]
    assert blamed(left_on("n1", "n2", until=339, times=4)) == ["lock"], "two tries of four"
    assert blamed(left_on("n1", "n2", until=339, times=5)) == ["undecided"]


@pytest.mark.parametrize(
    ("spans", "verdict"),
    [
        ({"n1": (300, 359), "n2": (310, 340)}, []),
        ({"n1": (299.9, 340), "n2": (310, 340)}, ["undecided"]),
        ({"n1": (310, 359.1), "n2": (310, 340)}, ["undecided"]),
        ({"n1": (310, 340)}, ["undecided"]),
    ],
)
def test_nobody_is_alone_while_somebody_comes_and_goes(
    spans: dict[str, tuple[float, float]], verdict: list[str]
) -> None:
    """A thread that is not on record, say, is let in and leaves again."""
    history = tried().watch("n1", "n2", "n3")
    for node, (since, until) in spans.items():
        history.seen(node, "set", since, "another's").seen(node, "deleted", until)
    assert blamed(history) == verdict


def test_what_comes_and_goes_must_be_one_value_of_this_key_that_was_read_and_deleted() -> None:
    def came_and_went(first: str | None, second: str | None, how: Any = "deleted", key: str = "k1") -> list[str]:
        history = tried().watch("n1", "n2", "n3")
        for node, value in (("n1", first), ("n2", second)):
            history.seen(node, "set", 310, value, key=key).seen(node, how, 340, key=key)
        return blamed(history.seen("n3", "set", 100, "z").seen("n3", "deleted", 110))

    assert came_and_went("a", "a") == []
    assert came_and_went("a", "b") == ["undecided"]
    assert came_and_went(None, None) == ["undecided"]
    assert came_and_went("a", "a", how="expired") == ["undecided"]
    assert came_and_went("a", "a", key="k2") == ["undecided"]


def test_what_one_node_held_twice_is_one_node() -> None:
    history = tried().watch("n1", "n2", "n3").seen("n1", "set", 290, "a").seen("n1", "set", 300, "b")
    assert blamed(history.seen("n1", "deleted", 400)) == ["undecided"]


def test_of_four_nodes_two_that_are_taken_leave_no_majority() -> None:
    history = left_on("n1", "n2")
    history.config = msgspec.structs.replace(history.config, nodes=4)
    assert blamed(history) == ["lock"]


def test_spells_with_and_without_keys_are_told_apart() -> None:
    history = refused(left_on("n1", "n2"), 500, 700, section=3)
    lock, undecided = check(history.recorded()).findings
    assert (lock.blame, lock.count, undecided.blame, undecided.count) == ("lock", 1, "undecided", 1)
    assert (lock.examples[0]["at_ms"], undecided.examples[0]["at_ms"]) == (300, 500)


def test_the_longest_is_told_and_shown_with_the_first_ones(golden: Golden) -> None:
    history = History().section("c1", 150, 200)
    for section, (since, until) in enumerate(((300, 360), (400, 470), (500, 550), (600, 660), (700, 790)), 2):
        refused(history, since, until, section=section)
    (finding,) = check(history.recorded()).findings
    golden(finding.text)
    assert [example["at_ms"] for example in finding.examples] == [300, 400, 600, 700]
    (finding,) = check(alone().recorded()).findings
    assert "(once, TTL" in finding.text
    (finding,) = check(refused(alone(), 500, 700, section=3).recorded()).findings
    assert [example["at_ms"] for example in finding.examples] == [300, 500]


@pytest.mark.parametrize(("until", "times"), [(349, 0), (350, 1)])
def test_less_than_half_a_ttl_is_nothing(until: float, times: int) -> None:
    history = History().section("c1", 150, 200)
    for at, end in ((300, 310), (320, 330), (340, until)):
        history.op("c1", "acquire", "fail", 2, at, end)
    assert found(history) == times


def test_two_tries_are_nothing_however_long_they_took() -> None:
    history = History().section("c1", 150, 200)
    assert found(history.op("c1", "acquire", "fail", 2, 300, 350).op("c1", "acquire", "fail", 2, 360, 420)) == 0


def test_who_was_granted_in_between_was_refused_twice_for_a_short_time() -> None:
    history = refused(History().section("c1", 150, 200), 300, 340)
    assert found(refused(history.section("c1", 345, 350, number=2, asked=341), 360, 400, section=3)) == 0


def test_an_answer_that_nobody_knows_is_no_refusal() -> None:
    history = refused(History().section("c1", 150, 200), 300, 340).op("c1", "acquire", "info", 2, 341, 349)
    assert found(refused(history, 350, 390)) == 0


@pytest.mark.parametrize(
    ("start", "end", "times"),
    [(290, 345, 0), (290, 299.5, 1), (345, 360, 0), (401, 420, 1)],
)
def test_not_while_another_client_is_inside(start: float, end: float, times: int) -> None:
    assert found(alone().section("c2", start, end, asked=start - 0.1)) == times


def test_somebody_inside_another_lock_is_no_excuse() -> None:
    assert found(alone().section("c2", 290, 500, key="k2")) == 1


def test_not_while_another_client_tries_as_well() -> None:
    assert found(alone().op("c2", "acquire", "fail", 1, 340, 350)) == 0
    assert found(alone().op("c2", "acquire", "fail", 1, 340, 350, key="k2")) == 1


@pytest.mark.parametrize(("since", "until"), [(399, 405), (290, 300)])
def test_who_touches_a_try_spoils_it(since: float, until: float) -> None:
    answer = check(alone().op("c2", "acquire", "fail", 1, since, until).recorded())
    assert answer.figures.longest_refused_alone_ms == 89


def test_not_while_another_client_may_have_tried_unseen() -> None:
    assert found(alone().op("c2", "acquire", "fail", 1, 10, 20).end("c2", "cut-off", 1000)) == 0
    assert found(alone().op("c2", "acquire", "fail", 1, 10, 20).end("c2", "finished", 1000)) == 1
    seen = alone().op("c2", "acquire", "fail", 1, 10, 20).op("c2", "acquire", "fail", 1, 500, 510)
    assert found(seen.end("c2", "cut-off", 1000)) == 1


@pytest.mark.parametrize(("healed", "times"), [(190, 1), (250, 0)])
def test_not_before_a_ttl_has_passed_since_the_last_change(healed: float, times: int) -> None:
    assert found(alone().fault("f1", 100, healed, cut_links=(("c1", "n1"),))) == times


def test_a_ttl_after_the_last_change_it_begins() -> None:
    answer = check(alone().fault("f1", 100, 200, cut_links=(("c1", "n1"),)).recorded())
    assert answer.figures.longest_refused_alone_ms == 99


def test_not_without_a_majority_in_reach() -> None:
    assert found(alone(since=350).fault("f1", 220, None, cut_links=MAJORITY)) == 0
    assert found(alone(since=350, until=450).fault("f1", 120, None, cut_links=MAJORITY[:1])) == 1


def test_a_lock_that_needs_a_node_which_is_out_of_reach_is_not_blamed_for_needing_it() -> None:
    without_n1 = {"cut_links": (("c1", "n1"),)}
    assert found(alone(since=400, until=500).fault("f1", 220, None, **without_n1)) == 0
    history = refused(History().section("c1", 150, 200).section("c1", 250, 260, number=2), 400, 500, section=3)
    assert found(history.fault("f1", 220, None, **without_n1)) == 1, "it was granted without that node"


@pytest.mark.parametrize(
    ("asked", "start", "fault", "times"),
    [
        (249, 250, {}, 1),
        (220.4, 220.5, {}, 0),
        (221, 221.5, {}, 0),
        (221.1, 221.5, {}, 1),
        (598, 598.9, {}, 1),
        (598, 599, {}, 0),
        (599.4, 599.5, {}, 0),
        (249, 250, {"holds": False}, 0),
    ],
)
def test_a_grant_while_a_fault_comes_or_goes_or_may_not_work_proves_nothing(
    asked: float, start: float, fault: dict[str, Any], times: int
) -> None:
    history = History().section("c1", 150, 200).section("c1", start, start + 1, number=2, asked=asked)
    refused(history, 400, 500, section=3)
    assert found(history.fault("f1", 220, 600, cut_links=(("c1", "n1"),), **fault)) == times


def test_the_death_of_a_holder_is_a_change() -> None:
    killed = History().section("c1", 250, None).end("c1", "killed", 260)
    for at in range(300, 400, 10):
        killed.op("c1", "acquire", "fail", 1, at, at + 9, life=2)
    assert found(killed) == 0
    for at in range(400, 500, 10):
        killed.op("c1", "acquire", "fail", 1, at, at + 9, life=2)
    assert found(killed) == 1


def test_tries_at_the_very_start_of_the_run_are_left_alone_for_a_ttl() -> None:
    assert found(refused(History(), 0, 99, section=1).section("c1", 300, 310)) == 0
    assert found(refused(History(), 101, 200, section=1).section("c1", 300, 310)) == 1


def test_a_lock_that_was_never_granted_is_not_judged_by_refusals() -> None:
    assert found(refused(History(), 101, 200, section=1)) == 0


@pytest.mark.parametrize(("asked", "start"), [(0, 1), (300, 310)])
def test_one_grant_at_the_very_begin_or_end_shows_that_it_can_be_granted(asked: float, start: float) -> None:
    assert found(refused(History().section("c1", start, None, number=2, asked=asked, key="k2"), 101, 200)) == 1


def test_a_run_without_refusals_has_none() -> None:
    assert check(History().section("c1", 1, 2).recorded()).figures.refused_alone == 0
    assert check(History().recorded()).figures.refused_alone == 0
    assert ms(0) > 0


tries = st.lists(
    st.tuples(
        st.sampled_from(["c1"] * 5 + ["c2"]),
        st.sampled_from(["k1"] * 6 + ["k2"]),
        st.sampled_from(["fail"] * 12 + ["info", "ok"]),
        st.integers(0, 10),
        st.integers(0, 25),
        st.booleans(),
    ),
    min_size=8,
    max_size=25,
)


@settings(max_examples=120)
@given(tries)
def test_who_is_refused_alone_is_found_by_a_plain_loop_as_well(planned: list[Any]) -> None:
    history = History().section("c1", 10, 20)
    now, section = {"c1": 80, "c2": 80}, {"c1": 1, "c2": 0}
    done: dict[str, list[tuple[int, str, str, int, int]]] = {"c1": [], "c2": []}
    touched = [("c1", "k1", 9, 21)]
    for client, key, outcome, wait, length, anew in planned:
        if not done[client] or done[client][-1][1] != key or done[client][-1][2] == "ok" or (anew and wait > 5):
            section[client] += 1
        since, until = now[client] + wait, now[client] + wait + length
        history.op(client, "acquire", outcome, section[client], since, until, key=key)
        held = 0
        if outcome == "ok":
            held = 5
            history.op(client, "release", "ok", section[client], until + held, until + held + 1, key=key)
        now[client] = until + held + 1 if held else until
        touched.append((client, key, since, now[client]))
        done[client].append((section[client], key, outcome, since, until))
    expected = []
    for client, ops in done.items():
        spell: list[tuple[int, int, int]] = []
        for number, key, outcome, since, until in [*ops, (-1, "", "ok", 0, 0)]:
            others = [(a, b) for who, what, a, b in touched if who != client and what == key]
            alone = not any(a <= until and since <= b for a, b in others)
            counts = outcome == "fail" and since >= 100 and alone
            if spell and not (counts and spell[-1][0] == number):
                if len(spell) >= 3 and spell[-1][2] - spell[0][1] >= 50:
                    expected.append((spell[0][1], client, spell[-1][2] - spell[0][1], len(spell)))
                spell = []
            if counts:
                spell.append((number, since, until))
    answer = check(history.recorded())
    event(f"{len(expected)} spells")
    assert answer.figures.refused_alone == len(expected)
    if expected:
        shown = [(e["at_ms"], e["client"], e["for_ms"], e["tries"]) for e in answer.findings[0].examples]
        assert set(shown) <= set(expected)
        assert answer.figures.longest_refused_alone_ms == max(for_ms for _, _, for_ms, _ in expected)

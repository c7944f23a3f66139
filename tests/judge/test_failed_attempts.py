"""What the nodes show of tries that let nobody in: c2 tries from 200 to 4000, and the lock is free."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.failed_attempts import VainTries
from tests.golden import Golden
from tests.judge import test_starvation
from tests.judge.histories import History, ms
from tests.judge.test_starvation import more, only, tried

NODES = ("n1", "n2", "n3")
DOWN: dict[str, Any] = {"nodes": ("n3",), "how_down": "kill", "keys_at_stake": ()}


def seen(outcome: Any = "fail") -> History:
    history = tried(200, 4000 if outcome == "fail" else 0).watch(*NODES)
    if outcome != "fail":
        for at in range(200, 4000, 110):
            history.op("c2", "acquire", outcome, 1, at, min(at + 100, 4000))
    return history


def held(history: History, node: str, since: float, until: float, value: str | None = "left") -> History:
    return history.seen(node, "set", since, value).seen(node, "deleted", until)


def stuck(*nodes: str, since: float = 300, until: float = 4000) -> History:
    history = seen()
    for node in nodes:
        history.seen(node, "set", since, "left").seen(node, "deleted", until)
    return history


def test_keys_that_are_stuck() -> None:
    assert why(stuck("n1", "n3")) == ("stuck keys", ("n1", "n3"))
    assert why(stuck("n1", "n3", since=2099)) == ("stuck keys", ("n1", "n3"))
    assert why(stuck("n1", "n3", since=2100)) == ("split votes", ("n1", "n3"))
    assert why(stuck("n1", "n3", since=150, until=2099)) == ("unknown", ())


def test_votes_that_were_split(golden: Golden) -> None:
    history = seen()
    for at in range(300, 3900, 400):
        history.seen("n1", "set", at, f"a{at}").seen("n1", "deleted", at + 50)
        history.seen("n2", "set", at, f"b{at}").seen("n2", "deleted", at + 50)
    assert why(history) == ("split votes", ())
    golden(only(history).text)


@pytest.mark.parametrize(("until", "nodes"), [(415.1, ("n1", "n2")), (415, ())])
def test_votes_that_are_split_by_keys_that_stay_after_their_tries(
    until: float, nodes: tuple[str, ...], golden: Golden
) -> None:
    """A try lasts from 310 to 410. Its keys are there from 405 on: 5 ms during the try, and 5 ms or more after it."""
    history = held(held(seen(), "n1", 405, until, "a"), "n2", 405, until, "b")
    assert why(history) == ("split votes", nodes)
    golden(only(history).text)


def test_a_key_from_before_the_gap_is_not_one_that_its_tries_left() -> None:
    history = held(held(held(seen(), "n3", 150, 1500), "n1", 315, 400, "a"), "n2", 315, 400, "b")
    assert why(history) == ("split votes", ())


def test_votes_that_are_split_while_a_node_is_down_are_nobody_s_fault() -> None:
    """A lock that waits for the node in vain has few rounds in this time."""
    history = seen().fault("f", 150, 3900, **DOWN)
    held(held(history, "n1", 300, 700, "a"), "n2", 300, 700, "b")
    assert why(history)[0] == "split votes"
    assert only(history).examples[0]["absent"] == ("n3",)
    assert only(history).blame == "undecided"


@pytest.mark.parametrize(
    ("at", "kind"), [(199.9, "unknown"), (200, "split votes"), (4000, "split votes"), (4000.1, "unknown")]
)
def test_a_vote_counts_if_it_came_within_the_gap(at: float, kind: str) -> None:
    assert why(stuck("n1", "n3", since=at, until=at + 50)) == (kind, ())


def why(history: History) -> tuple[str, tuple[str, ...]]:
    """The obstacle and its nodes; the nodes were in sight until long after."""
    for node in NODES:
        history.seen(node, "blind", 9000)
    return test_starvation.why(history)


# Keys that are stuck.


def test_keys_that_follow_each_other_are_stuck_together() -> None:
    """Each stays for less than half of the time, and long after its try was over."""
    history = seen()
    for at in (300, 1300, 2300):
        held(held(history, "n1", at, at + 900, f"a{at}"), "n2", at + 50, at + 950, f"b{at}")
    assert why(history) == ("stuck keys", ("n1", "n2"))
    assert only(history).examples[0]["absent"] == ()


@pytest.mark.parametrize(("last", "kind"), [(3110.1, "stuck keys"), (3110, "split votes")])
def test_stuck_for_more_than_half_of_the_time(last: float, kind: str) -> None:
    """The tries that set them end at 300 and 2280: the keys are nobody's for 900 ms, and for 1000."""
    history = seen()
    for node in ("n1", "n2"):
        held(held(history, node, 290, 1200, "a"), node, 2190, last + 170, "b")
    assert why(history)[0] == kind


@pytest.mark.parametrize(("until", "kind"), [(2200.1, "stuck keys"), (2200, "split votes")])
def test_a_key_that_stays_for_more_than_half_of_the_time_is_nobody_s_although_its_try_goes_on(
    until: float, kind: str
) -> None:
    """What stays for 1900 ms of 3800 may be a try's that goes on until 2100; later keys are nobody's for 150 ms."""
    history = tried(0, 0).op("c2", "acquire", "fail", 1, 200, 2100).watch(*NODES)
    more(history, 2250, 4000)
    for node in ("n1", "n2"):
        held(held(history, node, 300, until, "a"), node, 3000, 3200, "b")
    assert why(history)[0] == kind


def test_keys_that_are_stuck_at_different_times_leave_a_majority_free() -> None:
    history = seen()
    for at in (300, 2100):
        held(held(history, "n1", at, at + 900, f"a{at}"), "n2", at + 900, at + 1800, f"b{at}")
    assert why(history)[0] == "split votes"


def test_a_key_of_a_former_section_is_nobody_s_from_the_beginning() -> None:
    """It was set anew; the tries go on for so long that the key of a try would be owned."""
    history = tried(0, 0).op("c2", "acquire", "fail", 1, 200, 4000).watch(*NODES).sets("c1", "own")
    for node in ("n1", "n2"):
        held(held(history, node, 9, 1900, "own"), node, 2000, 2300, "own")
    assert why(history) == ("stuck keys", ("n1", "n2"))


@pytest.mark.parametrize(
    ("is_released", "again", "kind"),
    [(False, True, "forgotten keys"), (True, True, "stuck keys"), (False, False, "stuck keys")],
)
def test_a_client_that_acquires_again_without_a_release_keeps_its_keys_there(
    is_released: bool, again: bool, kind: str
) -> None:
    """The lock renews them. A client that died, and does not acquire again, forgot nothing."""
    history = History(ttl_ms=1000).section("c1", 10, 100 if is_released else None)
    history.op("c1", "acquire", "fail", 2, 150, 190) if again else history.end("c1", "died", 150)
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(90_000), ms(95_000), ms(99_000)
    more(history, 200, 4000).watch(*NODES).sets("c1", "own")
    for node in ("n1", "n2"):
        held(history, node, 9, 4000, "own")
    assert why(history) == (kind, ("n1", "n2"))


def test_the_key_of_a_try_that_goes_on_is_not_stuck() -> None:
    history = tried(0, 0).op("c2", "acquire", "fail", 1, 200, 4000).watch(*NODES)
    for node in ("n1", "n2"):
        held(held(history, node, 250, 1900, "a"), node, 2000, 2300, "b")
    assert why(history) == ("split votes", ())


# While a node is down.


def test_a_node_that_is_down_is_no_excuse_for_keys_that_are_stuck() -> None:
    history = held(seen().fault("f", 150, 3900, **DOWN), "n1", 300, 3900, "a")
    assert why(history) == ("stuck keys", ("n1",))
    assert only(history).examples[0]["absent"] == ("n3",)


def test_keys_on_the_node_that_is_down_are_not_stuck() -> None:
    history = held(seen().fault("f", 150, 3900, **DOWN), "n3", 300, 3900, "a")
    assert why(history) == ("nothing set", ("n1", "n2"))
    history = held(seen().fault("f", 150, 3900, **DOWN), "n3", 100, 3900, "a")
    assert why(held(history, "n1", 300, 310, "b")) == ("nothing set", ("n2",))


def test_a_lock_that_wants_the_node_that_is_down() -> None:
    """Its tries have a majority, and are not let in."""
    history = seen().fault("f", 150, 3900, **DOWN)
    for node in ("n1", "n2"):
        held(history, node, 300, 3900, "a")
    assert why(history) == ("down", ("n3",))


def test_what_the_node_that_is_not_there_holds_need_not_be_known() -> None:
    """Its reply did not arrive, so the try had no majority as far as it knew."""
    history = seen().fault("f", 150, 3900, cut_links=(("c2", "n3"),))
    for node in ("n1", "n3"):
        held(history, node, 300, 700, "a")
    assert why(history)[0] == "split votes"


def test_a_lock_that_wants_every_node_while_one_after_the_other_is_not_there() -> None:
    def turns(first: tuple[float, float], second: tuple[float, float], value: str = "a") -> History:
        history = seen().fault("f", *first, **DOWN).fault("g", *second, cut_links=(("c2", "n1"),))
        return held(held(history, "n1", 300, 700, value), "n2", 300, 700, "a")

    assert why(turns((200, 1200), (1200, 2101))) == ("absent in turn", ("n1", "n3"))
    assert why(turns((200, 1200), (1200, 2100)))[0] == "split votes", "somebody was absent for half of the time"
    assert why(turns((200, 1200), (1200, 2200), value="b"))[0] == "split votes", "no try had a majority"
    assert why(turns((200, 2101), (3950, 4000))) == ("down", ("n3",))
    assert why(turns((100, 199), (300, 2101)))[0] != "absent in turn", "it was one node"


@pytest.mark.parametrize(
    ("since", "value"), [(199.9, "a"), (300, None), (4000.1, "a")], ids=["before", "unread", "after"]
)
def test_no_try_of_this_time_is_known_to_have_had_a_majority(since: float, value: str | None) -> None:
    history = held(seen().fault("f", 150, 3900, **DOWN), "n1", 210, 3900, "b")
    for node in ("n1", "n2"):
        history.seen(node, "set", since, value, key="k1")
    vain = VainTries.of(history.recorded(), "k1", ms(200), ms(4000))
    assert vain is not None
    assert not vain.had_a_majority()


@pytest.mark.parametrize("since", [200, 4000])
def test_a_try_that_had_a_majority_within_this_time(since: float) -> None:
    history = seen()
    for node in ("n1", "n2"):
        history.seen(node, "set", since, "a")
    vain = VainTries.of(history.recorded(), "k1", ms(200), ms(4000))
    assert vain is not None
    assert vain.had_a_majority()


def test_one_of_the_tries_that_had_a_majority_is_enough() -> None:
    history = held(seen(), "n3", 300, 400, "b")
    for node in ("n1", "n2"):
        held(history, node, 500, 600, "a")
    vain = VainTries.of(history.recorded(), "k1", ms(200), ms(4000))
    assert vain is not None
    assert vain.had_a_majority()


def test_tries_that_end_with_an_error_while_a_node_is_down() -> None:
    """What they leave does not keep them out."""
    assert why(held(seen("info").fault("f", 150, 3900, **DOWN), "n1", 300, 3900)) == ("down", ("n3",))
    assert why(held(seen("info"), "n1", 300, 3900)) == ("nothing set", ("n2", "n3"))


def test_half_of_the_tries_were_refused() -> None:
    history = tried(0, 0).fault("f", 150, 3900, **DOWN).watch(*NODES)
    history.op("c2", "acquire", "fail", 1, 200, 2000).op("c2", "acquire", "info", 1, 2000, 4000)
    assert why(held(history, "n1", 210, 3900))[0] == "stuck keys"


def test_tries_of_another_time_or_key_do_not_count() -> None:
    history = tried(0, 0).fault("f", 150, 3900, **DOWN).watch(*NODES)
    history.op("c2", "acquire", "fail", 1, 200, 4000)
    for at in range(10):
        history.op("c1", "acquire", "info", 2, 300 + at, 301 + at, key="k2")
        history.op("c1", "acquire", "info", 2, 101 + at, 102 + at).op("c1", "acquire", "info", 3, 4001 + at, 4002 + at)
    assert why(held(history, "n1", 210, 3900))[0] == "stuck keys"


# Nodes that were not asked.


def asked(*nodes: str, at: float = 300, **fault: Any) -> History:
    """A try set something on these nodes, and on no other."""
    history = seen()
    if fault:
        history.fault("f", 150, 3900, **fault)
    for node in nodes:
        held(history, node, at, at + 10, f"a{node}")
    return history


def test_nodes_on_which_no_try_set_anything(golden: Golden) -> None:
    history = asked("n1")
    assert why(history) == ("nothing set", ("n2", "n3"))
    one_less = asked("n1", **DOWN)
    assert why(one_less) == ("nothing set", ("n2",))
    golden(only(one_less).text)
    golden(only(history).text)
    assert why(asked("n1", "n2"))[0] == "split votes"


@pytest.mark.parametrize(
    ("client", "node", "at", "kind"),
    [
        ("c2", "n2", 500, "nothing set"),
        ("c2", "n1", 500, "nothing asked"),
        ("c1", "n2", 500, "nothing asked"),
        ("c2", "n2", 199, "nothing asked"),
    ],
    ids=["it asked one of them", "it asked another node", "another client asked", "before that"],
)
def test_nodes_that_no_client_asked_while_it_tried(client: str, node: str, at: float, kind: str) -> None:
    history = asked("n1").request(client, node, "GET k9", at, at + 1, sent=at, did=False)
    for name in NODES:
        history.request("c2", name, "PING", 50, 51, did=False)
    assert why(history)[0] == kind


def test_whether_anything_arrived_is_known_from_any_key() -> None:
    other = asked().seen("n1", "set", 100, "a").seen("n1", "deleted", 110)
    assert why(other) == ("unknown", ())
    # n1 shows the key as of before this time.
    assert why(other.op("c1", "acquire", "fail", 2, 5000, 5001, key="k2").seen("n3", "set", 300, "b", key="k2")) == (
        "nothing set",
        ("n1", "n2", "n3"),
    )


@pytest.mark.parametrize(("until", "nodes"), [(2100, ("n2", "n3")), (2101, ())])
def test_a_node_that_was_free_for_most_of_the_time_was_not_asked(until: float, nodes: tuple[str, ...]) -> None:
    history = held(asked("n1"), "n3", 150, until, "before")
    assert why(history) == (("nothing set", nodes) if nodes else ("unknown", ()))


@pytest.mark.parametrize(("at", "kind"), [(199.9, "nothing set"), (200, "unknown")])
def test_what_may_have_been_set_in_this_time_was_asked_for(at: float, kind: str) -> None:
    history = asked("n1").seen("n3", "set", at, "early", since=190).seen("n3", "deleted", 250)
    assert why(history)[0] == kind


@pytest.mark.parametrize(("tries", "kind"), [(2, "down"), (3, "nothing set")])
def test_a_few_tries_may_all_have_waited_for_the_node_that_is_not_there(tries: int, kind: str) -> None:
    history = tried(0, 0).fault("f", 150, 3900, **DOWN).watch(*NODES)
    held(history, "n1", 100, 150).op("c1", "acquire", "ok", 9, 10, 100)
    for number in range(tries):
        history.op("c2", "acquire", "fail", 1, 200 + 3800 / tries * number, 199 + 3800 / tries * (number + 1))
    assert why(history)[0] == kind


@pytest.mark.parametrize(("at", "kind"), [(199.9, "unknown"), (200, "nothing set"), (4000, "nothing set")])
def test_what_arrived_within_this_time_counts(at: float, kind: str) -> None:
    assert why(asked("n1", at=at))[0] == kind


def test_what_is_set_after_this_time_says_nothing() -> None:
    assert why(asked("n1", at=4000.1))[0] == "unknown"


def test_a_key_that_no_node_ever_showed_says_nothing() -> None:
    """The lock may use another name."""
    assert why(tried(200, 4000).watch(*NODES)) == ("unknown", ())


@pytest.mark.parametrize(("blind", "kind"), [(2100.1, "nothing set"), (2100, "unknown")])
def test_a_node_counts_that_was_in_sight_for_most_of_the_time(blind: float, kind: str) -> None:
    history = asked("n1").seen("n2", "blind", blind).seen("n2", "watching", 5000, "again")
    assert why(history)[0] == kind


def test_the_times_in_sight_are_added_up() -> None:
    history = asked("n1").seen("n2", "blind", 1200).seen("n2", "watching", 3000, "again").seen("n2", "blind", 4500)
    assert why(history)[0] == "nothing set"
    history = asked("n1").seen("n2", "blind", 1100).seen("n2", "watching", 3100, "again")
    assert why(history.seen("n2", "blind", 6000))[0] == "unknown"


def granted() -> History:
    history = seen().section("c2", 4_050, 4_100, number=2, asked=3_960, deadline=4_900).sets("c2", "own", number=2)
    for node in ("n1", "n2"):
        held(history, node, 3_990, 4_100, "own")
    return history


def test_what_is_set_for_the_grant_that_ends_the_time_is_not_set_in_vain() -> None:
    assert why(granted()) == ("nothing set", NODES)


def test_a_call_may_try_in_vain_with_the_value_that_it_gets_in_with() -> None:
    assert why(held(granted(), "n1", 3_970, 3_980, "own")) == ("nothing set", ("n2", "n3"))

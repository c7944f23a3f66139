"""Leases that last longer than the keys behind them. TTL 100 ms; the margin is 5 ms, and 0.05 ms for clocks."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import explain
from harness.checkers.key_lifetimes import Figures, check
from harness.verdict import Answer, Finding, Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms

NODES = ("n1", "n2", "n3")


def kept(*ttls: int | None, lease: float = 105, end: float = 50, **more: Any) -> History:
    """c1 asked at 5, was let in at 10 until `lease`, and left at `end`; the nodes set its key at 8 with these times to
    live, read at 9."""
    history = History().watch(*NODES).section("c1", 10, end, asked=5, deadline=lease, **more).sets("c1", "v1")
    for node, ttl in zip(NODES, ttls, strict=False):
        history.seen(node, "set", 8, "v1", since=6, ttl=ttl, read=9)
    for node in NODES[len(ttls) :]:
        history.seen(node, "set", 3, "other")
    return history


def watched(history: History) -> Any:
    """To the end."""
    for node in NODES:
        history.seen(node, "blind", 900)
    return check(history.recorded()).figures


def short(history: History) -> list[float]:
    """By how much, in ms, the lease was longer than the keys; empty if it was not or nobody knows."""
    figures = watched(history)
    return [figures.longest_ms] if figures.short else []


def only(history: History) -> Finding:
    watched(history)
    (finding,) = check(history.recorded()).findings
    return finding


def test_a_run_that_nobody_watched_gives_no_answer() -> None:
    assert check(History().section("c1", 10, 50).recorded()) == Answer()


def test_keys_that_live_as_long_as_the_lease() -> None:
    assert watched(kept(100, 100, 100)) == Figures(sections=1, short=0, longest_ms=0)


def test_a_lease_that_was_promised_for_longer_than_the_keys_live(golden: Golden) -> None:
    finding = only(kept(60, 60, 60))
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "lease-outlasts-keys",
        "lock",
        "lease",
        1,
    )
    golden(finding.text)
    assert finding.examples == (
        {
            "client": "c1",
            "life": 1,
            "section": 1,
            "key": "k1",
            "at_ms": 10,
            "lease_until_ms": 105,
            "keys_until_ms": 70,
        },
    )


@pytest.mark.parametrize(("lease", "by"), [(75.05, []), (75.06, [5.06]), (200, [130])])
def test_a_few_milliseconds_are_rounding(lease: float, by: list[float]) -> None:
    assert short(kept(60, 60, 60, lease=lease)) == pytest.approx(by)


def test_the_margin_grows_with_the_lease() -> None:
    """A server's clock may run slower by 0.05 %."""
    long = {"granted_ms": 20_000.0}
    assert short(kept(60, 60, 60, lease=85, **long)) == []
    assert short(kept(60, 60, 60, lease=85.01, **long)) == pytest.approx([15.01])


@pytest.mark.parametrize(
    ("ttls", "by"),
    [((60, 100, 100), []), ((60, 60, 100), [35]), ((100, 100), []), ((60, 100), [35]), ((70, 60), [35])],
)
def test_what_counts_is_how_long_a_majority_lives(ttls: tuple[int, ...], by: list[float]) -> None:
    assert short(kept(*ttls)) == by


def test_keys_that_no_majority_ever_had_do_not_live_too_short() -> None:
    assert watched(kept(60)).sections == 0


def test_what_is_not_known_may_live_for_ever() -> None:
    assert short(kept(60, None, 60)) == [35]
    assert watched(kept(60, None, None)).sections == 0
    unread = kept(60, 60)
    unread.key_events = [event for event in unread.key_events if event.node != "n3"]
    assert watched(unread.watch("n3").seen("n3", "set", 7).seen("n3", "deleted", 60)).sections == 1
    both = History().watch(*NODES).section("c1", 10, 50, asked=5, deadline=105).sets("c1", "v1")
    both.seen("n1", "set", 8, "v1", ttl=60, read=9)
    assert watched(both.seen("n2", "set", 7).seen("n3", "set", 7)).sections == 0


def test_a_value_that_was_there_before_the_client_asked_or_came_when_it_had_left_is_not_its_own() -> None:
    history = kept(60, 60)
    history.key_events = [event for event in history.key_events if event.node != "n3"]
    history.watch("n3").seen("n3", "set", 2).seen("n3", "deleted", 4.9).seen("n3", "set", 50.1)
    assert short(history) == [35]
    history = kept(60, 60)
    history.key_events = [event for event in history.key_events if event.node != "n3"]
    assert watched(history.watch("n3").seen("n3", "set", 7)).sections == 1
    history = kept(60)
    history.key_events = [event for event in history.key_events if event.node not in ("n2", "n3")]
    history.watch("n2", "n3").seen("n2", "set", 8, "v1", ttl=60, read=9)
    assert watched(history.seen("n3", "set", 2).seen("n3", "deleted", 5)).sections == 1


def test_a_node_that_was_out_of_sight_may_have_held_it_for_longer() -> None:
    for since, until, known in ((30, 40, 0), (2, 5, 1), (2, 5.1, 0), (49.9, 60, 0), (50, 60, 1)):
        history = kept(60, None)  # nobody knows of n2
        history.key_events = [event for event in history.key_events if event.node != "n1"]
        history.watch("n1")
        if until < 8:
            history.seen("n1", "blind", since).seen("n1", "watching", until, "n1-first")
        history.seen("n1", "set", 8, "v1", since=6, ttl=60, read=9)
        if until > 8:
            history.seen("n1", "blind", since).seen("n1", "watching", until, "n1-first")
        assert watched(history).sections == known, (since, until)


def test_a_key_that_was_set_again_lives_as_long_as_the_later_one() -> None:
    history = kept(60, 60, 60, lease=205)
    for node in NODES:
        history.seen(node, "deleted", 20).seen(node, "set", 21, "v1", ttl=200, read=22)
    assert short(history) == []


def test_an_extension_of_the_keys_counts() -> None:
    history = kept(60, 60, 60, lease=205)
    for node in NODES[:2]:
        history.seen(node, "prolonged", 40, "v1", ttl=170, read=41)
    assert short(history) == []
    history = kept(60, 60, 60, lease=205)
    for node in NODES[:2]:
        history.seen(node, "prolonged", 40, "v1", ttl=100, read=41)
    assert short(history) == [205 - 142]


def test_keys_that_were_set_after_the_earliest_end_of_the_lease_count() -> None:
    """A lease may have been counted from the first attempt of a call whose last one was granted."""

    def granted_late(again: int | None) -> Any:
        history = History().watch(*NODES).section("c1", 300, 310, asked=5, deadline=250).sets("c1", "v1")
        for node in NODES:
            history.seen(node, "set", 8, "v1", since=6, ttl=100, read=9).seen(node, "expired", 108)
            if again is not None:
                history.seen(node, "set", again, "v1", ttl=100, read=again + 1)
        return short(history)

    assert granted_late(290) == []
    assert granted_late(300) == []
    assert granted_late(301) == [250 - 108]
    assert granted_late(None) == [250 - 108]


def test_a_lock_that_says_yes_and_no_more_is_good_for_what_was_asked_for() -> None:
    def said_yes(ttl: int) -> list[float]:
        history = History().watch(*NODES).op("c1", "acquire", "ok", 1, 5, 10, granted_ms=100.0).sets("c1", "v1")
        for node in NODES:
            history.seen(node, "set", 8, "v1", since=6, ttl=ttl, read=9)
        return short(history.op("c1", "release", "ok", 1, 50, 51))

    assert said_yes(100) == []
    assert said_yes(50) == pytest.approx([5 + 99.95 - 1 - 60])


def test_the_longest_is_told_and_shown_with_the_first_ones() -> None:
    history = History().watch(*NODES)
    for number, lease in enumerate((80, 90, 80, 80, 120), 1):
        at = 150 * number
        history.section("c1", at, at + 20, number=number, deadline=at + lease).sets("c1", f"v{number}", number=number)
        for node in NODES:
            history.seen(node, "set", at, f"v{number}", ttl=50, read=at).seen(node, "deleted", at + 21)
    finding = only(history)
    assert (finding.count, [example["section"] for example in finding.examples]) == (5, [1, 2, 3, 5])
    assert watched(history).longest_ms == pytest.approx(69)


# Sections whose lease is extended: each lease is compared with the keys as they were until the next extension.


def extended(*prolonged: tuple[str, float], again: float | None = None, **more: Any) -> History:
    """c1 has the lock from 10 on, until 105; it asks for an extension at 60 and has it at 65, until 160. The nodes
    prolong its keys by 100 ms at these times. At `again` it asks once more, and then gets 100 ms on all nodes."""
    history = kept(100, 100, 100, end=more.pop("end", 140))
    history.op("c1", "extend", "ok", 1, 60, 65, deadline_ns=ms(more.pop("until", 160)), validity_ms=95)
    for node, at in sorted(prolonged, key=lambda one: one[1]):
        history.seen(node, "prolonged", at, "v1", since=at - 1, ttl=100, read=at)
    if again is not None:
        outcome = more.pop("outcome", "ok")
        history.op("c1", "extend", outcome, 1, again, again + 5, deadline_ns=ms(again + 100), validity_ms=95)
        for node in NODES:
            history.seen(node, "prolonged", again + 2, "v1", since=again + 1, ttl=100, read=again + 3)
    assert not more
    return history


ALL = tuple((node, 62.0) for node in NODES)


def test_an_extension_that_a_majority_prolonged_is_good_for_what_was_told() -> None:
    assert short(extended(*ALL)) == []
    assert short(extended(*ALL[:2])) == []
    assert short(extended(*ALL, again=90)) == []


def test_an_extension_that_too_few_nodes_prolonged_promises_too_much() -> None:
    finding = only(extended(ALL[0]))
    assert finding.examples == (
        {
            "client": "c1",
            "life": 1,
            "section": 1,
            "key": "k1",
            "at_ms": 65,
            "lease_until_ms": 160,
            "keys_until_ms": 110,
            "prolonged_on": ("n1",),
        },
    )
    assert short(extended()) == [50]


@pytest.mark.parametrize(("at", "on"), [(59.9, ()), (60, ("n1",)), (141, ("n1",)), (141.1, ())])
def test_a_node_may_have_prolonged_it_while_the_extension_counts(at: float, on: tuple[str, ...]) -> None:
    """It was seen at `at` and may have been a millisecond earlier."""
    assert only(extended(("n1", at))).examples[0]["prolonged_on"] == on


def test_a_node_that_was_given_the_key_once_more_prolonged_it() -> None:
    """What it held until then had been set before."""
    history = extended().seen("n1", "deleted", 61).seen("n1", "set", 62, "v1", since=61.5, ttl=100, read=63)
    assert only(history).examples[0]["prolonged_on"] == ("n1",)


@pytest.mark.parametrize("outcome", ["ok", "fail", "info"])
def test_a_later_extension_does_not_make_up_for_it(outcome: str) -> None:
    assert short(extended(ALL[0], again=90, outcome=outcome)) == [50]


@pytest.mark.parametrize(("at", "found"), [(90, []), (91, []), (91.1, [50])])
def test_keys_may_be_prolonged_until_the_next_extension_is_asked_for(at: float, found: list[float]) -> None:
    """It was seen at `at` and may have been a millisecond earlier."""
    assert short(extended(ALL[0], ("n2", at), again=90)) == found


@pytest.mark.parametrize(("at", "found"), [(141, []), (141.1, [50])])
def test_or_until_the_client_leaves(at: float, found: list[float]) -> None:
    assert short(extended(ALL[0], ("n2", at))) == found


@pytest.mark.parametrize(("at", "found"), [(131, []), (131.1, [20])])
def test_or_until_the_lease_is_over(at: float, found: list[float]) -> None:
    assert short(extended(ALL[0], ("n2", at), until=130)) == found


def test_the_first_lease_is_compared_with_the_keys_as_they_were_set() -> None:
    def set_for_less(*, again: bool) -> list[float]:
        history = kept(60, 60, 60, end=140)
        if again:
            history.op("c1", "extend", "ok", 1, 60, 65, deadline_ns=ms(155), validity_ms=90)
            for node in NODES:
                history.seen(node, "prolonged", 62, "v1", since=61, ttl=100, read=63)
        return short(history)

    assert set_for_less(again=False) == [35]
    assert set_for_less(again=True) == [35]


def test_each_section_counts_once_with_the_lease_that_is_too_long_by_most() -> None:
    history = extended(until=170, again=90)
    history.section("c1", 300, 310, number=2, deadline=395).sets("c1", "v2", number=2)
    for node in NODES:
        history.seen(node, "deleted", 141).seen(node, "set", 299, "v2", ttl=100, read=300)
    assert watched(history) == Figures(sections=2, short=1, longest_ms=60)
    assert only(history).examples[0]["at_ms"] == 65


def test_of_two_leases_that_are_too_long_the_worse_one_counts() -> None:
    history = kept(60, 60, 60, end=140).op("c1", "extend", "ok", 1, 60, 65, deadline_ns=ms(160), validity_ms=95)
    assert short(history) == [90]
    assert watched(history).short == 1


def test_a_lock_that_was_asked_vouches_for_more_than_the_last_extension() -> None:
    assert short(extended(*ALL, end=200)) == []
    assert short(extended(*ALL, end=200).op("c1", "held", "ok", 1, 180, 181)) == [17]


@pytest.mark.parametrize(("outcome", "cause"), [("ok", "not prolonged"), ("fail", None)])
def test_a_lock_that_vouched_for_a_lease_that_no_renewal_prolonged(outcome: str, cause: str | None) -> None:
    history = kept(60, 60, 60).op("c1", "held", outcome, 1, 40, 41)
    finding = only(history)
    assert ("held_ms" in finding.examples[0]) == (cause is not None)
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == cause


@pytest.mark.parametrize(("renewed", "cause"), [(False, "not renewed"), (True, "not prolonged")])
def test_a_lock_that_vouched_for_a_lease_and_had_sent_no_renewal(renewed: bool, cause: str, golden: Golden) -> None:
    history = History(renewal_ms=30).watch(*NODES)
    for number, asked in enumerate((100, 400), 1):
        history.section("c1", asked + 5, asked + 50, asked=asked, deadline=asked + 100, number=number)
        history.sets("c1", f"v{number}", number=number).op("c1", "held", "ok", number, asked + 35, asked + 36)
        for node in NODES:
            history.request("c1", node, f"SET k1 v{number} NX PX 60", asked + 1, asked + 4)
            history.seen(node, "set", asked + 3, f"v{number}", since=asked + 1, ttl=60, read=asked + 4)
            history.seen(node, "deleted", asked + 51)
    history.request("c1", "n1", "EVAL renew 1 k1 v1 60", 130, 131, reply="0", did=False)
    if renewed:
        history.request("c1", "n1", "EVAL renew 1 k1 v2 60", 430, 431, reply="0", did=False)
    finding = only(history)
    (*_, told) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 2)[0].explanations
    assert told.cause == cause
    golden(told.sentence)


def test_the_last_answer_that_vouched_for_it_is_told_and_it_was_untrue_from_the_end_of_the_keys_on() -> None:
    history = kept(60, 60, 60, end=110, lease=100).op("c1", "held", "ok", 1, 40, 41).op("c1", "held", "ok", 1, 100, 103)
    finding = only(history)
    assert (finding.examples[0]["held_ms"], finding.examples[0]["at_ms"]) == (100, finding.at_ms)
    assert finding.at_ms == finding.examples[0]["keys_until_ms"] < 100


def test_an_extension_that_was_asked_for_as_the_one_before_was_told_is_not_surely_a_later_one() -> None:
    assert short(extended(ALL[0], again=65)) == []


def test_an_extension_of_a_section_that_nobody_granted_is_left_out() -> None:
    history = kept(100, 100, 100, end=140).op("c1", "extend", "ok", 7, 60, 65, deadline_ns=ms(999), validity_ms=934)
    assert short(history) == []


def test_nodes_that_were_out_of_sight_may_have_prolonged_it() -> None:
    history = extended(ALL[0])
    history.key_events = [event for event in history.key_events if event.node != "n2"]
    history.watch("n2").seen("n2", "set", 8, "v1", since=6, ttl=100, read=9).seen("n2", "blind", 50)
    assert short(history.seen("n2", "watching", 900, "n2-second")) == []
    history.key_events = [event for event in history.key_events if event.node not in ("n1", "n3")]
    for node in ("n1", "n3"):
        history.watch(node).seen(node, "set", 8, "v1", since=6, ttl=100, read=9)
    assert only(history).examples[0]["prolonged_on"] == ("n2",)


@pytest.mark.parametrize(("until", "by"), [(105, []), (115, []), (115.2, [5.2]), (160, [50])])
def test_who_acquires_once_more_is_held_to_the_deadline_that_is_told_then(until: float, by: list[float]) -> None:
    """The keys that n1, n2 and n3 were told at 9 to keep for 100 ms are not prolonged."""
    history = kept(100, 100, 100).op("c1", "reenter", "ok", 1, 30, 31, deadline_ns=ms(until), validity_ms=100)
    assert short(history) == pytest.approx(by)


@pytest.mark.parametrize(("leaves", "by"), [(True, []), (False, [218 - 129])])
def test_who_undoes_that_may_free_what_was_granted_anew(leaves: bool, by: list[float]) -> None:
    """Some locks release by a shorter time to live."""
    history = History(ttl_ms=100).watch(*NODES).section("c1", 10, 130, deadline=100).sets("c1", "v1")
    history.sets("c1", "v2").op("c1", "reenter", "ok", 1, 120, 125, deadline_ns=ms(218), validity_ms=93.0)
    for node in NODES:
        history.seen(node, "set", 8, "v1", since=7, ttl=100, read=8).seen(node, "expired", 108)
        history.seen(node, "set", 122, "v2", since=121, ttl=100, read=122)
        history.seen(node, "prolonged", 127, "v2", since=126, ttl=1, read=127).seen(node, "expired", 128)
    if leaves:
        history.op("c1", "leave", "ok", 1, 126, 128)
    assert short(history) == pytest.approx(by, abs=3)


@pytest.mark.parametrize(("leaves", "by"), [(31, []), (31.1, [20])])
def test_what_is_undone_as_a_nested_acquire_is_told_is_not_surely_that_one(leaves: float, by: list[float]) -> None:
    """n1 and n2 prolong the keys at 40."""
    history = kept(100, 100, 100).op("c1", "reenter", "ok", 1, 30, 31, deadline_ns=ms(130), validity_ms=99)
    history.op("c1", "leave", "ok", 1, leaves, 45)
    for node in NODES[:2]:
        history.seen(node, "prolonged", 40, "v1", since=39, ttl=100, read=40)
    assert short(history) == by


@pytest.mark.parametrize("told", [{"granted_ms": 100.0}, {"deadline_ns": ms(105)}])
def test_a_lease_that_renews_itself_goes_on_when_a_nested_acquire_is_undone(told: dict[str, Any]) -> None:
    history = History(ttl_ms=100, renewal_ms=30).watch(*NODES).section("c1", 10, 600, deadline=(105, 110))
    history.sets("c1", "v1").op("c1", "reenter", "ok", 1, 12, 13, **told).op("c1", "leave", "ok", 1, 14, 15)
    for node in NODES:
        history.seen(node, "set", 8, "v1", ttl=100, read=8)
        for at in range(40, 600, 30):
            history.seen(node, "prolonged", at, "v1", ttl=100, read=at)
        history.seen(node, "deleted", 600.5)
    for at in range(50, 590, 30):
        history.op("c1", "held", "ok", 1, at, at + 1, granted_ms=100.0)
    assert short(history) == []


def test_what_servers_forgot_is_not_held_against_who_acquires_once_more() -> None:
    """It asks no node again, and its lease ends when the first one does."""
    history = kept(100, 100, 100).op("c1", "reenter", "ok", 1, 30, 31, deadline_ns=ms(105))
    for node in NODES:
        history.seen(node, "blind", 15).seen(node, "watching", 20, f"{node}-second")
    assert short(history) == []


def test_a_validity_that_is_told_once_more_may_be_that_of_the_beginning() -> None:
    assert short(kept(100, 100, 100).op("c1", "reenter", "ok", 1, 30, 31, validity_ms=100)) == []
    assert short(kept(100, 100, 100).op("c1", "reenter", "fail", 1, 30, 31, deadline_ns=ms(160))) == []


@pytest.mark.parametrize(("since", "at", "by"), [(50.1, 51, []), (49, 51, []), (30, 40, [57])])
def test_a_release_may_let_the_keys_expire(since: float, at: float, by: list[float]) -> None:
    """c1 leaves at 50. What shortens the keys before that takes them from a client that relies on them."""
    history = kept(100, 100, 100, lease=100)
    for node in NODES:
        history.seen(node, "prolonged", at, "v1", since=since, ttl=1, read=at + 1)
        history.seen(node, "expired", at + 3, since=at + 2)
    assert short(history) == pytest.approx(by)


@pytest.mark.parametrize(("read", "by"), [(50, [43]), (50.1, [])])
def test_a_time_to_live_that_was_read_after_the_section_may_be_what_the_release_left_of_it(
    read: float, by: list[float]
) -> None:
    history = kept(lease=100)
    for node in NODES:
        history.seen(node, "set", 8, "v1", since=6, ttl=6, read=read)
    assert short(history) == pytest.approx(by)


def test_a_key_that_was_seen_to_expire_had_its_time_whenever_that_was_read() -> None:
    """A witness of an older fencepost did not say when it had read the time to live."""
    history = kept()
    for node in NODES:
        history.seen(node, "set", 8, "v1", since=6, ttl=60).seen(node, "expired", 70, since=69)
    assert short(history) == [35]


def test_nor_does_it_tell_when_the_key_would_have_expired() -> None:
    """The release's shorter time to live came so soon after the SET that both were seen as one."""
    history = kept(lease=100)
    for node in NODES:
        history.seen(node, "set", 8, "v1", since=6, ttl=1, read=60).seen(node, "expired", 62, since=61)
    assert short(history) == []


# Keys in which several clients have their places.


def counted(
    *released: str,
    clocks: bool = False,
    expired: float = 120,
    did: tuple[str, str] = ("INCR", "DECR"),
    undone: bool = False,
    refused: bool = False,
    lowers: str = "",
    **config: Any,
) -> History:
    """c1, c2 and c3 raise a count of n1 at 10, 50 and 60, with leases of 90 ms; its key has a time to live from 10 on
    only, and expires. Of those the `released` ones leave at 100, and take their place out. `undone`: c3's acquire takes
    out what it had added. `refused`: the first request of c3's acquire had done that itself. `lowers`: before it takes
    out its place, c2's release does this to it."""
    more = {"nodes": 1, "clients": 3, "workload": "semaphore", "permits": 3} | config
    history = History(**more).watch("n1")
    for number, (client, at) in enumerate((("c1", 10), ("c2", 50), ("c3", 60))):
        end = 100 if client in released else 400
        history.section(client, at + 2, end, asked=at - 2, deadline=at + 90)
        history.request(client, "n1", f"EVAL add 1 k1 {number}", at, at + 0.2)
        what = "changed" if number else "set"
        history.seen("n1", what, at + 0.4, f"{number + 1}", since=at - 0.2, ttl=110 if not number else None)
        history.key_events[-1].command = did[0]
    if refused:
        history.request("c3", "n1", "EVAL add 1 k1 4", 59, 59.2, did=False)
        for event in (history.seen("n1", "changed", 59.4, value, since=58.8).key_events[-1] for value in "32"):
            history.by(event, len(history.requests) - 1)
            event.command = did[event.value == "2"]
    if undone:
        history.request("c3", "n1", "EVAL take 1 k1", 61, 61.2)
        history.seen("n1", "changed", 61.4, "2", since=60.8)
        history.key_events[-1].command = did[1]
    for client in released:
        history.request(client, "n1", "EVAL take 1 k1", 100.3, 100.5)
        for command in (lowers, did[1]) if lowers and client == "c2" else did[1:]:
            history.seen("n1", "changed", 100.6, "1", since=100.2)
            history.by(history.key_events[-1], len(history.requests) - 1)
            history.key_events[-1].command = command
    history.seen("n1", "expired", expired, "1", since=expired - 0.1)
    if clocks:
        history.fault("f1", 20, 30, nemesis="clock", wrong_clocks=("n1",))
    return history.seen("n1", "blind", 900)


def outlasted(history: History) -> set[str]:
    return {str(example["client"]) for finding in check(history.recorded()).findings for example in finding.examples}


def test_a_count_that_expires_under_the_clients_that_it_counts(golden: Golden) -> None:
    run = counted("c1", "c2").recorded()
    (finding,) = check(run).findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("lease-outlasts-keys", "lock", "lease", 1)
    assert finding.examples[0].items() >= {"client": "c3", "place_in": "k1", "keys_until_ms": 120}.items()
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    golden(told.explanations[0].sentence)


@pytest.mark.parametrize(
    ("history", "clients"),
    [
        (counted("c1", "c2", expired=144), {"c3"}),
        (counted("c1", "c2", expired=146), set()),
        (counted("c1", "c3"), {"c2"}),
        (counted("c1"), set()),
        (counted("c1", "c2", did=("HINCRBY", "HDEL")), {"c3"}),
        (counted("c1", "c2", did=("HINCRBY", "HDEL"), lowers="HINCRBY"), {"c3"}),
        (counted("c1", "c2", did=("SET", "DECR")), set()),
        (counted("c1", "c2", did=("RPUSH", "LPOP")), set()),
        (counted("c1", "c2", clocks=True), set()),
        (counted("c1", "c2", undone=True), set()),
        (counted("c1", "c2", refused=True), {"c3"}),
        (counted("c1", "c2", workload="fenced-counter", permits=1), set()),
    ],
    ids=[
        "before the lease had ended",
        "when it had ended",
        "another client stays",
        "few releases take anything out",
        "a hash",
        "a release lowers a count and deletes it",
        "it keeps no places",
        "releases take nothing out that they added",
        "a wrong clock",
        "an acquire takes out, too",
        "a request takes out what it had added itself",
        "a lock for one client",
    ],
)
def test_a_place_must_live_as_long_as_its_lease(history: History, clients: set[str]) -> None:
    assert outlasted(history) == clients


@pytest.mark.parametrize(
    ("client", "at", "cause"),
    [("c3", 203, "set by an extension"), ("c3", 300, "set by an extension"), ("c2", 203, None)],
)
def test_a_renewal_may_take_a_place_again_that_had_expired(
    client: str, at: float, cause: str | None, golden: Golden
) -> None:
    """In its call, or in the background."""
    history = counted("c1", "c2", did=("HINCRBY", "HDEL")).op(client, "held", "ok", 1, 200, 210)
    history.request(client, "n1", "EVAL add 1 k1 3", at, at + 0.2).seen("n1", "set", at + 0.4, "1", since=at, ttl=90)
    history.key_events[-1].command = "HINCRBY"
    history.key_events.sort(key=lambda event: event.at_ns)
    run = history.recorded()
    (finding,) = check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == cause
    if cause is not None:
        golden(told.explanations[0].sentence)


@pytest.mark.parametrize(("ttl", "cause"), [(60, "short TTL"), (100, None)])
def test_a_lock_that_gives_its_keys_a_shorter_ttl_than_the_lease(ttl: int, cause: str | None, golden: Golden) -> None:
    """Or it counts the lease from too late."""
    history = History().watch(*NODES).section("c1", 10, 50, asked=5, deadline=10 + ttl + 40)
    for node in NODES:
        history.request("c1", node, f"SET k1 v1 NX PX {ttl}", 7, 7.5).seen(
            node, "set", 8, "v1", since=6, ttl=ttl, read=8
        )
    finding = only(history)
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == cause
    golden(told.explanations[0].sentence)


def test_a_lock_that_vouched_for_a_lease_whose_renewal_was_refused_when_the_keys_had_expired() -> None:
    history = History(renewal_ms=30).watch(*NODES).section("c1", 10, 90, asked=5, deadline=105).sets("c1", "v1")
    history.op("c1", "held", "ok", 1, 85, 86)
    for node in NODES:
        history.request("c1", node, "SET k1 v1 NX PX 60", 6, 7)
        history.seen(node, "set", 8, "v1", since=6, ttl=60, read=9).seen(node, "expired", 69)
        history.request("c1", node, "EVAL renew 1 k1 v1 60", 75, 76, reply="0", did=False)
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (only(history),), (), {}), 1)
    assert told.explanations[0].cause == "refused renewal"

"""What is said of figures that are no findings."""

from __future__ import annotations

from harness.checkers.remarks import remarks
from tests.explain.stories import Story
from tests.judge.histories import ms


def said(story: Story) -> list[str]:
    return list(remarks(*story.judged()))


def test_nothing_is_said_where_there_is_nothing() -> None:
    assert said(Story().section("c1", 10, 20).section("c2", 30, 40)) == []


def test_a_long_gap_without_any_fault() -> None:
    story = Story().section("c1", 10, 20).section("c2", 30, 40)
    story.timeline.stop_ns = ms(2030)
    assert said(story) == [
        "The longest time in which nobody got in although somebody could reach a majority of the nodes lasted 2 s, "
        "from +30.0 ms on: no fault was in force."
    ]


def test_an_unknown_verdict_says_why() -> None:
    story = Story(ttl_ms=2000).op("c1", "acquire", "fail", 1, 10, 20)
    assert said(story) == ["The verdict is unknown: no client acquired the lock."]


def test_keys_without_an_owner_are_told_with_their_causes() -> None:
    story = Story(ttl_ms=2000).section("c1", 10, 40).sets("c1", "v1")
    for node in ("n1", "n3"):
        story.seen(node, "watching", 0, "id").seen(node, "set", 9, "v1", ttl=90).seen(node, "deleted", 81)
    assert said(story) == [
        "2 keys on n1 and n3 had no owner and kept others out, for up to 40 ms until deleted or expired: 2 not gone "
        "after the release."
    ]


def test_slow_acquires_of_a_lock_that_declares_no_limit() -> None:
    story = Story(ttl_ms=500).section("c1", 10, 20).op("c2", "acquire", "fail", 1, 30, 830)
    story.section("c1", 400, 410, number=2).section("c1", 850, 860, number=3)
    assert said(story) == [
        "1 acquire call took longer than a lease lasts (500 ms), up to 800 ms; the lock does not say how long it may "
        "take."
    ]
    story.acquire_limit_ms = 500.0
    assert said(story) == [], "it is a finding"


def test_the_longest_gap_names_who_was_hung_down_or_stopped_meanwhile() -> None:
    story = Story(ttl_ms=100, clients=3).section("c1", 10, 20).section("c2", 2900, 2910)
    story.fault("a", 200, 300, nodes=("n3",)).fault("b", 400, 500, nodes=("n2",), how_down="kill", keys_at_stake=())
    story.fault("c", 600, 700, paused_clients=("c3",)).fault("d", 800, 900, cut_links=(("c1", "n1"),))
    story.timeline.stop_ns = ms(2950)
    (sentence,) = said(story)
    assert sentence.endswith("n2 was down, n3 was hung, c3 was stopped and 1 link was cut or slow.")

"""What is said of figures that are no findings."""

from __future__ import annotations

from harness.checkers.remarks import remarks
from tests.explain.stories import Story
from tests.golden import Golden
from tests.judge.histories import ms


def said(story: Story) -> list[str]:
    return list(remarks(*story.judged()))


def test_nothing_is_said_where_there_is_nothing() -> None:
    assert said(Story().section("c1", 10, 20).section("c2", 30, 40)) == []


def test_a_long_gap_without_any_fault(golden: Golden) -> None:
    story = Story().section("c1", 10, 20).section("c2", 30, 40)
    story.timeline.stop_ns = ms(2030)
    golden("\n".join(said(story)))


def test_an_unknown_verdict_says_why(golden: Golden) -> None:
    story = Story(ttl_ms=2000).op("c1", "acquire", "fail", 1, 10, 20)
    golden("\n".join(said(story)))


def test_keys_without_an_owner_are_told_with_their_causes(golden: Golden) -> None:
    story = Story(ttl_ms=2000).section("c1", 10, 40).sets("c1", "v1")
    for node in ("n1", "n3"):
        story.seen(node, "watching", 0, "id").seen(node, "set", 9, "v1", ttl=90).seen(node, "deleted", 81)
    golden("\n".join(said(story)))


def test_slow_acquires_of_a_lock_that_declares_no_limit(golden: Golden) -> None:
    story = Story(ttl_ms=500).section("c1", 10, 20).op("c2", "acquire", "fail", 1, 30, 830)
    story.section("c1", 400, 410, number=2).section("c1", 850, 860, number=3)
    golden("\n".join(said(story)))
    story.acquire_limit_ms = 500.0
    assert said(story) == [], "it is a finding"


def test_the_longest_gap_names_who_was_hung_down_or_stopped_meanwhile(golden: Golden) -> None:
    story = Story(ttl_ms=100, clients=3).section("c1", 10, 20).section("c2", 2900, 2910)
    story.fault("a", 200, 300, nodes=("n3",)).fault("b", 400, 500, nodes=("n2",), how_down="kill", keys_at_stake=())
    story.fault("c", 600, 700, paused_clients=("c3",)).fault("d", 800, 900, cut_links=(("c1", "n1"),))
    story.timeline.stop_ns = ms(2950)
    (sentence,) = said(story)
    golden(sentence)

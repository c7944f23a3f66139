"""Each kind of sentence, word for word, from a history of a few operations."""

from __future__ import annotations

import pytest

from fencepost.history import HowDown
from tests.explain.stories import Story
from tests.judge.histories import ms

TWO_OF_THREE = "So c1 had 2 of 3 nodes, and c2 had 2 of 3 nodes."
ALL_NODES = "So c1 had 3 of 3 nodes, and c2 had 3 of 3 nodes."
LOCK_DID_NOTHING_WRONG = "the client outlived its lease, the lock did nothing wrong."


def went_down(how: HowDown = "kill", **config: object) -> Story:
    story = Story(**config).let_in("c1", 10, 50, "OK OK nil").killed("n2", 12, 20, how)
    return story.let_in("c2", 30, 60, "nil OK OK")


def past_its_lease(**more: object) -> Story:
    return Story().section("c1", 10, 150, deadline=110, **more).section("c2", 120, 130)


@pytest.mark.parametrize(
    ("story", "how"),
    [
        (
            went_down(),
            "was killed 2.0 ms later, came back 7.0 ms later without the key (with persistence none a node that "
            "restarts has forgotten its locks)",
        ),
        (
            went_down("power cut", persistence="aof-everysec", disks=True),
            "lost its power 2.0 ms later, came back 7.0 ms later without the key (aof-everysec had not synced it)",
        ),
        (
            Story().killed("n2", 9, 20).let_in("c1", 10, 50, "OK OK nil").let_in("c2", 30, 60, "nil OK OK"),
            "was killed at once, came back 10 ms later without the key (with persistence none a node that restarts has "
            "forgotten its locks)",
        ),
        (
            went_down(persistence="aof-always"),
            "was killed 2.0 ms later, came back 7.0 ms later without the key (although aof-always keeps them)",
        ),
    ],
)
def test_a_node_that_came_back_without_the_key(story: Story, how: str) -> None:
    expected = f"n2 had granted the lock to c1, {how}, and granted it to c2 while that lease still stood. "
    assert story.told("overlap").sentence == expected + TWO_OF_THREE


@pytest.mark.parametrize(
    ("nemesis", "words"),
    [("crash", "was killed"), ("shutdown", "was shut down"), ("power", "lost its power"), ("mine", "went down")],
)
def test_in_an_older_record_the_nemesis_says_how_a_node_went_down(nemesis: str, words: str) -> None:
    story = (
        Story().let_in("c1", 10, 50, "OK OK nil").fault("f1", 12, 20, nemesis=nemesis, nodes=("n2",), keys_at_stake=())
    )
    told = story.let_in("c2", 30, 60, "nil OK OK").told("overlap").sentence
    assert f"n2 had granted the lock to c1, {words} 2.0 ms later" in told


def test_a_node_that_was_not_asked_because_its_link_was_cut() -> None:
    story = Story().fault("p", 1, 70, cut_links=(("c1", "n3"),)).let_in("c1", 10, 50, "OK OK silent")
    story.killed("n2", 12, 20).let_in("c2", 30, 60, "nil OK OK")
    assert story.told("overlap").sentence.endswith(
        "So c1 had 2 of 3 nodes (n3 gave no answer: partition), and c2 had 2 of 3 nodes."
    )


def test_less_than_a_majority() -> None:
    story = Story(nodes=5).let_in("c1", 10, 50, "OK OK OK nil nil").let_in("c2", 30, 60, "nil nil nil OK OK")
    assert story.told("overlap").sentence == (
        "c2 was let in although only n4 and n5 had said yes to it: fewer than the majority of 3 of 5 nodes, and no "
        "node said yes to both."
    )


@pytest.mark.parametrize(
    ("values", "how"),
    [
        ((None, None), "c3, whose key it was not, deleted it"),
        (("one", "one"), "c3, whose key has the same value, so that comparing proved nothing, deleted it"),
    ],
)
def test_somebody_else_deleted_the_key(values: tuple[str | None, str | None], how: str) -> None:
    first, third = values
    story = Story().let_in("c1", 10, 50, "OK OK OK", value=first)
    story.asked("c3", "acquire", 15, "nil nil nil", value=third).asked("c3", "undo", 17, "1 1 1", value=third)
    assert story.let_in("c2", 30, 60, "OK OK OK").told("overlap").sentence == (
        f"n1, n2 and n3 had granted the lock to c1; {how}, and so they granted it to c2 while that lease still stood. "
        f"{ALL_NODES}"
    )


def test_a_deletion_whose_answer_was_read_before_the_grant_s() -> None:
    story = Story().asked("c1", "acquire", 8, "OK OK OK", done=14).section("c1", 15, 50, requested_ns=ms(8), asked=7)
    story.asked("c3", "acquire", 9, "nil nil nil").asked("c3", "undo", 11, "1 1 1")
    assert "c3, whose key it was not, deleted it" in story.let_in("c2", 30, 60, "OK OK OK").told("overlap").sentence


def test_the_release_of_the_holder_before_is_not_taken_for_a_deletion() -> None:
    story = Story().let_in("c3", 2, 7, "OK OK OK").asked("c3", "release", 7, "1 1 1", done=12)
    told = (
        story.let_in("c1", 10, 50, "OK OK nil").killed("n2", 13, 20).let_in("c2", 30, 60, "nil OK OK").told("overlap")
    )
    assert "n2 had granted the lock to c1, was killed" in told.sentence
    assert "c3" not in told.sentence


def test_keys_that_ended_before_the_validity_that_was_told() -> None:
    story = Story().asked("c1", "acquire", 10, "OK OK OK", done=12)
    story.section("c1", 110, 150, deadline=210, requested_ns=ms(10), asked=9).let_in("c2", 130, 140, "OK OK OK")
    assert story.told("overlap").sentence == (
        "c1's keys on n1, n2 and n3 had run out 100 ms after they were set, although the lock had told c1 that it "
        f"holds until +210.0 ms, and those nodes granted the lock to c2. {ALL_NODES}"
    )


def test_what_nothing_on_record_explains_is_said_so() -> None:
    story = Story().let_in("c1", 10, 50, "OK OK OK").let_in("c2", 30, 60, "OK OK OK")
    assert story.told("overlap").sentence == (
        "n1, n2 and n3 had granted the lock to c1 at +10.0 ms and to somebody else by +30.0 ms; nothing on record says "
        f"where the key went. {ALL_NODES}"
    )


def test_without_the_nodes_answers_only_what_is_known_is_said() -> None:
    told = Story().section("c1", 10, 50).killed("n2", 12, 20).section("c2", 30, 60).told("overlap")
    assert told.parts == ()
    assert told.sentence == (
        "c1 and c2 were both told that they hold the lock. What each node had granted is not on record, so this cannot "
        "be followed further. n2 was down for a while between the two grants."
    )


@pytest.mark.parametrize(
    ("story", "what"),
    [
        (
            past_its_lease().fault("p", 20, 140, paused_clients=("c1",)),
            "c1 was stopped for 118 ms inside its section; its lease of 100 ms was over 10 ms before c2 came in: ",
        ),
        (
            past_its_lease()
            .op("c1", "read", "ok", 1, 11, 140, value=0)
            .fault("s", 5, 160, slow_links=(("c1", "resource"),)),
            "c1 was inside for 140 ms, 129 ms of it with a read (its link to the resource: it); its lease of 100 ms "
            "was over 10 ms before c2 came in: ",
        ),
        (
            past_its_lease(),
            "c1 stayed inside for 140 ms, and no pause of it is on record; its lease of 100 ms was over 10 ms before "
            "c2 came in: ",
        ),
        (
            Story()
            .fault("p", 20, 140, paused_clients=("c1",))
            .section("c1", 145, 170, deadline=110, requested_ns=ms(10), asked=9)
            .section("c2", 120, 160),
            "c1 was stopped for 118 ms while it acquired; its lease had been over for 35 ms when it went in, while c2 "
            "was inside: ",
        ),
        (
            Story().section("c1", 115, 170, deadline=110, requested_ns=ms(10), asked=9).section("c2", 120, 160),
            "c1 got to know of its lease 105 ms after it had asked for it and went in 5.0 ms after its lease was over; "
            "then c2 came: ",
        ),
    ],
)
def test_a_client_that_outlived_its_lease(story: Story, what: str) -> None:
    assert story.told("overlap").sentence == what + LOCK_DID_NOTHING_WRONG


@pytest.mark.parametrize(
    ("story", "what"),
    [
        (
            Story().section("c1", 10, 150, deadline=(100, 115)).section("c2", 110, 130),
            "c1's lease of 105 ms ended somewhere between +100.0 ms and +115.0 ms (the lock does not say from when it "
            "counts), and c2 came in at +110.0 ms, in between: ",
        ),
        (
            Story()
            .section("c1", 10, 250)
            .op("c1", "extend", "ok", 1, 112, 113, deadline_ns=ms(213))
            .section("c2", 150, 160),
            "c1's lease of 100 ms ended somewhere between +110.0 ms and +213.0 ms (an extension of it may have come "
            "too late), and c2 came in at +150.0 ms, in between: ",
        ),
        (
            Story().op("c1", "acquire", "ok", 1, 9, 10).op("c1", "release", "ok", 1, 150, 151).section("c2", 110, 130),
            "c1's lock told no validity, so nobody can say whether it was over by then: ",
        ),
    ],
)
def test_an_overlap_that_stays_undecided(story: Story, what: str) -> None:
    assert story.told("overlap").sentence == f"{what}the record allows both readings."


def test_a_lost_update_names_the_reads_and_how_both_came_to_be_inside() -> None:
    story = went_down().op("c1", "read", "ok", 1, 11, 12, value=0).op("c2", "read", "ok", 1, 31, 32, value=0)
    told = story.write("c1", 1, at=40).write("c2", 1, at=45).told("lost-update")
    assert told.sentence == (
        "c1 wrote 1 by +41.0 ms and was told that it is written; c2 wrote 1 over it by +46.0 ms, both having read 0: "
        "one increment is gone."
    )
    assert told.because.startswith("Both were inside: n2 had granted the lock to c1, was killed")


def test_a_lost_update_without_any_overlap_accuses_the_harness() -> None:
    story = Story().section("c1", 10, 20).section("c2", 30, 40).write("c1", 1, at=12).write("c2", 1, at=32)
    assert story.told("lost-update").sentence.endswith(
        "one increment is gone. No two sections of the key overlapped, so the harness or its resource is wrong."
    )


@pytest.mark.parametrize(
    ("fencing", "tokens", "why"),
    [
        ("none", (None, None), "the resource accepted it, because no token was shown."),
        ("writes", (1, 2), "the resource accepted it although it showed the token 1, and 2 had been seen."),
    ],
)
def test_a_stale_write(fencing: str, tokens: tuple[int | None, int | None], why: str) -> None:
    story = Story(fencing=fencing).section("c1", 10, 150, deadline=110).section("c2", 120, 130)
    story.write("c2", 1, at=125, token=tokens[1]).write("c1", 1, at=140, token=tokens[0])
    assert story.told("stale-write-accepted").sentence == (
        f"c1 wrote 1 by +141.0 ms, after c2, a later holder, had written 1 by +126.0 ms; {why}"
    )


@pytest.mark.parametrize(
    ("story", "why"),
    [
        (
            Story().section("c1", 60, 70, deadline=160, requested_ns=ms(30), asked=20),
            "100.0 ms, but it had asked for it 30 ms before (at +30.0 ms), and keys live for 100 ms from when they are "
            "set: 30.0 ms too many.",
        ),
        (Story().section("c1", 60, 70, deadline=180), "120.0 ms, but the keys live for 100 ms: 20.0 ms too many."),
    ],
)
def test_a_validity_that_was_told_too_long(story: Story, why: str) -> None:
    told = story.told("overstated-validity")
    assert told.sentence == f"c1 was told at +60.0 ms that it holds the lock for {why}"


def test_a_token_that_did_not_grow() -> None:
    story = (
        Story().section("c1", 10, 20, token=5, token_source="lock").section("c2", 30, 40, token=4, token_source="lock")
    )
    assert story.told("token-not-increasing").sentence == (
        "c2 came in at +30.0 ms and got the token 4, although c1, which had left at +20.0 ms, had 5."
    )


def test_what_accuses_the_resource_is_told_in_the_finding_s_own_words() -> None:
    story = Story().section("c1", 10, 20).write("c1", 1, at=12)
    story.writes.clear()
    story.final = {}
    assert story.told("unrecorded-write").sentence == ("1 acknowledged write is missing from the resource's record.")

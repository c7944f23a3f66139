"""Each kind of sentence, word for word, from a history of a few operations."""

from __future__ import annotations

import pytest

from fencepost.history import STARVATION, ClientEnd, HowDown
from tests.explain.stories import Story
from tests.judge.histories import ms

TWO_OF_THREE = "So c1 had 2 of 3 nodes, and c2 had 2 of 3 nodes."
ALL_NODES = "So c1 had 3 of 3 nodes, and c2 had 3 of 3 nodes."
LOCK_DID_NOTHING_WRONG = "The client outlived its lease; the lock did nothing wrong."


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
            "was killed 2.0 ms later, came back 7.0 ms later without the key (with persistence none, a "
            "restarted node has forgotten its locks)",
        ),
        (
            went_down("power cut", persistence="aof-everysec", disks=True),
            "lost its power 2.0 ms later, came back 7.0 ms later without the key (aof-everysec had not synced it)",
        ),
        (
            Story().killed("n2", 9, 20).let_in("c1", 10, 50, "OK OK nil").let_in("c2", 30, 60, "nil OK OK"),
            "was killed immediately, came back 10 ms later without the key (with persistence none, a restarted node "
            "has forgotten its locks)",
        ),
        (
            went_down(persistence="aof-always"),
            "was killed 2.0 ms later, came back 7.0 ms later without the key (although aof-always keeps keys)",
        ),
    ],
)
def test_a_node_that_came_back_without_the_key(story: Story, how: str) -> None:
    expected = f"n2 had granted the lock to c1, {how}, and granted it to c2 while that lease was still valid. "
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
        "So c1 had 2 of 3 nodes (n3 did not reply: partition), and c2 had 2 of 3 nodes."
    )


def test_less_than_a_majority() -> None:
    story = Story(nodes=5).let_in("c1", 10, 50, "OK OK OK nil nil").let_in("c2", 30, 60, "nil nil nil OK OK")
    assert story.told("overlap").sentence == (
        "c2 acquired the lock although only n4 and n5 had granted it: fewer than the majority of 3 of 5 nodes, and no "
        "node granted it to both."
    )


def test_another_client_deleted_the_key() -> None:
    story = Story().let_in("c1", 10, 50, "OK OK OK").asked("c3", "acquire", 15, "nil nil nil")
    story.asked("c3", "free", 17, "1 1 1")
    assert story.let_in("c2", 30, 60, "OK OK OK").told("overlap").sentence == (
        "n1, n2 and n3 had granted the lock to c1; c3, which did not own the key, deleted it; so those nodes granted "
        f"it to c2 while that lease was still valid. {ALL_NODES}"
    )


def test_a_deletion_whose_reply_was_read_before_that_of_the_grant() -> None:
    story = Story().asked("c1", "acquire", 8, "OK OK OK", done=14).section("c1", 15, 50, requested_ns=ms(8), asked=7)
    story.asked("c3", "acquire", 9, "nil nil nil").asked("c3", "free", 11, "1 1 1")
    assert (
        "c3, which did not own the key, deleted it" in story.let_in("c2", 30, 60, "OK OK OK").told("overlap").sentence
    )


def test_the_previous_holders_release_does_not_count_as_a_deletion() -> None:
    story = Story().let_in("c3", 2, 7, "OK OK OK").asked("c3", "release", 7, "1 1 1", done=12)
    told = (
        story.let_in("c1", 10, 50, "OK OK nil").killed("n2", 13, 20).let_in("c2", 30, 60, "nil OK OK").told("overlap")
    )
    assert "n2 had granted the lock to c1, was killed" in told.sentence
    assert "c3" not in told.sentence


def test_keys_that_expired_before_the_reported_validity() -> None:
    story = Story().asked("c1", "acquire", 10, "OK OK OK", done=12)
    story.section("c1", 110, 150, deadline=210, requested_ns=ms(10), asked=9).let_in("c2", 130, 140, "OK OK OK")
    assert story.told("overlap").sentence == (
        "c1's keys on n1, n2 and n3 had expired 100 ms after they were set, although the validity that the lock "
        f"reported to c1 lasted until +210.0 ms, and those nodes granted the lock to c2. {ALL_NODES}"
    )


def test_an_unexplained_loss_is_named_as_such() -> None:
    story = Story().let_in("c1", 10, 50, "OK OK OK").let_in("c2", 30, 60, "OK OK OK")
    assert story.told("overlap").sentence == (
        "n1, n2 and n3 had granted the lock to c1 at +10.0 ms and to another client by +30.0 ms; the record does not "
        f"show what happened to the key. {ALL_NODES}"
    )


def test_without_the_nodes_replies_the_sentence_says_what_is_unknown() -> None:
    told = Story().section("c1", 10, 50).killed("n2", 12, 20).section("c2", 30, 60).told("overlap")
    assert told.parts == ()
    assert told.sentence == (
        "Both c1 and c2 acquired the lock. The record does not show which nodes granted it, so this cannot be "
        "explained further. n2 was down for a while between the two grants."
    )


@pytest.mark.parametrize(
    ("story", "what"),
    [
        (
            past_its_lease().fault("p", 20, 140, paused_clients=("c1",)),
            "c1 was stopped for 118 ms inside its section; its lease of 100 ms had expired 10 ms before c2 entered. ",
        ),
        (
            past_its_lease().fault("p", 20, 140, paused_clients=("c1",)).fault("q", 30, 90, paused_clients=("c1",)),
            "c1 was stopped for 118 ms inside its section; its lease of 100 ms had expired 10 ms before c2 entered. ",
        ),
        (
            past_its_lease().unplanned("g", 20, 140, paused_clients=("c1",), fault_class=STARVATION),
            "c1 was not scheduled for 118 ms inside its section; its lease of 100 ms had expired 10 ms before c2 "
            "entered. ",
        ),
        (
            past_its_lease()
            .op("c1", "read", "ok", 1, 11, 140, value=0)
            .fault("s", 5, 160, slow_links=(("c1", "resource"),)),
            "c1 was inside for 140 ms, 129 ms of it for one read (its link to the resource: it); its lease of 100 ms "
            "had expired 10 ms before c2 entered. ",
        ),
        (
            past_its_lease(),
            "c1 stayed inside for 140 ms without a recorded pause; its lease of 100 ms had expired 10 ms before c2 "
            "entered. ",
        ),
        (
            Story()
            .fault("p", 20, 140, paused_clients=("c1",))
            .section("c1", 145, 170, deadline=110, requested_ns=ms(10), asked=9)
            .section("c2", 120, 160),
            "c1 was stopped for 118 ms while it acquired; its lease of 101 ms had expired 35 ms before it entered, "
            "while c2 was inside. ",
        ),
        (
            Story().section("c1", 115, 170, deadline=110, requested_ns=ms(10), asked=9).section("c2", 120, 160),
            "c1 learned of its lease 105 ms after it had asked for it and entered 5.0 ms after its lease of 101 ms had "
            "expired; then c2 entered. ",
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
            "c1's lease of 105 ms expired between +100.0 ms and +115.0 ms (the lock does not report when its validity "
            "started to count), and c2 entered in between, at +110.0 ms. ",
        ),
        (
            Story()
            .section("c1", 10, 250)
            .op("c1", "extend", "ok", 1, 112, 113, deadline_ns=ms(213))
            .section("c2", 150, 160),
            "c1's lease of 100 ms expired between +110.0 ms and +213.0 ms (an extension of it may have come too late), "
            "and c2 entered in between, at +150.0 ms. ",
        ),
        (
            Story()
            .op("c1", "acquire", "ok", 1, 9, 120, validity_ms=-11.0, deadline_ns=ms(109))
            .op("c1", "release", "ok", 1, 150, 151)
            .section("c2", 130, 140),
            "c1 was let in with a lease that was over by the lock's own account. ",
        ),
        (
            Story().op("c1", "acquire", "ok", 1, 9, 10).op("c1", "release", "ok", 1, 150, 151).section("c2", 110, 130),
            "c1's lock reported no validity, so it is unknown whether the lease had expired by then. ",
        ),
    ],
)
def test_an_overlap_that_stays_undecided(story: Story, what: str) -> None:
    assert story.told("overlap").sentence == f"{what}The record allows both readings."


def test_a_lost_update_names_the_reads_and_how_both_came_to_be_inside() -> None:
    story = went_down().op("c1", "read", "ok", 1, 11, 12, value=0).op("c2", "read", "ok", 1, 31, 32, value=0)
    told = story.write("c1", 1, at=40).write("c2", 1, at=45).told("lost-update")
    assert told.sentence == (
        "c1 wrote 1 by +41.0 ms, which was acknowledged; c2 overwrote it with 1 by +46.0 ms; both had read 0. One "
        "update is lost."
    )
    assert told.because.startswith("Both were inside: n2 had granted the lock to c1, was killed")


def test_a_lost_update_by_a_late_write_says_that_its_client_had_given_it_up() -> None:
    story = Story().let_in("c1", 10, 20, "OK OK OK").let_in("c2", 30, 60, "OK OK OK")
    told = story.write("c2", 1, at=45).write("c1", 1, at=15, told=False).told("lost-update")
    assert told.sentence == (
        "c2 wrote 1 by +46.0 ms, which was acknowledged; c1 overwrote it with 1 (late: it had been given up at "
        "+16.0 ms). One update is lost."
    )


def test_a_lost_update_without_any_overlap_blames_the_harness() -> None:
    story = Story().section("c1", 10, 20).section("c2", 30, 40).write("c1", 1, at=12).write("c2", 1, at=32)
    assert story.told("lost-update").sentence.endswith(
        "One update is lost. No two sections of the key overlapped, so the harness or its resource is wrong."
    )


@pytest.mark.parametrize(
    ("fencing", "tokens", "why"),
    [
        ("none", (None, None), "The resource accepted it, because there were no tokens to compare."),
        ("writes", (1, 2), "The resource accepted it although it carried the token 1 and the resource had seen 2."),
    ],
)
def test_a_stale_write(fencing: str, tokens: tuple[int | None, int | None], why: str) -> None:
    story = Story(fencing=fencing).section("c1", 10, 150, deadline=110).section("c2", 120, 130)
    story.write("c2", 1, at=125, token=tokens[1]).write("c1", 1, at=140, token=tokens[0])
    assert story.told("stale-write-accepted").sentence == (
        f"c1 wrote 1 by +141.0 ms, after c2, a later holder, had written 1 by +126.0 ms. {why}"
    )


@pytest.mark.parametrize(
    ("story", "why"),
    [
        (
            Story().section("c1", 60, 70, deadline=160, requested_ns=ms(30), asked=20),
            "100.0 ms to c1, but it had requested the keys 30 ms before (at +30.0 ms), and they live for 100 ms: "
            "30.0 ms too long.",
        ),
        (Story().section("c1", 60, 70, deadline=180), "120.0 ms to c1, but keys live for 100 ms: 20.0 ms too long."),
    ],
)
def test_a_reported_validity_that_is_too_long(story: Story, why: str) -> None:
    told = story.told("overstated-validity")
    assert told.sentence == f"At +60.0 ms the lock reported a validity of {why}"


def test_a_token_that_did_not_grow() -> None:
    story = (
        Story().section("c1", 10, 20, token=5, token_source="lock").section("c2", 30, 40, token=4, token_source="lock")
    )
    assert story.told("token-not-increasing").sentence == (
        "c2 entered at +30.0 ms with the token 4, although c1, which had left at +20.0 ms, had the token 5."
    )


def test_a_finding_about_the_resource_keeps_its_own_text() -> None:
    story = Story().section("c1", 10, 20).write("c1", 1, at=12)
    story.writes.clear()
    story.final = {}
    assert story.told("unrecorded-write").sentence == ("1 acknowledged write is missing from the resource's record.")


def test_a_yes_that_came_too_late() -> None:
    story = Story().section("c1", 500, 510, deadline=100, asked=1, requested_ns=ms(2))
    assert story.told("late-grant").sentence == (
        "The lock said yes to c1 at +500.0 ms, 498 ms after it had asked, when its validity had ended 400 ms before."
    )
    story = Story().watched().sets("c1", "v1").op("c1", "acquire", "ok", 1, 1, 600, granted_ms=100.0)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "watching", 0, "id").seen(node, "set", 5, "v1", ttl=95).seen(node, "expired", 100)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "blind", 700)
    assert story.told("late-grant").sentence == (
        "The lock said yes to c1 at +600.0 ms, 599 ms after it had asked, when its keys had expired on the nodes "
        "500 ms before."
    )


def test_a_lease_that_is_longer_than_its_keys() -> None:
    story = Story().watched().section("c1", 10, 50, deadline=105).sets("c1", "v1")
    for node in ("n1", "n2", "n3"):
        story.seen(node, "watching", 0, "id").seen(node, "set", 8, "v1", ttl=60, read=9).seen(node, "blind", 700)
    assert story.told("lease-outlasts-keys").sentence == (
        "c1 was told that it holds the lock until +105.0 ms, but by +70.0 ms the keys expire on so many nodes that no "
        "majority is left: the lease is 35 ms too long."
    )


def only_on_n1(story: Story) -> Story:
    """The key of c1 was set at 9 on n1 alone; the others were in sight all the time."""
    story.watch("n1", "n2", "n3").sets("c1", "c1-1").seen("n1", "set", 9, "c1-1", ttl=100, read=10)
    for node in ("n2", "n3"):
        story.seen(node, "set", -20, "other").seen(node, "deleted", -10)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "blind", 700)
    return story


@pytest.mark.parametrize(
    ("said", "tail", "cause"),
    [
        ("OK ERR ERR", " Only n1 had said yes.", "too few nodes"),
        ("OK ERR -", " Only n1 had said yes.", "too few nodes"),
        ("silent silent nil", " No node had said yes.", "too few nodes"),
        ("OK OK ERR", "", "not set"),
    ],
)
def test_a_belief_that_too_few_nodes_had_granted(said: str, tail: str, cause: str) -> None:
    told = only_on_n1(Story().let_in("c1", 10, 60, said)).told("unfounded-belief")
    assert told.sentence == (
        "c1 was inside and within its reported validity, but for 50 ms, from +10.0 ms on, no majority of the nodes can "
        f"have held the lock for it: n2 never set, n3 never set.{tail}"
    )
    assert told.cause == cause


def out_of_step(story: Story, node: str) -> Story:
    """c1 gave up an attempt and undid it; both replies came when it asked the node once more."""
    story.request("c1", node, "SET k1 c1-0 NX PX 100", 1, 1.1, told=9.5).seen(node, "set", 1.3, "c1-0", since=1)
    story.request("c1", node, "DEL k1", 4, 4.1, told=9.6, reply="1").seen(node, "deleted", 4.3, since=4)
    return story


@pytest.mark.parametrize(("node", "cause"), [("n2", "not set"), (None, "too few nodes")])
def test_a_belief_in_a_yes_to_another_request(node: str | None, cause: str) -> None:
    story = Story() if node is None else out_of_step(Story(), node)
    told = only_on_n1(story.let_in("c1", 10, 60, "OK nil nil")).told("unfounded-belief")
    tail = " (c1 may have taken the yes of n2 to an earlier request, which came late, for the reply)" if node else ""
    assert told.sentence.endswith(f"n2 never set, n3 never set. Only n1 had said yes{tail}.")
    assert told.cause == cause


def test_an_overlap_by_a_yes_to_another_request() -> None:
    story = out_of_step(Story(), "n2").let_in("c1", 10, 60, "OK nil nil").let_in("c2", 30, 60, "nil OK OK")
    assert story.told("overlap").sentence == (
        "c1 acquired the lock although only n1 had granted it (c1 may have taken the yes of n2 to an earlier request, "
        "which came late, for the reply): fewer than the majority of 2 of 3 nodes, and no node granted it to both."
    )


def test_late_replies_that_make_no_majority_are_not_mentioned() -> None:
    story = out_of_step(Story(nodes=5), "n2").let_in("c1", 10, 60, "OK nil nil nil nil")
    told = story.let_in("c2", 30, 60, "nil OK OK OK nil").told("overlap")
    assert told.sentence.startswith("c1 acquired the lock although only n1 had granted it: fewer")


def test_keys_that_live_longer_than_the_lease() -> None:
    story = Story().watch("n1", "n2", "n3").section("c1", 10, 50, deadline=105).sets("c1", "v1")
    for node in ("n1", "n2", "n3"):
        story.seen(node, "set", 9, "v1", ttl=1_500).seen(node, "blind", 700)
    assert story.told("keys-outlast-lease").sentence == (
        "The lock told n1 and n2 to keep the key of c1, which got in at +10.0 ms, for 1,500 ms or longer, although it "
        "was asked for 100 ms: if c1 dies, nobody else gets in for as long."
    )


@pytest.mark.parametrize(("on", "who"), [("n1", "only n1"), ("", "no node")])
def test_an_extension_that_too_few_nodes_prolonged(on: str, who: str) -> None:
    story = Story().watched().section("c1", 10, 140, deadline=105).sets("c1", "v1")
    story.op("c1", "extend", "ok", 1, 60, 65, deadline_ns=ms(160), validity_ms=95)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "watching", 0, "id").seen(node, "set", 8, "v1", ttl=100, read=9)
        if node == on:
            story.seen(node, "prolonged", 62, "v1", ttl=100, read=63)
        story.seen(node, "blind", 700)
    told = story.told("lease-outlasts-keys")
    assert told.sentence == (
        f"An extension at +65.0 ms told c1 that it holds the lock until +160.0 ms, although {who} can have prolonged "
        "its key by then; by +110.0 ms the keys expire on so many nodes that no majority is left: the lease is 50 ms "
        "too long."
    )
    assert told.cause == "not prolonged"


def test_a_time_in_which_nobody_got_in_names_the_node_that_was_hung() -> None:
    story = Story(ttl_ms=1000).section("c1", 10, 100).fault("f", 150, 3900, nodes=("n3",))
    for at in range(200, 3900, 100):
        story.op("c2", "acquire", "fail", 1, at, at + 100)
    story.timeline.stop_ns = ms(4000)
    assert story.told("no-way-in").sentence == (
        "For 3.7 s from +200.0 ms on, nobody was inside k1 and nobody got in, although c2 tried and could reach a "
        "majority of the nodes: n3 was hung."
    )


def test_a_client_that_slept_beside_a_free_lock() -> None:
    def told(by_hand: bool, asks: int = 0) -> str:
        story = Story(ttl_ms=400, nodes=1).section("c1", 10, 100 if by_hand else None)
        story.seen("n1", "watching", 0, "id").request("c1", "n1", "SET k1 a NX PX 400", 8, 9)
        story.seen("n1", "set", 9, "a", ttl=400)
        if by_hand:
            story.request("c1", "n1", "DEL k1", 101, 102).seen("n1", "deleted", 102, since=101)
        else:
            story.end("c1", "killed", 50).seen("n1", "expired", 409)
        story.op("c2", "acquire", "fail", 1, 20, 9000).request("c2", "n1", "BLPOP k1:wake 100", 21, None, did=False)
        for at in range(100, 100 + 1000 * asks, 1000):
            story.request("c2", "n1", "GET k1:next", at, at + 1, did=False, reply='"c9"')
        return story.seen("n1", "blind", 9500).told("waits-for-free-lock").sentence

    assert told(by_hand=True) == (
        "c2 was waiting for k1. From +102.0 ms on, for 8.9 s, the key was free (deleted by c1 at +102.0 ms) and no "
        "fault was in the way; meanwhile c2 sent and heard nothing; a client that is not woken up must look again by "
        "itself when the last lease that it saw is over."
    )
    assert told(by_hand=False).startswith(
        "c2 was waiting for k1. From +409.0 ms on, for 8.59 s, the key was free (expired at +409.0 ms) and no fault"
    )
    assert told(by_hand=True, asks=9).endswith("meanwhile c2 had 8 requests answered, and was not let in.")


@pytest.mark.parametrize(("is_cut_off", "end"), [(False, "returned later"), (True, "did not return")])
def test_a_release_that_hung(is_cut_off: bool, end: str) -> None:
    story = Story(ttl_ms=400, nodes=1).section("c1", 10, None).request("c1", "n1", "DEL k1", 101, 102)
    if is_cut_off:
        story.ends.append(ClientEnd("c1", 1, "cut-off", ms(9000), "releasing", since_ns=ms(100)))
    else:
        story.op("c1", "release", "info", 1, 100, 9000)
    assert story.told("call-hung").sentence == (
        "The release that c1 called at +100.0 ms sent nothing and heard nothing for 8.9 s, from +102.1 ms on, although "
        f"no fault was in the way and c1 ran; it {end}."
    )


def test_a_release_that_left_the_keys() -> None:
    story = Story().watched().section("c1", 10, None).sets("c1", "v1").op("c1", "release", "ok", 1, 50, 60)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "watching", 0, "id").seen(node, "set", 8, "v1", ttl=2000).seen(node, "deleted", 900)
        story.seen(node, "blind", 1000)
    assert story.told("release-without-effect").sentence == (
        "The lock told c1 at +60.0 ms that it was released, but its value stayed on n1, n2 and n3, so that no "
        "majority was free for another 840 ms."
    )


@pytest.mark.parametrize(("left", "said"), [(("n1",), "only n1"), ((), "no node")])
def test_an_extension_that_too_few_nodes_can_have_granted(left: tuple[str, ...], said: str) -> None:
    story = Story(ttl_ms=400).watched().section("c1", 10, 300).sets("c1", "v1").op("c1", "extend", "ok", 1, 100, 150)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "watching", 0, f"id-{node}").seen(node, "set", 8, "v1", ttl=400)
        if node not in left:
            story.seen(node, "deleted", 50)
        story.seen(node, "blind", 900)
    assert story.told("extension-without-majority").sentence == (
        f"An extension of c1 was answered with yes at +150.0 ms, although {said} can still have had its value: the "
        "lock counted others, or too few."
    )


def test_a_nested_acquire_that_did_not_look_whether_the_lease_was_over() -> None:
    story = Story(ttl_ms=100).watched().section("c1", 10, 300, deadline=100).sets("c1", "v1")
    story.op("c1", "reenter", "ok", 1, 145, 150)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "watching", 0, f"id-{node}").seen(node, "set", 8, "v1", ttl=93).seen(node, "expired", 101)
        story.seen(node, "blind", 900)
    assert story.told("nested-acquire-without-majority").sentence == (
        "c1's lease was over when it acquired once more what it held, and the yes came at +150.0 ms, although no node "
        "can have had its value."
    )


@pytest.mark.parametrize(
    ("refused", "done"),
    [
        (False, "c1's release had ended, at +60.0 ms"),
        (True, "the attempt that had set it was refused, at +60.0 ms"),
    ],
)
def test_a_key_that_was_left_behind(refused: bool, done: str) -> None:
    story = Story(ttl_ms=900).watched().section("c2", -900, -850).sets("c2", "v")
    story.seen("n1", "watching", -950, "id").seen("n1", "set", -902, "v", ttl=900).seen("n1", "deleted", -855)
    for number, at in enumerate((0, 1000, 2000), 1):
        if refused:
            story.op("c1", "acquire", "fail", number, at + 5, at + 60)
        else:
            story.section("c1", at + 10, None, number=number).sets("c1", f"v{number}", number=number)
            story.op("c1", "release", "ok", number, at + 50, at + 60)
        story.seen("n1", "set", at + 8, f"v{number}", ttl=900).seen("n1", "deleted", at + 800)
    assert story.told("keys-left-behind").sentence == (
        f"n1 kept its key of k1 for another 740 ms after {done}, although no fault was in the way of deleting it."
    )


def test_a_slow_acquire_names_the_node_that_was_hung_meanwhile() -> None:
    story = Story().section("c1", 10, 20).op("c2", "acquire", "fail", 1, 30, 830).fault("f", 100, 700, nodes=("n3",))
    story.acquire_limit_ms = 100.0
    assert story.told("acquire-overrun").sentence == (
        "An acquire of c2 took 800 ms, from +30.0 ms on; the lock allows it 100 ms. Meanwhile n3 was hung."
    )


def test_a_key_that_outlasts_the_ttl() -> None:
    story = Story().section("c1", 10, 40).sets("c1", "v1").seen("n1", "watching", 0, "id")
    story.seen("n1", "set", 9, "v1", ttl=90_000).seen("n1", "deleted", 400)
    assert story.told("orphan-outlasts-ttl").sentence == (
        "n1 kept a key of k1 that had no owner for 359 ms, from +41.0 ms on (not released); keys are to live for 100 "
        "ms."
    )


def test_who_had_no_lease_until_an_extension_came_too_late() -> None:
    story = (
        Story()
        .section("c1", 10, None, deadline=100)
        .op("c1", "extend", "ok", 1, 120, 160, validity_ms=150.0, deadline_ns=ms(300))
    )
    story.op("c1", "release", "ok", 1, 280, 281).section("c2", 110, 140)
    assert story.told("overlap").sentence == (
        "c1 stayed inside for 270 ms without a recorded pause; its lease had expired 10 ms before c2 entered, and no "
        f"extension of it can have come until 40 ms after that. {LOCK_DID_NOTHING_WRONG}"
    )

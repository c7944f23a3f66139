"""Each kind of sentence, word for word, from a history of a few operations."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.history import STARVATION, ClientEnd, HowDown
from tests.explain.stories import Story
from tests.golden import Golden
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
    expected = f"n2 had granted the lock to c1, {how}, and granted the lock to c2 while c1's lease was still valid. "
    assert story.told("overlap").sentence == expected + TWO_OF_THREE


def test_a_node_that_went_down_although_no_fault_took_it_down(golden: Golden) -> None:
    story = Story().let_in("c1", 10, 50, "OK OK nil").unplanned("u1", 12, 20, nodes=("n2",), how_down="unasked")
    golden(story.let_in("c2", 30, 60, "nil OK OK").told("overlap").sentence)


def replaced(**config: object) -> Story:
    """n1, the primary, is killed, and n2 takes its place without the key."""
    story = Story(**config).let_in("c1", 10, 50, "OK - -")
    story.fault("f1", 20, 45, nodes=("n1",), how_down="kill", led_by="n1", elected="n2", elected_after_ms=3.0)
    return story.let_in("c2", 30, 60, "- OK -")


def test_a_lock_that_a_failover_lost_is_named_so_and_tells_who_led(golden: Golden) -> None:
    told = replaced(replication="sentinel", witness="off").told("overlap")
    assert told.cause == "failover"
    golden(told.sentence)


def test_one_node_of_several_independent_ones_is_too_few_whoever_went_down() -> None:
    assert replaced().told("overlap").cause == "too few nodes"


def test_a_primary_that_came_back_without_the_key_is_no_failover_and_needs_no_majority() -> None:
    story = Story(replication="sentinel", witness="off").let_in("c1", 10, 50, "OK - -").killed("n1", 12, 20)
    told = story.let_in("c2", 30, 60, "OK - -").told("overlap")
    assert told.cause == "forgotten"
    assert told.sentence.endswith("lease was still valid.")


def test_a_node_that_was_not_asked_because_its_link_was_cut(golden: Golden) -> None:
    story = Story().fault("p", 1, 70, cut_links=(("c1", "n3"),)).let_in("c1", 10, 50, "OK OK silent")
    story.killed("n2", 12, 20).let_in("c2", 30, 60, "nil OK OK")
    golden(story.told("overlap").sentence)


def test_less_than_a_majority(golden: Golden) -> None:
    story = Story(nodes=5).let_in("c1", 10, 50, "OK OK OK nil nil").let_in("c2", 30, 60, "nil nil nil OK OK")
    golden(story.told("overlap").sentence)


def test_another_client_deleted_the_key(golden: Golden) -> None:
    story = Story().let_in("c1", 10, 50, "OK OK OK").asked("c3", "acquire", 15, "nil nil nil")
    story.asked("c3", "free", 17, "1 1 1")
    golden(story.let_in("c2", 30, 60, "OK OK OK").told("overlap").sentence)


def test_a_deletion_whose_reply_was_read_before_that_of_the_grant(golden: Golden) -> None:
    story = Story().asked("c1", "acquire", 8, "OK OK OK", done=14).section("c1", 15, 50, requested_ns=ms(8), asked=7)
    story.asked("c3", "acquire", 9, "nil nil nil").asked("c3", "free", 11, "1 1 1")
    golden(story.let_in("c2", 30, 60, "OK OK OK").told("overlap").sentence)


def test_the_previous_holders_release_does_not_count_as_a_deletion(golden: Golden) -> None:
    story = Story().let_in("c3", 2, 7, "OK OK OK").asked("c3", "release", 7, "1 1 1", done=12)
    told = (
        story.let_in("c1", 10, 50, "OK OK nil").killed("n2", 13, 20).let_in("c2", 30, 60, "nil OK OK").told("overlap")
    )
    golden(told.sentence)
    assert "c3" not in told.sentence


def test_keys_that_expired_before_the_reported_validity(golden: Golden) -> None:
    story = Story().asked("c1", "acquire", 10, "OK OK OK", done=12)
    story.section("c1", 110, 150, deadline=210, requested_ns=ms(10), asked=9).let_in("c2", 130, 140, "OK OK OK")
    golden(story.told("overlap").sentence)


def test_an_unexplained_loss_is_named_as_such(golden: Golden) -> None:
    story = Story().let_in("c1", 10, 50, "OK OK OK").let_in("c2", 30, 60, "OK OK OK")
    golden(story.told("overlap").sentence)


def test_without_the_nodes_replies_the_sentence_says_what_is_unknown(golden: Golden) -> None:
    told = Story().section("c1", 10, 50).killed("n2", 12, 20).section("c2", 30, 60).told("overlap")
    assert told.parts == ()
    golden(told.sentence)


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
            past_its_lease().fault("p", 20, 31, paused_clients=("c1",)),
            "c1 stayed inside for 140 ms and was stopped for at least 9.0 ms of that; its lease of 100 ms had expired "
            "10 ms before c2 entered. ",
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
            past_its_lease().fault("p", 20, 22.9, paused_clients=("c1",)),
            "c1 stayed inside for 140 ms without a recorded pause; its lease of 100 ms had expired 10 ms before c2 "
            "entered. ",
        ),
        (
            Story()
            .fault("p", 20, 140, paused_clients=("c1",))
            .section("c1", 145, 170, deadline=110, requested_ns=ms(10), asked=9)
            .section("c2", 120, 160),
            "c1 was stopped for 118 ms while it acquired; its lease of 101 ms had expired 35 ms before c1 entered, "
            "while c2 was inside. ",
        ),
        (
            Story().section("c1", 115, 170, deadline=110, requested_ns=ms(10), asked=9).section("c2", 120, 160),
            "c1 learned of its lease 105 ms after asking for it and entered 5.0 ms after its lease of 101 ms had "
            "expired; then c2 entered. ",
        ),
    ],
)
def test_a_client_that_outlived_its_lease(story: Story, what: str) -> None:
    assert story.told("overlap").sentence == what + LOCK_DID_NOTHING_WRONG


@pytest.mark.parametrize(
    ("renewed_at", "ending"),
    [
        (None, "The client outlived its lease, and no request to renew it is on record."),
        (60, "The client outlived its lease."),
        (115, "The client outlived its lease."),
        (125, "The client outlived its lease, and no request to renew it is on record."),
    ],
)
def test_a_lock_that_was_to_renew_may_have_failed_to(renewed_at: float | None, ending: str) -> None:
    """What was sent after the other client had entered was too late."""
    story = Story(renewal_ms=30).watched().let_in("c1", 10, 150, "OK OK OK")
    story.saw(10, "set", "n1 n2 n3", "c1").saw(109, "expired", "n1 n2 n3", "c1")
    story.let_in("c2", 120, 130, "OK OK OK").saw(120, "set", "n1 n2 n3", "c2")
    if renewed_at is not None:
        story.asked("c1", "extend", renewed_at, "0 0 0")
    assert story.told("overlap").sentence.endswith(ending)


def unrenewed(**config: Any) -> Story:
    """The lock renews every 30 ms, and says that c1 held it until 250; its keys expire at 109."""
    story = Story(**{"renewal_ms": 30} | config).watched().let_in("c1", 10, 150, "OK OK OK", deadline=250)
    story.saw(10, "set", "n1 n2 n3", "c1").saw(109, "expired", "n1 n2 n3", "c1")
    return story.let_in("c2", 120, 130, "OK OK OK").saw(120, "set", "n1 n2 n3", "c2")


def test_a_lock_that_sent_no_renewal(golden: Golden) -> None:
    told = unrenewed().asked("c1", "extend", 125, "1 1 1").told("overlap")
    assert told.cause == "not renewed"
    golden(told.sentence)
    assert unrenewed(renewal_ms=None).told("overlap").cause == "expired"


def test_a_lock_whose_last_renewal_failed(golden: Golden) -> None:
    told = unrenewed().asked("c1", "extend", 30, "1 1 1").asked("c1", "extend", 60, "ERR ERR ERR").told("overlap")
    assert told.cause == "expired"
    golden(told.sentence)


@pytest.mark.parametrize(
    ("last", "cause"), [(59, "not renewed"), (61, "expired")], ids=["two more were due", "one more was due"]
)
def test_a_lock_that_sends_no_renewal_after_one_that_failed(last: float, cause: str, golden: Golden) -> None:
    told = unrenewed().asked("c1", "extend", 30, "1 1 1").asked("c1", "extend", last, "ERR ERR ERR").told("overlap")
    assert told.cause == cause
    golden(told.sentence)


def test_a_fault_may_have_kept_a_lock_from_renewing_again() -> None:
    story = unrenewed().asked("c1", "extend", 55, "ERR ERR ERR").fault("f1", 95, 115, paused_clients=("c1",))
    assert story.told("overlap").cause == "expired"


@pytest.mark.parametrize("said", ["1 1 1", "1 1 0"])
def test_a_renewal_that_was_done_does_not_show_why_the_lease_ended(said: str) -> None:
    told = unrenewed().asked("c1", "extend", 60, said).told("overlap")
    assert told.cause == "expired"
    assert "renew" not in told.sentence


@pytest.mark.parametrize("kind", ["overlap", "lease-without-majority"])
def test_a_lock_whose_last_renewal_was_refused(kind: str, golden: Golden) -> None:
    told = unrenewed().asked("c1", "extend", 30, "1 1 1").asked("c1", "extend", 60, "0 0 0").told(kind)
    assert told.cause == "refused renewal"
    golden(told.sentence)


def test_a_refusal_that_arrives_after_the_lease_was_lost_told_the_lock_nothing(golden: Golden) -> None:
    told = unrenewed().asked("c1", "extend", 30, "1 1 1").asked("c1", "extend", 60, "0 0 0", done=125).told("overlap")
    assert told.cause == "expired"
    golden(told.sentence)


def test_a_renewal_whose_script_says_nothing_was_not_refused() -> None:
    story = unrenewed()
    for node in ("n1", "n2", "n3"):
        story.request("c1", node, "EVAL renew 1 k1 c1-1", 20, 21, reply="null", did=False)
        story.seen(node, "prolonged", 20.5, since=20, ttl=100)
        story.by(story.key_events[-1], len(story.requests) - 1)
    told = story.told("overlap")
    assert told.cause == "expired"
    assert "renew" not in told.sentence


def misdirected(
    said: str = "0 - -", at: float = 40, *, granted: str = "- OK OK", sees: str = "n1 n2 n3", seen_until: float = 300
) -> Story:
    """c1 asks for a renewal, once. Its key expires at 109, and c2 gets in."""
    nodes = " ".join(f"n{place}" for place, word in enumerate(granted.split(), 1) if word == "OK")
    story = Story(renewal_ms=30, clients=6).watched(*sees.split()).let_in("c1", 10, 150, granted, deadline=250)
    story.saw(10, "set", nodes, "c1").asked("c1", "extend", at, said).saw(109, "expired", nodes, "c1")
    for node in sees.split():
        story.seen(node, "blind", seen_until)
    return story.let_in("c2", 120, 130, granted).saw(120, "set", nodes, "c2")


@pytest.mark.parametrize("kind", ["overlap", "lease-without-majority"])
def test_a_renewal_that_was_sent_to_a_node_without_the_key(kind: str, golden: Golden) -> None:
    told = misdirected().told(kind)
    assert told.cause == "renewed elsewhere"
    golden(told.sentence)


def test_more_renewals_that_were_sent_to_a_node_without_the_key() -> None:
    told = misdirected().asked("c1", "extend", 70, "0 - -").told("overlap")
    assert told.cause == "renewed elsewhere"
    assert "its 2 requests to renew it, the last at +70.0 ms" in told.sentence


@pytest.mark.parametrize(
    "how",
    [
        {"said": "0 0 -"},
        {"said": "1 - -"},
        {"said": "ERR - -"},
        {"said": "silent - -"},
        {"said": "0 - -", "at": 95},
        {"said": "0 - -", "sees": "n2 n3"},
        {"said": "0 - -", "granted": "OK OK OK"},
    ],
    ids=str,
)
def test_a_renewal_that_may_have_been_for_the_right_node_as_well(how: Any) -> None:
    """A node that held the key was asked, too; the other one did not say no, or no further renewal was due; or it is
    not known that the other one did not hold the key."""
    assert misdirected(**how).told("overlap").cause != "renewed elsewhere"


def test_a_node_that_holds_the_key_of_another_client_was_no_wrong_one() -> None:
    story = misdirected().saw(5, "set", "n1", "c3")
    assert story.told("overlap").cause != "renewed elsewhere"


@pytest.mark.parametrize(
    ("hit", "is_kept"),
    [
        ({"nodes": ("n2",)}, True),
        ({"cut_links": (("c1", "n3"),)}, True),
        ({"paused_clients": ("c1",)}, True),
        ({"cut_links": (("c2", "n3"),)}, False),
        ({"nodes": ("n1",)}, False),
    ],
)
def test_a_fault_may_have_kept_a_renewal_from_the_right_node(hit: Any, is_kept: bool) -> None:
    story = misdirected().fault("f1", 20, 60, **hit)
    assert (story.told("overlap").cause != "renewed elsewhere") == is_kept


@pytest.mark.parametrize(
    ("others", "cause"),
    [
        (["0 - -", "0 - -", "0 - -"], "renewed elsewhere"),
        (["0 - -", "0 - -"], "expired"),
        (["0 - -", "0 - -", "0 - -", "0 1 1"], "expired"),
    ],
    ids=str,
)
def test_faults_do_not_matter_to_a_lock_that_always_renews_at_the_wrong_nodes(others: list[str], cause: str) -> None:
    """Other clients come later, one after the other, when no fault is in force."""
    story = misdirected(seen_until=9_000).fault("f1", 20, 60, nodes=("n2",))
    for place, said in enumerate(others):
        client, at = f"c{place + 3}", 2_000 + 200 * place
        story.let_in(client, at, at + 80, "- OK OK").asked(client, "extend", at + 30, said)
        story.saw(at, "set", "n2 n3", client).saw(at + 90, "deleted", "n2 n3")
    assert story.told("overlap").cause == cause


@pytest.mark.parametrize(("by", "cause"), [("c1", "refused renewal"), ("c1@2", "not renewed")])
def test_a_process_that_notes_what_its_tasks_send_renews_in_the_background(by: str, cause: str) -> None:
    """While c1@2 acquires; what it sends itself renews nothing."""
    story = Story(renewal_ms=30, tasks=2).watched().section("c1@1", 10, 150, deadline=250, asked=8)
    story.op("c1@2", "acquire", "fail", 7, 55, 65)
    for node in ("n1", "n2", "n3"):
        story.request("c1@1", node, "SET k1 v NX PX 100", 8.5, 9, reply='"OK"').seen(
            node, "set", 9, "v", since=8, ttl=100
        )
        story.request(by, node, "EVAL renew 1 k1 v", 60, 61, reply="0", did=False).seen(node, "expired", 110, since=108)
    story.let_in("c2", 120, 130, "OK OK OK").saw(120, "set", "n1 n2 n3", "c2")
    assert story.told("overlap").cause == cause


@pytest.mark.parametrize("client", ["c1", "c1@1"])
def test_a_nested_acquire_or_another_task_that_was_refused_renewed_nothing(client: str) -> None:
    story = Story(renewal_ms=30, tasks=2 if "@" in client else 1).watched()
    story.let_in("c1", 10, None, "OK OK OK", deadline=250) if client == "c1" else story
    if client != "c1":
        story.asked("c1", "acquire", 9, "OK OK OK").section(client, 10, 150, deadline=250, requested_ns=ms(9))
        story.op("c1@2", "acquire", "fail", 7, 55, 65)
    else:
        story.op("c1", "reenter", "fail", 1, 55, 65).op("c1", "release", "ok", 1, 150, 151)
    story.saw(10, "set", "n1 n2 n3").saw(109, "expired", "n1 n2 n3")
    story.asked("c1", "acquire", 60, "nil nil nil", value="another")
    story.let_in("c2", 120, 130, "OK OK OK").saw(120, "set", "n1 n2 n3", "c2")
    told = story.told("overlap")
    assert told.cause == "expired"
    assert "renew" not in told.sentence


@pytest.mark.parametrize(
    ("hit", "cause"),
    [
        ({"paused_clients": ("c1",)}, "expired"),
        ({"paused_clients": ("c2",)}, "not renewed"),
        ({"nodes": ("n1", "n2")}, "expired"),
        ({"nodes": ("n1",)}, "not renewed"),
    ],
)
def test_a_lock_that_a_fault_kept_from_renewing_is_not_to_blame(hit: Any, cause: str) -> None:
    assert unrenewed().fault("f1", 30, 115, **hit).told("overlap").cause == cause


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
            Story()
            .op("c1", "acquire", "ok", 1, 9, 10)
            .op("c1", "release", "fail", 1, 150, 151)
            .section("c2", 110, 130),
            "c1's lock reported no validity, so it is unknown whether the lease had expired by then. ",
        ),
    ],
)
def test_an_overlap_that_stays_undecided(story: Story, what: str) -> None:
    assert story.told("overlap").sentence == f"{what}The record allows both readings."


def test_a_lost_update_names_the_reads_and_how_both_came_to_be_inside(golden: Golden) -> None:
    story = went_down().op("c1", "read", "ok", 1, 11, 12, value=0).op("c2", "read", "ok", 1, 31, 32, value=0)
    told = story.write("c1", 1, at=40).write("c2", 1, at=45).told("lost-update")
    golden(told.sentence)
    golden(told.because)


def test_a_lost_update_by_a_late_write_says_that_its_client_had_given_it_up(golden: Golden) -> None:
    story = Story().let_in("c1", 10, 20, "OK OK OK").let_in("c2", 30, 60, "OK OK OK")
    told = story.write("c2", 1, at=45).write("c1", 1, at=15, told=False).told("lost-update")
    golden(told.sentence)


def test_a_lost_update_without_any_overlap_blames_the_harness(golden: Golden) -> None:
    story = Story().section("c1", 10, 20).section("c2", 30, 40).write("c1", 1, at=12).write("c2", 1, at=32)
    golden(story.told("lost-update").sentence)


@pytest.mark.parametrize(("fencing", "tokens"), [("none", (None, None)), ("writes", (1, 2))])
def test_a_stale_write(fencing: str, tokens: tuple[int | None, int | None], golden: Golden) -> None:
    story = Story(fencing=fencing).section("c1", 10, 150, deadline=110).section("c2", 120, 130)
    story.write("c2", 1, at=125, token=tokens[1]).write("c1", 1, at=140, token=tokens[0])
    golden(story.told("stale-write-accepted").sentence)


@pytest.mark.parametrize(
    "story",
    [
        Story().section("c1", 60, 70, deadline=160, requested_ns=ms(30), asked=20),
        Story().section("c1", 60, 70, deadline=180),
    ],
)
def test_a_reported_validity_that_is_too_long(story: Story, golden: Golden) -> None:
    told = story.told("overstated-validity")
    golden(told.sentence)


def test_a_token_that_did_not_grow(golden: Golden) -> None:
    story = (
        Story().section("c1", 10, 20, token=5, token_source="lock").section("c2", 30, 40, token=4, token_source="lock")
    )
    golden(story.told("token-not-increasing").sentence)


def test_a_finding_about_the_resource_keeps_its_own_text(golden: Golden) -> None:
    story = Story().section("c1", 10, 20).write("c1", 1, at=12)
    story.writes.clear()
    story.final = {}
    golden(story.told("unrecorded-write").sentence)


def test_a_yes_that_came_too_late(golden: Golden) -> None:
    story = Story().section("c1", 500, 510, deadline=100, asked=1, requested_ns=ms(2))
    golden(story.told("late-grant").sentence)
    story = Story().watched().sets("c1", "v1").op("c1", "acquire", "ok", 1, 1, 600, granted_ms=100.0)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "watching", 0, "id").seen(node, "set", 5, "v1", ttl=95).seen(node, "expired", 100)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "blind", 700)


def test_a_lease_that_is_longer_than_its_keys(golden: Golden) -> None:
    story = Story().watched().section("c1", 10, 50, deadline=105).sets("c1", "v1")
    for node in ("n1", "n2", "n3"):
        story.seen(node, "watching", 0, "id").seen(node, "set", 8, "v1", ttl=60, read=9).seen(node, "blind", 700)
    golden(story.told("lease-outlasts-keys").sentence)


def only_on_n1(story: Story) -> Story:
    """The key of c1 was set at 9 on n1 alone; the others were in sight all the time."""
    story.watch("n1", "n2", "n3").sets("c1", "c1-1").seen("n1", "set", 9, "c1-1", ttl=100, read=10)
    for node in ("n2", "n3"):
        story.seen(node, "set", -20, "other").seen(node, "deleted", -10)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "blind", 700)
    return story


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("OK ERR ERR", "granted on errors"),
        ("OK nil -", "too few nodes"),
        ("silent silent nil", "too few nodes"),
        ("OK OK ERR", "not set"),
    ],
)
def test_a_belief_that_too_few_nodes_had_granted(said: str, cause: str, golden: Golden) -> None:
    told = only_on_n1(Story().let_in("c1", 10, 60, said)).told("lease-without-majority")
    golden(told.sentence)
    assert told.cause == cause


def out_of_step(story: Story, node: str) -> Story:
    """c1 gave up an attempt and undid it; both replies came when it asked the node once more."""
    story.request("c1", node, "SET k1 c1-0 NX PX 100", 1, 1.1, told=9.5).seen(node, "set", 1.3, "c1-0", since=1)
    story.request("c1", node, "DEL k1", 4, 4.1, told=9.6, reply="1").seen(node, "deleted", 4.3, since=4)
    return story


@pytest.mark.parametrize(("node", "cause"), [("n2", "another reply"), (None, "too few nodes")])
def test_a_belief_in_a_yes_to_another_request(node: str | None, cause: str, golden: Golden) -> None:
    story = Story() if node is None else out_of_step(Story(), node)
    told = only_on_n1(story.let_in("c1", 10, 60, "OK nil nil")).told("lease-without-majority")
    golden(told.sentence)
    assert told.cause == cause


def test_an_overlap_by_a_yes_to_another_request(golden: Golden) -> None:
    story = out_of_step(Story(), "n2").let_in("c1", 10, 60, "OK nil nil").let_in("c2", 30, 60, "nil OK OK")
    golden(story.told("overlap").sentence)


def cancelled(arrived: float, *, second: str | None = "null") -> Story:
    """c1's first acquire is cancelled at 9; n1 grants it at `arrived`, and says so at 30. The next one asks at 14, is
    refused at 30.4, and believes the first reply, so c1 enters at 30.5. c2 is let in when the key has expired."""
    over = arrived + 100
    story = Story(nodes=1, clients=2).watched("n1").op("c1", "acquire", "info", 1, 5, 9, cancelled=True)
    story.request("c1", "n1", "SET k1 c1-a NX PX 100", arrived, arrived + 0.2, sent=6, told=30)
    story.seen("n1", "set", arrived + 0.1, "c1-a", since=arrived, ttl=100, read=arrived + 0.2)
    story.seen("n1", "expired", over, since=over - 1)
    if second is not None:
        words = "EVAL again 1 k1 c1-a" if second == "1" else "SET k1 c1-b NX PX 100"
        story.request("c1", "n1", words, 17, 17.5, sent=14.5, told=30.4, reply=second, did=False)
    story.section("c1", 30.5, 150, asked=14, requested_ns=ms(14), deadline=125)
    story.request("c2", "n1", "SET k1 c2-1 NX PX 100", over + 1, over + 1.2)
    story.seen("n1", "set", over + 1.1, "c2-1", since=over + 1, ttl=100).seen("n1", "blind", 700)
    return story.section("c2", over + 2, 180, asked=over, deadline=over + 90)


@pytest.mark.parametrize("arrived", [6.5, 16], ids=["before the next call", "in the next call"])
def test_what_a_node_granted_to_a_cancelled_call_it_did_not_grant_to_the_next(arrived: float, golden: Golden) -> None:
    told = cancelled(arrived).told("overlap")
    assert told.cause == "another reply"
    golden(told.sentence)


@pytest.mark.parametrize("second", [None, "1"], ids=["it sends nothing", "it is told yes"])
def test_a_call_may_have_waited_for_what_an_earlier_one_had_asked_for(second: str | None) -> None:
    told = cancelled(16, second=second).told("overlap")
    assert (told.cause, "c1 had 1 of 1 node" in told.sentence) == ("expired", True)


def test_a_lease_that_is_longer_than_the_key_of_a_cancelled_call(golden: Golden) -> None:
    told = cancelled(6.5).told("lease-outlasts-keys")
    assert told.cause == "another reply"
    golden(told.sentence)


def test_late_replies_that_make_no_majority_are_not_mentioned(golden: Golden) -> None:
    story = out_of_step(Story(nodes=5), "n2").let_in("c1", 10, 60, "OK nil nil nil nil")
    told = story.let_in("c2", 30, 60, "nil OK OK OK nil").told("overlap")
    golden(told.sentence)


def test_keys_that_live_longer_than_the_lease(golden: Golden) -> None:
    story = Story().watch("n1", "n2", "n3").section("c1", 10, 50, deadline=105).sets("c1", "v1")
    for node in ("n1", "n2", "n3"):
        story.seen(node, "set", 9, "v1", ttl=1_500).seen(node, "blind", 700)
    golden(story.told("keys-outlast-lease").sentence)


@pytest.mark.parametrize("on", ["n1", ""])
def test_an_extension_that_too_few_nodes_prolonged(on: str, golden: Golden) -> None:
    story = Story().watched().section("c1", 10, 140, deadline=105).sets("c1", "v1")
    story.op("c1", "extend", "ok", 1, 60, 65, deadline_ns=ms(160), validity_ms=95)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "watching", 0, "id").seen(node, "set", 8, "v1", ttl=100, read=9)
        if node == on:
            story.seen(node, "prolonged", 62, "v1", ttl=100, read=63)
        story.seen(node, "blind", 700)
    told = story.told("lease-outlasts-keys")
    golden(told.sentence)
    assert told.cause == "not prolonged"


@pytest.mark.parametrize(
    ("by", "deleted", "cause"),
    [("c1", "n1 n2", "deleted by itself"), ("c1", "n1", "not prolonged"), ("c2", "n1 n2", "not prolonged")],
)
def test_an_extension_that_deleted_the_key(by: str, deleted: str, cause: str, golden: Golden) -> None:
    story = Story().watched().section("c1", 10, 140, deadline=105, asked=6)
    story.op("c1", "extend", "ok", 1, 60, 65, deadline_ns=ms(160), validity_ms=95)
    for node in ("n1", "n2", "n3"):
        asked = [("c1", "SET k1 v1 NX PX 100", 7, "set"), (by, "EVALSHA 5f 1 k1 v1", 62, "deleted")]
        for client, words, at, what in asked[: 2 if node in deleted.split() else 1]:
            story.request(client, node, words, at, at + 1, reply="1", did=False)
            story.seen(node, what, at + 0.5, *(("v1",) if what == "set" else ()), since=at, ttl=100, read=at + 1)
            story.by(story.key_events[-1], len(story.requests) - 1)
        story.seen(node, "blind", 700)
    told = story.told("lease-outlasts-keys")
    assert told.cause == cause
    if cause == "deleted by itself":
        golden(told.sentence)


def test_a_time_in_which_nobody_got_in_names_the_node_that_was_hung(golden: Golden) -> None:
    story = Story(ttl_ms=1000).section("c1", 10, 100).fault("f", 150, 3900, nodes=("n3",))
    for at in range(200, 3900, 100):
        story.op("c2", "acquire", "fail", 1, at, at + 100)
    story.timeline.stop_ns = ms(4000)
    golden(story.told("unavailable-while-free").sentence)


def test_a_client_that_slept_beside_a_free_lock(golden: Golden) -> None:
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

    golden(told(by_hand=True))
    golden(told(by_hand=False))
    golden(told(by_hand=True, asks=9))


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_release_that_hung(is_cut_off: bool, golden: Golden) -> None:
    story = Story(ttl_ms=400, nodes=1).section("c1", 10, None).request("c1", "n1", "DEL k1", 101, 102)
    if is_cut_off:
        story.ends.append(ClientEnd("c1", 1, "cut-off", ms(9000), "releasing", since_ns=ms(100)))
    else:
        story.op("c1", "release", "info", 1, 100, 9000)
    golden(story.told("call-hung").sentence)


def test_a_release_that_left_the_keys(golden: Golden) -> None:
    story = Story().watched().section("c1", 10, None).sets("c1", "v1").op("c1", "release", "ok", 1, 50, 60)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "watching", 0, "id").seen(node, "set", 8, "v1", ttl=2000).seen(node, "deleted", 900)
        story.seen(node, "blind", 1000)
    golden(story.wanted().told("release-without-effect").sentence)


@pytest.mark.parametrize("left", [("n1",), ()])
def test_an_extension_that_too_few_nodes_can_have_granted(left: tuple[str, ...], golden: Golden) -> None:
    story = Story(ttl_ms=400).watched().section("c1", 10, 300).sets("c1", "v1").op("c1", "extend", "ok", 1, 100, 150)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "watching", 0, f"id-{node}").seen(node, "set", 8, "v1", ttl=400)
        if node not in left:
            story.seen(node, "deleted", 50)
        story.seen(node, "blind", 900)
    golden(story.told("extension-without-majority").sentence)


def test_a_nested_acquire_that_did_not_look_whether_the_lease_was_over(golden: Golden) -> None:
    story = Story(ttl_ms=100).watched().section("c1", 10, 300, deadline=100).sets("c1", "v1")
    story.op("c1", "reenter", "ok", 1, 145, 150)
    for node in ("n1", "n2", "n3"):
        story.seen(node, "watching", 0, f"id-{node}").seen(node, "set", 8, "v1", ttl=93).seen(node, "expired", 101)
        story.seen(node, "blind", 900)
    golden(story.told("nested-acquire-without-majority").sentence)


@pytest.mark.parametrize("refused", [False, True])
def test_a_key_that_was_left_behind(refused: bool, golden: Golden) -> None:
    story = Story(ttl_ms=900).watched().section("c2", -900, -850).sets("c2", "v")
    story.seen("n1", "watching", -950, "id").seen("n1", "set", -902, "v", ttl=900).seen("n1", "deleted", -855)
    for number, at in enumerate((0, 1000, 2000), 1):
        if refused:
            story.op("c1", "acquire", "fail", number, at + 5, at + 60)
        else:
            story.section("c1", at + 10, None, number=number).sets("c1", f"v{number}", number=number)
            story.op("c1", "release", "ok", number, at + 50, at + 60)
        story.seen("n1", "set", at + 8, f"v{number}", ttl=900).seen("n1", "deleted", at + 800)
    golden((story if refused else story.wanted()).told("keys-left-behind").sentence)


def test_a_slow_acquire_names_the_node_that_was_hung_meanwhile(golden: Golden) -> None:
    story = Story().section("c1", 10, 20).op("c2", "acquire", "fail", 1, 30, 830).fault("f", 100, 700, nodes=("n3",))
    story.acquire_limit_ms = 100.0
    golden(story.told("acquire-overrun").sentence)


def test_a_key_that_outlasts_the_ttl(golden: Golden) -> None:
    story = Story().section("c1", 10, 40).sets("c1", "v1").seen("n1", "watching", 0, "id")
    story.seen("n1", "set", 9, "v1", ttl=90_000).seen("n1", "deleted", 400)
    golden(story.told("orphan-outlasts-ttl").sentence)


def test_who_had_no_lease_until_an_extension_came_too_late(golden: Golden) -> None:
    story = (
        Story()
        .section("c1", 10, None, deadline=100)
        .op("c1", "extend", "ok", 1, 120, 160, validity_ms=150.0, deadline_ns=ms(300))
    )
    story.op("c1", "release", "ok", 1, 280, 281).section("c2", 110, 140)
    golden(story.told("overlap").sentence)


@pytest.mark.parametrize(
    ("said_ms", "wrong", "cause"), [(150, False, "set by an extension"), (121, False, None), (150, True, None)]
)
def test_an_extension_of_what_had_expired(said_ms: float, wrong: bool, cause: str | None, golden: Golden) -> None:
    """The keys expire at 111 at the latest, and the clock of a node is taken to be 20 ms slow at most, but for what
    faults do to it."""
    story = Story().watched().let_in("c1", 10, 190, "OK OK OK")
    if wrong:
        story.fault("f1", 20, 180, nemesis="clock", wrong_clocks=("n1", "n2", "n3"))
    for node in ("n1", "n2", "n3"):
        story.seen(node, "set", 10, "c1-1", since=9, ttl=100, read=10)
        story.request("c1", node, "EVAL lock 1 k1 c1-1 100", said_ms - 2, said_ms - 1, reply='"OK"')
        story.seen(node, "expired", said_ms - 1.5, since=60)
        story.seen(node, "set", said_ms - 1.4, "c1-1", since=said_ms - 2, ttl=100)
    story.sets("c1", "c1-1").op("c1", "extend", "ok", 1, said_ms - 3, said_ms, deadline_ns=ms(said_ms + 96))
    kinds = {finding.kind for finding in story.judged()[1].findings}
    assert ("lost-lease-extended" in kinds, "late-extension" in kinds) == (cause is not None, cause is None)
    if cause is not None:
        told = story.told("lost-lease-extended")
        assert told.cause == cause
        golden(told.sentence)


def test_an_earlier_extension_had_set_the_key_anew() -> None:
    story = Story().watched().let_in("c1", 10, 190, "OK OK OK")
    for node in ("n1", "n2", "n3"):
        story.seen(node, "set", 10, "c1-1", since=9, ttl=100, read=10)
        story.request("c1", node, "EVAL lock 1 k1 c1-1 100", 148, 149, reply='"OK"')
        story.seen(node, "expired", 148.5, since=60).seen(node, "set", 148.6, "c1-1", since=148, ttl=100)
        story.request("c1", node, "EVAL lock 1 k1 c1-1 100", 158, 159, reply='"OK"')
        story.seen(node, "prolonged", 158.6, since=158, ttl=100)
    story.sets("c1", "c1-1").op("c1", "extend", "info", 1, 147, 150)
    story.op("c1", "extend", "ok", 1, 157, 160, deadline_ns=ms(256))
    assert story.told("lost-lease-extended").cause is None


def waited(*, expires: float = 120, again: float = 0, nodes: int = 1) -> Story:
    """c1 and c2 put an entry of 100 ms into the queue, wait for 200 ms, and are let in because no other is before."""
    story = Story(nodes=nodes).watched(*(f"n{number}" for number in range(1, nodes + 1)))
    for client, at in (("c1", 20), ("c2", 25)):
        key = f"k1/{client}"
        story.request(client, "n1", f"EVAL enter 1 {key} 100", at - 1, at).seen("n1", "set", at, since=at - 1, key=key)
        story.seen("n1", "expired", expires, since=expires - 5, key=key)
        if again:
            story.request(client, "n1", f"EVAL enter 1 {key} 100", 180, 181, reply="0")
            story.seen("n1", "set", again, since=180, key=key)
        for number in range(1, nodes + 1):
            story.request(client, f"n{number}", "EVAL ahead 1 k1", 218, 219, reply="0", did=False)
        story.section(client, 220, 260, asked=at - 2, deadline=310)
    return story.seen("n1", "blind", 900)


def test_what_a_client_had_set_expired_while_it_waited(golden: Golden) -> None:
    told = waited().told("overlap")
    assert told.cause == "expired waiting"
    golden(told.sentence)


@pytest.mark.parametrize(
    "how",
    [{"expires": 225}, {"again": 181}, {"again": 225}, {"nodes": 3}],
    ids=["later", "set anew", "set anew as it is seen later", "on a minority of the nodes"],
)
def test_what_a_client_had_set_was_there_when_it_was_let_in(how: Any) -> None:
    assert waited(**how).told("overlap").cause != "expired waiting"

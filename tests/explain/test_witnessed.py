"""What the witness saw explains a lock that shows nothing, and adds to one that shows its answers."""

from __future__ import annotations

from tests.explain.stories import Story

ONE_AND_ALL = "So c1 had 2 of 3 nodes, and c2 had 2 of 3 nodes."


def foreign() -> Story:
    """A lock that shows nothing: c1 is let in at 10 ms, c2 at 30 ms, and all nodes are watched."""
    return Story().section("c1", 10, 50, asked=8).section("c2", 30, 60, asked=28).watched()


def test_a_node_that_forgot() -> None:
    story = foreign().saw(9, "set", "n1 n2", "c1").killed("n2", 12, 20)
    story.saw(13, "blind", "n2", key="").saw(21, "watching", "n2", key="").saw(29, "set", "n2 n3", "c2")
    told = story.told("overlap")
    assert told.sentence == (
        "n2 had granted the lock to c1, was killed 2.0 ms later, came back 7.0 ms later without the key (with "
        "persistence none a node that restarts has forgotten its locks), and granted it to c2 while that lease still "
        f"stood. {ONE_AND_ALL}"
    )


def test_a_key_that_was_deleted_by_nobody_knows_whom() -> None:
    story = foreign().saw(9, "set", "n1 n2", "c1").saw(20, "deleted", "n2").saw(29, "set", "n2 n3", "c2")
    assert story.told("overlap").sentence == (
        "n2 had granted the lock to c1; the key was deleted there, by whom is not on record, and so it granted it to "
        f"c2 while that lease still stood. {ONE_AND_ALL}"
    )


def test_the_deletion_of_the_holder_before_is_another_one_in_the_node_s_own_order() -> None:
    story = foreign().saw(8.9, "deleted", "n2").saw(9, "set", "n1 n2", "c1").saw(20, "expired", "n2")
    assert story.saw(29, "set", "n2 n3", "c2").told("overlap").sentence == (
        "c1's key on n2 had expired by +21.0 ms, before the TTL of 100 ms was over, and that node granted the lock to "
        f"c2. {ONE_AND_ALL}"
    )


def test_less_than_a_majority_where_every_node_was_watched() -> None:
    story = foreign().saw(9, "set", "n1 n2", "c1").saw(29, "set", "n3", "c2")
    assert story.told("overlap").sentence == (
        "c2 was let in although only n3 had said yes to it: fewer than the majority of 2 of 3 nodes, and no node said "
        "yes to both."
    )


def test_nodes_that_were_not_watched_prove_nothing() -> None:
    story = Story().section("c1", 10, 50, asked=8).section("c2", 30, 60, asked=28).watched("n3")
    story.saw(9, "set", "n1 n2", "c1").saw(29, "set", "n3", "c2")
    assert story.told("overlap").sentence == (
        "No node is on record that said yes to both c1 and c2; what they answered is known only in part."
    )


def test_a_lock_whose_key_has_another_name_on_the_nodes() -> None:
    story = foreign().saw(9, "set", "n1 n2", "c1", key="lock:k1").saw(20, "deleted", "n2", key="lock:k1")
    told = story.saw(29, "set", "n2 n3", "c2", key="lock:k1").told("overlap")
    assert "the key was deleted there" in told.sentence


def test_a_lock_of_which_the_witness_recognises_nothing_is_not_said_to_have_no_nodes() -> None:
    story = foreign().saw(9, "set", "n1 n2", key="other")
    assert "is not on record" in story.told("overlap").sentence


def test_a_grant_whose_answer_was_lost_is_seen_and_does_not_count_as_heard() -> None:
    story = Story().let_in("c1", 10, 50, "OK OK nil").let_in("c2", 30, 60, "silent silent OK").watched()
    story.saw(29.5, "set", "n2", "c2")
    told = story.told("overlap")
    assert told.sentence.startswith(
        "c2 was let in although only n3 had said yes to it (n1 and n2 gave no answer): fewer"
    )
    assert told.parts[1].later.yes
    assert not told.parts[1].later.heard
    assert not told.parts[0].later.yes


def test_clients_answers_say_who_deleted_what_the_witness_only_saw_deleted() -> None:
    story = Story().let_in("c1", 10, 50, "OK OK OK").asked("c3", "acquire", 15, "nil nil nil")
    story.asked("c3", "undo", 17, "1 1 1").watched().saw(9.5, "set", "n1 n2 n3", "c1").saw(17.5, "deleted", "n1 n2 n3")
    assert "c3, whose key it was not, deleted it" in story.let_in("c2", 30, 60, "OK OK OK").told("overlap").sentence


def test_a_key_that_was_there_and_overwritten() -> None:
    story = foreign().saw(9, "set", "n1 n2", "c1").saw(29, "set", "n2 n3", "c2")
    assert story.told("overlap").sentence == (
        "n2 had granted the lock to c1, and granted it to somebody else by +30.0 ms although the key was still there: "
        f"it was overwritten. {ONE_AND_ALL}"
    )

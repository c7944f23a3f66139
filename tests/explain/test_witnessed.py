"""What the witness saw, and the requests that it names, explain any lock."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from harness.explain.evidence import gather
from harness.explain.kinds import Told
from harness.explain.replies import Span
from harness.explain.witnessed import what_was_done
from harness.history.key_owners import Owners
from tests.explain.stories import Story
from tests.golden import Golden
from tests.judge.histories import ms


def foreign() -> Story:
    """c1 enters at 10 ms, c2 at 30 ms, and all nodes are watched."""
    return Story().section("c1", 10, 50, asked=8).section("c2", 30, 60, asked=28).watched()


def test_a_node_that_forgot(golden: Golden) -> None:
    story = foreign().saw(9, "set", "n1 n2", "c1").killed("n2", 12, 20)
    story.saw(13, "blind", "n2", key="").saw(21, "watching", "n2", key="").saw(29, "set", "n2 n3", "c2")
    told = story.told("overlap")
    golden(told.sentence)


@pytest.mark.parametrize(("copies", "keys"), [((), {"k1", "last"}), (("last",), {"k1"})])
def test_what_happened_to_a_copy_of_the_key_explains_nothing(copies: tuple[str, ...], keys: set[str]) -> None:
    story = foreign().saw(9, "set", "n1", "c1").saw(20, "set", "n1", key="last")
    run = story.recorded()
    vars(run)["owners"] = Owners(pd.DataFrame(columns=["key"]), {}, {}, copies=set(copies))
    evidence = gather(run, [Span("k1", ms(0), ms(100))])
    assert {key for key, _ in evidence.seen} == keys


def test_a_key_that_was_deleted_by_an_unknown_client(golden: Golden) -> None:
    story = foreign().saw(9, "set", "n1 n2", "c1").saw(20, "deleted", "n2").saw(29, "set", "n2 n3", "c2")
    golden(story.told("overlap").sentence)


def test_the_previous_holders_deletion_comes_first_in_the_node_s_own_order(golden: Golden) -> None:
    story = foreign().saw(8.9, "deleted", "n2").saw(9, "set", "n1 n2", "c1").saw(20, "expired", "n2")
    golden(story.saw(29, "set", "n2 n3", "c2").told("overlap").sentence)


def test_keys_that_lived_for_longer_than_they_were_asked_for_are_not_said_to_have_lived_for_a_ttl(
    golden: Golden,
) -> None:
    story = Story().section("c1", 10, 300, asked=8, deadline=280).section("c2", 250, 290, asked=248).watched()
    story.saw(9, "set", "n1 n2", "c1").saw(209, "expired", "n2").saw(249, "set", "n2 n3", "c2")
    golden(story.told("overlap").sentence)


@pytest.mark.parametrize("nodes", [("n2",), ("n3",)])
def test_a_key_that_expired_early_on_a_node_with_a_wrong_clock(nodes: tuple[str, ...], golden: Golden) -> None:
    story = foreign().saw(9, "set", "n1 n2", "c1").saw(20, "expired", "n2").saw(29, "set", "n2 n3", "c2")
    story.fault("f1", 15, None, wrong_clocks=nodes)
    golden(story.told("overlap").sentence)


def test_less_than_a_majority_with_every_node_watched(golden: Golden) -> None:
    story = foreign().saw(9, "set", "n1 n2", "c1").saw(29, "set", "n3", "c2")
    golden(story.told("overlap").sentence)


def test_a_lock_whose_clients_use_one_value_each_for_all_their_sections(golden: Golden) -> None:
    story = foreign().saw(9, "set", "n1 n2", "c1").saw(20, "deleted", "n2").saw(29, "set", "n2 n3", "c2")
    for client in ("c1", "c2"):
        for section in (2, 3):
            story.sets(client, f"{client}-1", number=section)
    told = story.told("overlap")
    golden(told.sentence)
    assert all(part.others == () for part in told.parts), "what both had themselves was granted to nobody else"


def test_the_request_tells_which_key_is_meant_if_a_client_has_one_value_for_all_of_them() -> None:
    story = Story().watched()
    for key, at in (("k1", 10), ("k2", 12)):
        story.section("c1", at, 50, asked=at - 2, number=at, key=key)
        story.request("c1", "n1", f"SET lock:{key} id-of-c1 NX", at - 1, at - 0.9)
        story.seen("n1", "set", at - 0.8, "id-of-c1", since=at - 1.1, key=f"lock:{key}", ttl=100)
    evidence = gather(story.recorded(), [Span("k1", ms(0), ms(100))])
    assert {event.key for event in evidence.on("n1", "k1")} == {"k1"}


def test_nodes_that_were_not_watched_prove_nothing(golden: Golden) -> None:
    story = Story().section("c1", 10, 50, asked=8).section("c2", 30, 60, asked=28).watched("n3")
    story.saw(9, "set", "n1 n2", "c1").saw(29, "set", "n3", "c2")
    story.not_recorded.update(("n1", "n2", "n3"))
    golden(story.told("overlap").sentence)


def test_a_lock_whose_key_has_another_name_on_the_nodes() -> None:
    story = foreign().saw(9, "set", "n1 n2", "c1", key="lock:k1").saw(20, "deleted", "n2", key="lock:k1")
    told = story.saw(29, "set", "n2 n3", "c2", key="lock:k1").told("overlap")
    assert "other than a recorded request deleted" in told.sentence


def test_a_grant_whose_reply_was_lost_is_shown_but_does_not_count(golden: Golden) -> None:
    story = Story().let_in("c1", 10, 50, "OK OK nil").let_in("c2", 30, 60, "silent silent OK").watched()
    story.saw(9.5, "set", "n1 n2", "c1").saw(29.5, "set", "n2 n3", "c2")
    told = story.told("overlap")
    golden(told.sentence)
    assert told.parts[1].later.yes
    assert not told.parts[1].later.heard
    assert not told.parts[0].later.yes


def test_clients_replies_show_who_deleted_a_key_that_the_witness_saw_deleted(golden: Golden) -> None:
    story = Story().let_in("c1", 10, 50, "OK OK OK").asked("c3", "acquire", 15, "nil nil nil")
    story.asked("c3", "free", 17, "1 1 1").watched().saw(9.5, "set", "n1 n2 n3", "c1").saw(17.5, "deleted", "n1 n2 n3")
    story.saw(29.5, "set", "n1 n2 n3", "c2")
    golden(story.let_in("c2", 30, 60, "OK OK OK").told("overlap").sentence)


def test_a_key_that_expired_before_it_could_be_read(golden: Golden) -> None:
    """What came first was the loss."""

    def told(*gone: Any) -> Told:
        story = Story().let_in("c1", 10, 50, "OK OK nil").let_in("c2", 30, 60, "nil OK OK").watched()
        story.saw(9.5, "set", "n1", "c1").saw(9.5, "set", "n2")
        for at, one in enumerate(gone):
            story.seen("n2", one, 10.6 + at, ttl=1, since=8)
        return story.saw(29.5, "set", "n2 n3", "c2").told("overlap")

    assert told("expired").cause == "expired"
    golden(told("expired").sentence)
    assert told().cause == "overwritten"
    assert told("deleted").cause == "deleted"


@pytest.mark.parametrize("what", ["set", "expired", "deleted"])
def test_what_ended_the_very_value_that_was_seen(what: Any) -> None:
    """In the witness's order, whatever came after it."""
    story = Story(clients=3).let_in("c1", 10, 50, "OK OK nil").let_in("c2", 30, 60, "nil OK OK").watched()
    story.saw(9.5, "set", "n1 n2", "c1")
    for at, one in enumerate(("prolonged", what, "set", "expired", "set", "deleted")):
        value = "c1-1" if not at else "other" if one == "set" else None
        story.seen("n2", one, 11 + at, value, since=10.5 + at, ttl=50)
    assert story.saw(29.5, "set", "n2 n3", "c2").told("overlap").cause == {"set": "overwritten"}.get(what, what)


def test_a_value_that_was_set_once_more_has_not_ended() -> None:
    story = Story().let_in("c1", 10, 50, "OK OK nil").let_in("c2", 30, 60, "nil OK OK").watched()
    story.saw(9.5, "set", "n1 n2", "c1").saw(15, "set", "n2", "c1").saw(20, "expired", "n2")
    assert story.saw(29.5, "set", "n2 n3", "c2").told("overlap").cause == "expired"


@pytest.mark.parametrize("first", ["c1", "c2"])
def test_the_node_s_own_order_decides_who_came_first_where_the_replies_were_late(first: str, golden: Golden) -> None:
    """Both replies were read at 30. Who came last has deleted the key since."""
    story = Story(clients=3).watched().asked("c1", "acquire", 9, "OK OK nil", done=30)
    story.asked("c2", "acquire", 10, "nil OK OK", done=30.1).section("c1", 30, 50, asked=9).section(
        "c2", 31, 60, asked=10
    )
    second = "c2" if first == "c1" else "c1"
    story.saw(12, "set", "n1", "c1").saw(15, "set", "n2", first).saw(20, "set", "n2", second).saw(13, "set", "n3", "c2")
    told = story.saw(70, "deleted", "n2").told("overlap")
    assert told.cause == "overwritten"
    golden(told.sentence)


def test_who_was_overwritten_before_the_witness_could_read_it_came_first(golden: Golden) -> None:
    """A former holder's key expires on n2, c1 sets it, and c2 sets it at once. Both replies are read at 30."""
    story = Story(clients=3).watched().asked("c1", "acquire", 9, "OK OK nil", done=30.1)
    story.asked("c2", "acquire", 9.2, "nil OK OK", done=30).section("c1", 31, 50, asked=9).section(
        "c2", 31, 60, asked=9
    )
    story.saw(12, "set", "n1", "c1").saw(12, "expired", "n2").saw(14, "set", "n2").saw(14.1, "set", "n2", "c2")
    told = story.saw(13, "set", "n3", "c2").saw(70, "deleted", "n2").told("overlap")
    assert told.cause == "overwritten"
    golden(told.sentence)


@pytest.mark.parametrize("what", ["expired", "deleted"])
def test_a_value_that_comes_again_ended_after_it_was_granted_and_not_the_time_before(what: Any) -> None:
    """All of c1's sections have one value; in its first one the key was deleted."""
    story = Story(clients=3).let_in("c1", 3, 5, "OK OK nil", value="c1-1")
    story.let_in("c1", 10, 50, "OK OK nil", number=2, value="c1-1").let_in("c2", 30, 60, "nil OK OK").watched()
    for at, one in ((2.5, "set"), (6, "deleted"), (9.5, "set"), (20, what)):
        value = "c1-1" if one == "set" and at < 20 else None
        nodes = ("n1", "n2") if at < 20 else ("n2",)
        for node in nodes:
            story.seen(node, one, at + 0.2, value, ttl=1, since=at - 0.2)
    told = story.saw(29.5, "set", "n2 n3", "c2").told("overlap")
    assert told.cause == {"set": "overwritten"}.get(what, what)


def test_a_key_that_was_overwritten(golden: Golden) -> None:
    story = foreign().saw(9, "set", "n1 n2", "c1").saw(29, "set", "n2 n3", "c2")
    golden(story.told("overlap").sentence)


def test_who_held_a_node_between_the_two_leases_is_shown() -> None:
    story = Story(clients=3).let_in("c1", 10, 90, "OK OK nil").asked("c3", "acquire", 20, "nil nil OK")
    story.asked("c3", "undo", 25, "0 0 1").let_in("c2", 40, 60, "nil OK OK")
    parts = {part.node: part for part in story.told("overlap").parts}
    assert [(e.client, e.by_ns) for e in parts["n3"].others] == [("c3", ms(21))]
    assert parts["n1"].others == parts["n2"].others == ()


@pytest.mark.parametrize(("asked", "done", "shown"), [(9, 11, 0), (11, 12, 1), (38, 39, 1), (38, 39.1, 0)])
def test_only_what_was_certainly_granted_in_between_is_shown(asked: float, done: float, shown: int) -> None:
    """n2 granted the lock to c1 by 10, and to c2 after 39; n1 only to c1, and c2 came at 40."""
    story = Story(clients=3).let_in("c1", 10, 90, "OK OK nil").let_in("c2", 40, 60, "nil OK OK")
    story.asked("c3", "acquire", asked, "nil OK nil", done=done)
    parts = {part.node: part for part in story.told("overlap").parts}
    assert len(parts["n2"].others) == shown


def test_without_a_grant_the_time_from_the_request_to_the_entrance_counts() -> None:
    def shown(asked: float, done: float) -> int:
        story = Story(clients=3).let_in("c1", 10, 90, "nil OK OK").let_in("c2", 40, 60, "nil OK OK")
        story.asked("c3", "acquire", asked, "OK nil nil", done=done)
        return len(next(part for part in story.told("overlap").parts if part.node == "n1").others)

    assert [shown(8.9, 12), shown(9, 12), shown(30, 40), shown(30, 40.1)] == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("change", "command", "what"),
    [
        ("set", "HSET", "granted"),
        ("set", None, "granted"),
        ("changed", "ZADD", "granted"),
        ("set", "HDEL", None),
        ("overwritten", "ZPOPMIN", None),
        ("changed", "SREM", None),
        ("deleted", "HDEL", "deleted"),
    ],
)
def test_what_takes_a_member_out_grants_nothing(change: str, command: str | None, what: str | None) -> None:
    assert what_was_done(change, command) == what


def test_a_reader_that_leaves_lets_no_client_in() -> None:
    """It takes its field out of the hash, where that of another reader stays."""
    story = foreign().request("c1", "n1", "EVAL enter 1 k1", 8.2, 9).seen("n1", "set", 10, "c1-1", since=8, ttl=100)
    story.called("HSET k1 c1-1 1").request("c1", "n1", "EVAL leave 1 k1", 19.2, 20)
    story.seen("n1", "set", 21, "c2-1", since=19, ttl=100).called("HDEL k1 c1-1")
    evidence = gather(story.recorded(), [Span("k1", ms(0), ms(100))])
    assert [event.what for event in evidence.on("n1", "k1")] == ["granted"]

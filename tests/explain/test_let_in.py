"""What is told of two clients that a node let in, when no key on record was granted to both."""

from __future__ import annotations

import pytest

from tests.explain.stories import Story
from tests.golden import Golden


def counted(*, told: float = 9.8) -> Story:
    """Two clients ask one node for a place in a sorted set, and are answered alike."""
    story = Story(clients=3).watched()
    for client, at in (("c1", 9), ("c2", 29)):
        more = {"told": told if client == "c1" else at + 0.8}
        story.request(client, "n1", f"ZADD places 1 {client}", at, at + 0.5, reply="1", **more)
        story.seen("n1", "changed", at + 1, since=at - 1, key="places")
    return story.section("c1", 10, 60, asked=8).section("c2", 30, 50, asked=28)


def test_the_answers_to_both_are_told(golden: Golden) -> None:
    golden(counted().told("overlap").sentence)


def test_what_another_client_did_to_the_key_meanwhile_is_told(golden: Golden) -> None:
    story = counted().op("c3", "release", "ok", 1, 15, 17)
    story.request("c3", "n1", "DEL places", 16, 16.5, reply="1").seen("n1", "deleted", 17, since=15, key="places")
    story.key_events.sort(key=lambda event: event.at_ns)
    told = story.told("overlap")
    assert told.cause == "deleted"
    golden(told.sentence)


def test_an_answer_that_came_when_the_client_had_entered_is_not_told() -> None:
    assert "known only in part" in counted(told=11).told("overlap").sentence


def hashed(first: str, second: str, key: str = "k1") -> str:
    """c1 and c2 put these fields into a hash; the key of c2's has this name."""
    story = Story(nodes=1).watched("n1")
    for client, at, field, name in (("c1", 9, first, "k1"), ("c2", 29, second, key)):
        story.request(client, "n1", f"HINCRBY {name} {field} 1", at, at + 0.5, reply="1", told=at + 0.8)
        story.seen("n1", "set", at + 1, field, since=at - 1, key=name, is_hash=True)
    if key == "k1":
        story.key_events[-1].event = "changed"
    return story.section("c1", 10, 60, asked=8).section("c2", 30, 50, asked=28).told("overlap").sentence


def test_clients_that_use_the_same_field_are_told() -> None:
    assert "c1 and c2 asked n1 for k1 with the same value, main" in hashed("main", "main")
    assert "c2 changed the key k1 while c1's change was still in it." in hashed("a", "b")


def test_different_keys_are_told(golden: Golden) -> None:
    golden(hashed("a", "b", "k1:other"))


def test_a_deletion_of_what_others_had_added_is_told(golden: Golden) -> None:
    """c1 leaves and deletes a counter to which c3 has added."""
    story = Story(clients=3).watched()
    for client, word, at, what in (
        ("c1", "INCR", 2, "set"),
        ("c3", "INCR", 4, "changed"),
        ("c1", "DEL", 6, "deleted"),
        ("c1", "INCR", 9, "set"),
        ("c2", "INCR", 29, "changed"),
    ):
        story.request(client, "n1", f"{word} inside", at, at + 0.5, reply="1", told=at + 0.8)
        story.seen("n1", what, at + 1, since=at - 1, key="inside")
    story.op("c3", "acquire", "fail", 1, 3, 8).op("c1", "release", "ok", 1, 5, 7)
    story.section("c1", 10, 60, asked=8, number=2).section("c2", 30, 50, asked=28)
    golden(story.told("overlap").sentence)


def test_an_answer_to_another_task_of_the_process_is_not_told() -> None:
    """While c1@1 tries, so does c1@3 of the same process, and is refused last."""
    story = Story(clients=2, nodes=1).watched("n1")
    story.request("c2", "n1", "SET k1 a NX", 9, 9.5, reply="OK", told=9.8)
    story.seen("n1", "set", 10, "a", since=8)
    story.request("c1", "n1", "SET k1 b NX", 29, 29.2, reply="null", told=29.9)
    story.op("c1@3", "acquire", "fail", 1, 28, 31)
    story.section("c2@1", 10, 60, asked=8).section("c1@1", 30, 50, asked=28)
    sentence = story.told("overlap").sentence
    assert "nil" not in sentence
    assert "let both in" not in sentence


def test_of_tasks_that_are_on_record_the_answers_are_each_ones_own() -> None:
    """While c1@1 is let in by a count, c1@3 of the same process is refused."""
    story = Story(clients=2, nodes=1, tasks=3).watched("n1")
    for task, at in (("c2@1", 9), ("c1@1", 29)):
        story.request(task, "n1", f"ZADD places 1 {task}", at, at + 0.5, reply="1", told=at + 0.8)
        story.seen("n1", "changed", at + 1, since=at - 1, key="places")
    story.request("c1@3", "n1", "ZADD places 2 c1@3", 29, 29.6, reply="0", told=29.9, did=False)
    story.op("c1@3", "acquire", "fail", 1, 28, 31)
    story.section("c2@1", 10, 60, asked=8).section("c1@1", 30, 50, asked=28)
    assert "c1@1's ZADD with 1 at +29.5 ms" in story.told("overlap").sentence


@pytest.mark.parametrize(("field", "cause"), [("pid", "overwritten"), ("other", "unknown")])
def test_a_field_that_the_second_client_sets_anew_was_the_first_ones(field: str, cause: str) -> None:
    """Which values the fields of a hash have is not on record but for the requests."""
    story = Story(nodes=1).watched("n1")
    for client, at, name in (("c1", 9, "pid"), ("c2", 29, field)):
        story.request(client, "n1", f"HSET k1 {name} of-{client} lock 1", at, at + 0.5, reply="1", told=at + 0.8)
        story.seen("n1", "set" if at == 9 else "prolonged", at + 0.6, "lock, pid", since=at - 0.1, is_hash=True)
    story.section("c1", 10, 60, asked=8).section("c2", 30, 50, asked=28).seen("n1", "blind", 900)
    assert story.told("overlap").cause == cause


def test_of_a_lock_that_promises_no_time_the_nodes_tell_too() -> None:
    story = Story(clients=3, nodes=1).watched("n1").op("c3", "release", "ok", 1, 15, 17)
    for client, at in (("c1", 9), ("c2", 29)):
        story.op(client, "acquire", "ok", 1, at - 1, at + 1).op(client, "release", "ok", 1, 60, 61)
        story.request(client, "n1", f"SET k1 {client}-1 NX", at, at + 0.5)
        story.seen("n1", "set", at + 0.6, f"{client}-1", since=at - 0.1)
        if client == "c1":
            story.request("c3", "n1", "DEL k1", 16, 16.5, reply="1").seen("n1", "deleted", 16.6, since=15.9)
    told = story.told("overlap")
    assert told.cause == "deleted"
    assert "in its release it sent DEL to n1 at +15.9 ms" in told.sentence

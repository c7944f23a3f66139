"""What is told of two clients that a node let in, when no key on record was granted to both."""

from __future__ import annotations

from tests.explain.stories import Story


def counted(*, told: float = 9.8) -> Story:
    """Two clients ask one node for a place in a sorted set, and are answered alike."""
    story = Story(clients=3).watched()
    for client, at in (("c1", 9), ("c2", 29)):
        more = {"told": told if client == "c1" else at + 0.8}
        story.request(client, "n1", f"ZADD places 1 {client}", at, at + 0.5, reply="1", **more)
        story.seen("n1", "changed", at + 1, since=at - 1, key="places")
    return story.section("c1", 10, 60, asked=8).section("c2", 30, 50, asked=28)


def test_the_answers_to_both_are_told() -> None:
    assert counted().told("overlap").sentence == (
        "n1 let both in: it answered c1's ZADD with 1 at +9.5 ms, and c2's ZADD with 1 at +29.5 ms."
    )


def test_what_another_client_did_to_the_key_meanwhile_is_told() -> None:
    story = counted().op("c3", "release", "ok", 1, 15, 17)
    story.request("c3", "n1", "DEL places", 16, 16.5, reply="1").seen("n1", "deleted", 17, since=15, key="places")
    story.key_events.sort(key=lambda event: event.at_ns)
    assert story.told("overlap").sentence.endswith(
        "Then c3 deleted places: in its release it sent DEL to n1 at +15.9 ms; the node answered 1."
    )


def test_an_answer_that_came_when_the_client_had_entered_is_not_told() -> None:
    assert "known only in part" in counted(told=11).told("overlap").sentence

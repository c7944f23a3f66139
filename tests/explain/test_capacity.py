"""How more clients than permits came to be inside, word for word."""

from __future__ import annotations

from harness.checkers.explained import spans_of, tell
from harness.checkers.judge import judge
from harness.explain.cases import case_of
from harness.explain.evidence import gather
from harness.explain.explanation import Explanation
from harness.explain.kinds import Told
from harness.report.explanations import lines, title
from tests.explain.stories import Story

THREE_FOR_TWO = "c3 entered at +30.0 ms, while c1 and c2 were inside: 3 clients for 2 permits. "


def story(**config: object) -> Story:
    return Story(**{"workload": "semaphore", "permits": 2, "clients": 4, **config})


def test_two_clients_in_the_same_slot_are_explained_like_an_overlap() -> None:
    told = (
        story()
        .let_in("c1", 10, 50, "OK OK nil", name="k1#1")
        .let_in("c2", 11, 50, "OK OK OK", name="k1#2")
        .killed("n2", 12, 20)
        .let_in("c3", 30, 60, "nil OK OK", name="k1#1")
        .saw(29.5, "set", "n2 n3", "c3", key="k1#1")
        .told("over-capacity")
    )
    assert told.sentence == (
        f"{THREE_FOR_TWO}c1 and c3 had the same slot (k1#1). n2 had granted the lock to c1, was killed 2.0 ms later, "
        "came back 7.0 ms later without the key (with persistence none, a restarted node has forgotten its locks), and "
        "granted it to c3 while that lease was still valid. So c1 had 2 of 3 nodes, and c3 had 2 of 3 nodes."
    )
    assert [(side.client, side.key) for side in told.pair] == [("c1", "k1#1"), ("c3", "k1#1")]
    assert len(told.parts) == 3


def test_the_witness_adds_what_happened_to_a_slot() -> None:
    """n2's key of c1 expired too early; only the witness saw it."""
    told = (
        story()
        .watched()
        .let_in("c1", 10, 50, "OK OK nil", name="k1#1")
        .let_in("c2", 11, 50, "OK OK OK", name="k1#2")
        .saw(10, "set", "n1 n2", "c1", key="k1#1")
        .saw(20, "expired", "n2", "c1", key="k1#1")
        .let_in("c3", 30, 60, "nil OK OK", name="k1#1")
        .saw(29.5, "set", "n2 n3", "c3", key="k1#1")
        .told("over-capacity")
    )
    assert "c1's key on n2 had expired by +21.0 ms, before the TTL of 100 ms had passed" in told.sentence


def by_majority(third: str) -> Story:
    three = story(nodes=5).let_in("c1", 10, 50, "OK OK OK silent silent").let_in("c2", 11, 50, "OK silent silent OK OK")
    return three.let_in("c3", 30, 60, third)


def test_a_majority_of_counting_nodes_is_not_enough() -> None:
    assert by_majority("nil OK OK OK nil").told("over-capacity").sentence == (
        f"{THREE_FOR_TWO}All of them were within their leases: c1 was let in by n1, n2 and n3; c2 was let in by n1, n4 "
        "and n5; c3 was let in by n2, n3 and n4. No node let in more than 2: a majority of 3 nodes is not enough if "
        "every node counts to 2; 4 would be."
    )


def test_a_node_that_let_in_too_many_is_named() -> None:
    told = by_majority("OK OK OK OK nil").told("over-capacity").sentence
    assert told.endswith("c3 was let in by n1, n2, n3 and n4. n1 let in 3 of them, more than there are permits.")


def test_clients_in_different_slots_are_let_in_by_the_nodes_that_granted_these() -> None:
    three = story().let_in("c1", 10, 50, "OK OK nil", name="k1#1").let_in("c2", 11, 50, "OK OK OK", name="k1#2")
    told = three.asked("c3", "acquire", 27, "nil nil OK", name="k1#1").let_in("c3", 30, 60, "OK OK OK", name="k1#3")
    assert "c1 was let in by n1 and n2; c2 was let in by n1, n2 and n3; c3 was let in by n1, n2 and n3." in (
        told.told("over-capacity").sentence
    )


def test_too_few_nodes_are_only_told() -> None:
    told = by_majority("nil nil nil nil OK").told("over-capacity").sentence
    assert told.endswith("c3 was let in by n5. No node let in more than 2 of them.")
    told = by_majority("nil nil nil nil nil").told("over-capacity").sentence
    assert "c3 was let in by no node." in told


def test_a_lock_that_shows_nothing_is_not_guessed_at() -> None:
    three = story().section("c1", 10, 50).section("c2", 11, 50).section("c3", 30, 60)
    assert three.told("over-capacity").sentence == (
        f"{THREE_FOR_TWO}All of them acquired the lock. The record does not show which nodes granted it, so this "
        "cannot be explained further."
    )


def test_with_one_permit_it_is_explained_like_an_overlap() -> None:
    two = story(permits=1).let_in("c1", 10, 50, "OK OK nil").let_in("c2", 30, 60, "nil nil OK")
    assert two.told("over-capacity").sentence == (
        "c2 entered at +30.0 ms, while c1 was inside: 2 clients for 1 permit. c2 acquired the lock although only n3 "
        "had granted it: fewer than the majority of 2 of 3 nodes, and no node granted it to both."
    )


def test_a_client_that_outlived_its_lease() -> None:
    three = story().section("c1", 10, 150, deadline=110).section("c2", 100, 150, asked=99).section("c3", 120, 130)
    assert three.told("over-capacity").sentence == (
        "c3 entered at +120.0 ms, while c1 and c2 were inside: 3 clients for 2 permits. c1 stayed inside for 140 ms "
        "without a recorded pause; its lease of 100 ms had expired 10 ms before c3 entered. The client outlived its "
        "lease; the lock did nothing wrong."
    )


def test_a_client_that_entered_too_late() -> None:
    three = story().section("c1", 10, 50).section("c2", 11, 50).section("c3", 30, 60, deadline=25, asked=20)
    assert "c3 learned of its lease 10 ms after it had asked for it" in three.told("over-capacity").sentence


def test_a_client_that_may_have_outlived_its_lease() -> None:
    three = story().section("c1", 10, 90, deadline=(25, 40)).section("c2", 11, 50).section("c3", 30, 60)
    told = three.told("over-capacity").sentence
    assert told.startswith(f"{THREE_FOR_TWO}c1's lease of 30 ms expired between +25.0 ms and +40.0 ms")
    assert told.endswith("The record allows both readings.")


def test_the_page_shows_all_sections_and_the_nodes_of_the_two_that_matter() -> None:
    three = story().let_in("c1", 10, 50, "OK OK nil", name="k1#1").let_in("c2", 11, 55, "OK OK OK", name="k1#2")
    three.killed("n2", 12, 20).let_in("c3", 30, 60, "nil OK OK", name="k1#1")
    run = three.recorded()
    (finding,) = (found for found in judge(run).findings if found.kind == "over-capacity")
    case = case_of(run, finding, finding.examples[0])
    told: Told = tell(run, gather(run, spans_of(run, [case])), case)
    explanation = Explanation(case, told.sentence, "", case.sides, told.parts, told.pair, (), others=2)
    assert title(run, explanation) == "c1, c2 and c3 were inside k1 at the same time for 20 ms, from +30.0 ms"
    text = lines(run, explanation)
    assert sum(line.startswith(("c1, section", "c2, section", "c3, section")) for line in text) == 3
    (head,) = (line for line in text if line.startswith("node"))
    assert head.split() == ["node", "to", "c1", "in", "between", "(ms)", "to", "c3"]
    assert text[-1] == "and 2 more active faults, which hit none of them"

"""What each node replied to the client that entered, from the requests on record."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import spans_of, tell
from harness.explain.evidence import Evidence, gather
from harness.explain.examples import case_of
from harness.explain.explanation import Explanation
from harness.explain.node_replies import NodeReply, replies
from harness.history.recorded import Recorded
from harness.report.explanations import node_rows
from tests.explain.stories import Story
from tests.golden import Golden

NX = "SET k1 v NX PX 100"


def two(**config: Any) -> Story:
    """c1 has n2 and n3; what it asked n1 is added by each test. c2 has them, too, when n2 and n3 have lost them."""
    story = Story(**config).asked("c1", "acquire", 9, "- OK OK").killed("n2 n3", 15, 20)
    return story.section("c1", 10, 50, asked=5, deadline=105)


def of_c1(story: Story) -> tuple[Recorded, Evidence, dict[str, NodeReply], str]:
    """And what the table says of n1."""
    story.let_in("c2", 30, 60, "nil OK OK")
    run, verdict = story.judged()
    finding = next(found for found in verdict.findings if found.kind == "overlap")
    case = case_of(run, finding, finding.examples[0])
    evidence = gather(run, spans_of(run, [case]))
    told = tell(run, evidence, case)
    shown = Explanation(case, told.sentence, sides=case.sides, parts=told.parts, pair=case.sides)
    return run, evidence, replies(run, evidence, case.sides[0]), node_rows(run, shown)[1][1]


@pytest.mark.parametrize(
    ("times", "reply", "word", "cell"),
    [
        ((8, 8.1, 8.2, 8.3), '"OK"', "yes", "yes +8.2"),
        ((8, 8.1, 8.2, None), '"OK"', "silent", "yes +8.2, reply lost"),
        ((8, 8.1, 8.2, 12), '"OK"', "silent", "yes +8.2, reply late"),
        ((8, 8.1, 8.2, 8.3), "null", "no", "no (nil) +8.2"),
        ((8, 8.1, 8.2, 8.3), '{"error":"OOM no memory"}', "no", "no (OOM) +8.2"),
        ((8, None, None, None), None, "silent", "request lost"),
        ((8, 8.1, None, None), None, "silent", "no reply"),
        ((8, 8.1, 8.2, None), "null", "silent", "reply lost"),
        ((8, 8.1, 8.2, 12), "null", "silent", "reply late"),
        (None, None, "not asked", "not asked"),
        ((4, 4.1, 4.2, 4.3), "null", "not asked", "not asked"),
    ],
    ids=lambda value: str(value),
)
def test_what_became_of_a_request_and_its_reply(times: Any, reply: str | None, word: str, cell: str) -> None:
    story = two()
    if times is not None:
        sent, arrived, answered, told = times
        story.request("c1", "n1", NX, arrived, answered, sent=sent, told=told, reply=reply)
    _, _, said, shown = of_c1(story)
    assert (said["n1"].word, shown) == (word, cell)


def test_a_missing_reply_names_the_fault_that_was_in_the_way() -> None:
    story = two().fault("p", 1, 70, cut_links=(("c1", "n1"),)).request("c1", "n1", NX, None, sent=8)
    assert of_c1(story)[3] == "request lost (partition)"


def test_a_reply_that_proves_nothing_is_shown_as_it_is() -> None:
    _, _, said, shown = of_c1(two().request("c1", "n1", "EVAL unknown 1 k1 v", 8.1, 8.2, reply="7"))
    assert (said["n1"].word, said["n1"].is_known, shown) == ("answered", False, "answered (7) +8.2")


def test_of_several_attempts_in_one_call_the_last_one_counts() -> None:
    """n1 granted the first one, which was undone; the second one came too late for it."""
    story = two().request("c1", "n1", NX, 6, 6.1, reply='"OK"').request("c1", "n1", "DEL k1", 7, 7.1, reply="1")
    assert of_c1(story.request("c1", "n1", NX, 8.1, 8.2, reply="null"))[3] == "no (nil) +8.2"


def test_a_retry_that_finds_the_clients_own_key_takes_nothing_back() -> None:
    story = two().request("c1", "n1", NX, 6, 6.1, told=None).request("c1", "n1", NX, 8.1, 8.2, reply="null")
    assert of_c1(story)[3] == "yes +6.1, reply lost"


def test_of_a_node_whose_requests_are_not_all_on_record_nothing_is_said_to_be_missing() -> None:
    story = two()
    story.not_recorded = {"n1"}
    _, _, said, shown = of_c1(story)
    assert (said["n1"].word, shown) == (None, "not recorded")


def test_what_belongs_to_no_task_for_certain_is_no_tasks() -> None:
    """Both tasks of c1 acquire the same key at the same time."""
    story = Story(tasks=2).asked("c1", "acquire", 9, "OK OK OK")
    story.section("c1@1", 10, 50, asked=5, deadline=105).op("c1@2", "acquire", "fail", 1, 5, 12)
    story.section("c2@1", 30, 60, asked=29)
    run, verdict = story.judged()
    finding = next(found for found in verdict.findings if found.kind == "overlap")
    case = case_of(run, finding, finding.examples[0])
    said = replies(run, gather(run, spans_of(run, [case])), case.sides[0])
    assert {one.word for one in said.values()} == {None}


@pytest.mark.parametrize("name", ["k1", "lock:k1", "{k1}"])
def test_unwatched_nodes_and_a_key_with_another_name_on_them(name: str, golden: Golden) -> None:
    story = Story().let_in("c1", 10, 50, "OK OK nil", name=name).asked("c3", "free", 17, "1 1 1", name=name)
    told = story.let_in("c2", 30, 60, "nil OK OK", name=name).told("overlap")
    golden(told.sentence)


def test_what_belongs_to_a_transaction_is_not_done_when_it_is_queued() -> None:
    story = two().request("c1", "n1", NX, 8.1, 8.2, reply='"QUEUED"', transaction=1)
    assert of_c1(story)[2]["n1"].word == "answered"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("nil ERR OK", "granted on errors"),
        ("ERR ERR nil", "granted on errors"),
        ("ERR nil nil", "granted when refused"),
        ("OK nil nil", "too few nodes"),
    ],
)
def test_errors_and_refusals_that_make_a_majority_are_told(said: str, cause: str, golden: Golden) -> None:
    story = Story().watched().let_in("c1", 10, 50, "OK OK OK").saw(10, "set", "n1 n2 n3", "c1")
    told = story.let_in("c2", 30, 60, said).told("overlap")
    assert told.cause == cause
    if cause != "too few nodes":
        golden(told.sentence)


@pytest.mark.parametrize(("said", "cause"), [("1", "too few nodes"), ("2", "granted when refused")])
def test_an_answer_that_grants_get_too_is_no_refusal(said: str, cause: str, golden: Golden) -> None:
    """The script of c2 set nothing, for c1's key was there."""
    story = Story().watched().section("c1", 10, 50, asked=8, deadline=105).section("c2", 30, 60, asked=28, deadline=125)
    for node in ("n1", "n2", "n3"):
        story.request("c1", node, "EVAL take 1 k1 c1-1", 9, 9.5, reply="1")
        story.seen(node, "set", 9.3, "c1-1", since=9, ttl=100)
        story.request("c2", node, "EVAL take 1 k1 c2-1", 29, 29.5, reply=said, did=False).seen(node, "blind", 90)
    told = story.sets("c1", "c1-1").told("overlap")
    assert told.cause == cause
    golden(told.sentence)

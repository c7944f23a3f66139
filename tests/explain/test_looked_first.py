"""How a second client was let in, if what it sent did not keep the lock to one: told of two clients that overlapped."""

from __future__ import annotations

from typing import Any

import pytest

from harness.explain.kinds import Told
from tests.explain.stories import Story
from tests.golden import Golden


def tasks(*, over: float = 29, by: str = "c1", key: str = "k1", first: str = "c1") -> Told:
    """Two tasks of c1 ask at once, so which of them sent a request is not known. At 9 their process sets the key, and
    `over` it another value."""
    story = Story(nodes=1, clients=2, tasks=2).watched("n1")
    story.section("c1@1", 40, 70, asked=8).section("c1@2", 42, 60, asked=8)
    sent = ((9, first, "SET k1 first", "set", "first"), (over, by, f"SET {key} second", "set", "second"))
    for at, client, words, event, value in sent:
        story.request(client, "n1", words, at, at + 0.5, told=at + 0.8, did=False)
        story.seen("n1", event, at + 0.4, value, since=at, key=words.split()[1], ttl=400)
        story.by(story.key_events[-1], len(story.requests) - 1)
    return story.told("overlap")


def test_a_process_set_its_own_key_over_that_of_another_of_its_tasks(golden: Golden) -> None:
    told = tasks()
    assert told.cause == "overwritten"
    golden(told.sentence)


@pytest.mark.parametrize(
    "how",
    [{"over": 44}, {"by": "c2"}, {"key": "k2"}, {"first": "c2"}],
    ids=["later", "another client", "another key", "over another client's"],
)
def test_what_came_later_or_is_anothers_let_no_task_in(how: dict[str, Any]) -> None:
    assert tasks(**how).cause != "overwritten"


def two(*, asked: str, reply: str = "0", words: str = "SET k1 second") -> Told:
    """c2 asks whether the key is there; c1 sets it; then c2 does."""
    story = Story(nodes=1, clients=2).watched("n1").section("c1", 12, 70, asked=8).section("c2", 14, 60, asked=7)
    story.request("c2", "n1", asked, 8.5, 9, told=9.2, reply=reply, did=False)
    for at, client, said in ((10, "c1", "SET k1 first"), (11, "c2", words)):
        story.request(client, "n1", said, at, at + 0.5, told=at + 0.8, did=False)
        story.seen("n1", "set", at + 0.4, said.split()[2], since=at, ttl=400)
        story.by(story.key_events[-1], len(story.requests) - 1)
    return story.told("overlap")


def test_a_client_looked_and_set_the_key_when_another_one_had_it(golden: Golden) -> None:
    told = two(asked="EXISTS k1")
    assert told.cause == "looked first"
    golden(told.sentence)


@pytest.mark.parametrize(
    "how",
    [{"asked": "EXISTS k2"}, {"asked": "EXISTS k1", "reply": "1"}, {"asked": "EXISTS k1", "words": "SET k1 second NX"}],
    ids=["another key", "it was there", "only if it is free"],
)
def test_it_did_not_look_first(how: dict[str, Any]) -> None:
    assert two(**how).cause == "overwritten"


@pytest.mark.parametrize(
    ("looks_at", "words", "cause"),
    [
        (8.5, "SET k1 second", "looked first"),
        (10.6, "SET k1 second", "overwritten"),
        (8.5, "SET k1 x NX", "overwritten"),
    ],
    ids=["before", "when it was there", "only if it is free"],
)
def test_a_third_client_looked_before_it_set_the_key_over_that_of_the_first(
    looks_at: float, words: str, cause: str, golden: Golden
) -> None:
    """c2 enters after c3, which had set the key over c1's, in an acquire that is refused."""
    story = Story(nodes=1, clients=3).watched("n1").section("c1", 12, 70, asked=8).section("c2", 24, 60, asked=20)
    story.op("c3", "acquire", "fail", 1, 7, 19)
    story.request("c3", "n1", "GET k1", looks_at, looks_at + 0.2, reply="null", did=False)
    sent = ((10, "c1", "SET k1 first"), (11, "c3", words), (21, "c2", "SET k1 third NX"))
    for at, client, said in sent:
        if at == 21:
            story.request("c3", "n1", "DEL k1", 18, 18.2, reply="1").seen("n1", "deleted", 18.1, since=18)
        story.request(client, "n1", said, at, at + 0.5, told=at + 0.8, did=False)
        story.seen("n1", "set", at + 0.4, said.split()[2], since=at, ttl=400)
        story.by(story.key_events[-1], len(story.requests) - 1)
    told = story.told("overlap")
    assert told.cause == cause
    if cause == "looked first":
        golden(told.sentence)


@pytest.mark.parametrize(("looks", "cause"), [("c2@1", "looked first"), ("c2@2", "overwritten")])
def test_what_another_task_of_its_process_saw_is_no_look_of_the_client(looks: str, cause: str) -> None:
    story = Story(nodes=1, clients=2, tasks=2).watched("n1").section("c1@1", 12, 70, asked=8)
    story.section("c2@1", 14, 60, asked=7).op("c2@2", "acquire", "fail", 1, 8, 20)
    story.request(looks, "n1", "EXISTS k1", 8.5, 9, told=9.2, reply="0", did=False)
    for at, task, said in ((10, "c1@1", "SET k1 first"), (11, "c2@1", "SET k1 second")):
        story.request(task, "n1", said, at, at + 0.5, told=at + 0.8, did=False)
        story.seen("n1", "set", at + 0.4, said.split()[2], since=at, ttl=400)
        story.by(story.key_events[-1], len(story.requests) - 1)
    assert story.told("overlap").cause == cause


def watched(*, ends: str = "EXEC", on: int = 7, watches: str = "k1") -> Told:
    """c2@1 watches the key and finds it free; then c1 sets it. Before c2@1's transaction does, too, another task of c2
    ends something on a connection."""
    story = Story(nodes=1, clients=2, tasks=2).watched("n1").section("c1@1", 12, 70, asked=8)
    story.section("c2@1", 14, 60, asked=7).op("c2@2", "acquire", "fail", 1, 7, 20)
    for at, task, words, link in (
        (8, "c2@1", f"WATCH {watches}", 7),
        (8.4, "c2@1", "GET k1", 7),
        (9, "c2@2", ends, on),
    ):
        reply = "null" if words.startswith("GET") else '"OK"'
        story.request(task, "n1", words, at, at + 0.2, told=at + 0.3, reply=reply, did=False, connection=link)
    for at, task, words, block in ((10, "c1@1", "SET k1 first", None), (11, "c2@1", "SET k1 second", 2)):
        story.request(
            task, "n1", words, at, at + 0.5, told=at + 0.8, did=False, connection=7 if block else 8, transaction=block
        )
        story.seen("n1", "set", at + 0.4, words.split()[2], since=at, ttl=400)
        story.by(story.key_events[-1], len(story.requests) - 1)
    return story.told("overlap")


def test_another_task_ended_the_watch_of_a_transaction(golden: Golden) -> None:
    told = watched()
    assert told.cause == "watch ended"
    golden(told.sentence)


@pytest.mark.parametrize(
    "how",
    [{"ends": "PING"}, {"on": 9}, {"watches": "k2"}],
    ids=["another request", "another connection", "another key"],
)
def test_no_other_task_ended_the_watch(how: dict[str, Any]) -> None:
    assert watched(**how).cause == "looked first"


def reads(*, reply: str = '"first"', own: str | None = None, last: str = "PTTL k1") -> Told:
    """c1@1 sets the key and enters; then c1@2 reads it, and enters too."""
    story = Story(nodes=1, clients=2, tasks=2).watched("n1")
    story.section("c1@1", 12, 70, asked=8).section("c1@2", 24, 60, asked=20)
    sets = ((9, "c1@1", "SET k1 first"), *([(21, "c1@2", f"SET k1 {own}")] if own else []))
    for at, task, words in sets:
        story.request(task, "n1", words, at, at + 0.5, told=at + 0.8, did=False)
        story.seen("n1", "set", at + 0.4, words.split()[2], since=at, ttl=400)
        story.by(story.key_events[-1], len(story.requests) - 1)
    story.request("c1@2", "n1", "SET k1 second NX", 22, 22.2, told=22.3, reply="null", did=False)
    story.request("c1@2", "n1", "GET k1", 23, 23.2, told=23.3, reply=reply, did=False)
    story.request("c1@2", "n1", last, 23.5, 23.6, told=23.7, reply="90", did=False)
    return story.told("overlap")


def test_a_task_took_the_key_of_another_one_for_its_own(golden: Golden) -> None:
    told = reads()
    assert told.cause == "read as own"
    golden(told.sentence)


@pytest.mark.parametrize(
    "how",
    [{"reply": '"second"'}, {"own": "other"}, {"last": "EVAL grant 1 k1"}],
    ids=["another value", "it set the key", "another request let it in"],
)
def test_it_did_not_take_it_for_its_own(how: dict[str, Any]) -> None:
    assert reads(**how).cause != "read as own"


def keeps(*, reply: str = '"mine"', by: str = "c1", anew: bool = False, f: str = "overlap") -> Told:
    """c1 sets the key and leaves; its release deletes nothing. It reads the key in its next call, and is let in. The
    key expires at 110, and c2 enters."""
    story = Story(nodes=1, clients=2).watched("n1").section("c1", 12, 20, asked=8)
    story.section("c1", 84, 170, number=2, asked=80).section("c2", 122, 180, asked=118)
    for at, client, words in ((10, by, "SET k1 mine"), (120, "c2", "SET k1 its")):
        story.request(client, "n1", words, at, at + 0.5, told=at + 0.8, did=False)
        story.seen("n1", "set", at + 0.4, words.split()[2], since=at, ttl=100, read=at + 0.6)
        story.by(story.key_events[-1], len(story.requests) - 1)
        if at == 10:
            story.request("c1", "n1", "SET k1 mine NX PX 100", 81, 81.2, told=81.3, reply="null", did=False)
            story.request("c1", "n1", "GET k1", 82, 82.2, told=82.3, reply=reply, did=False)
            if anew:
                story.request("c1", "n1", "SET k1 mine", 83, 83.2, told=83.3, did=False)
                story.seen("n1", "overwritten", 83.1, "mine", since=83, ttl=27, read=83.2)
                story.by(story.key_events[-1], len(story.requests) - 1)
            story.seen("n1", "expired", 110.4, since=110)
    return story.seen("n1", "blind", 700).told(f)


@pytest.mark.parametrize("f", ["overlap", "lease-without-majority", "lease-outlasts-keys"])
def test_a_client_was_let_in_on_the_key_of_its_earlier_call(f: str, golden: Golden) -> None:
    told = keeps(f=f)
    assert told.cause == "own old key"
    golden(told.sentence)


@pytest.mark.parametrize(
    "how", [{"reply": '"other"'}, {"by": "c2"}, {"anew": True}], ids=["another value", "another client", "set anew"]
)
def test_it_was_not_let_in_on_its_own_old_key(how: dict[str, Any]) -> None:
    assert keeps(**how).cause != "own old key"


def unasked(*, task: str | None = None, at: float = 22) -> Told:
    """c1@1 sets the key and enters; then c1@2 enters too. Meanwhile a request is sent for a task, or it is not known
    for which."""
    story = Story(nodes=1, clients=2, tasks=2).watched("n1")
    story.section("c1@1", 12, 70, asked=8).section("c1@2", 24, 60, asked=20)
    story.request("c1@1", "n1", "SET k1 first", 9, 9.5, told=9.8, did=False)
    story.seen("n1", "set", 9.4, "first", since=9, ttl=400).by(story.key_events[-1], 0)
    story.request(task or "c1", "n1", "PTTL k1", at, at + 0.2, told=at + 0.3, reply="90", did=False)
    return story.told("overlap")


@pytest.mark.parametrize("how", [{"task": "c1@1"}, {"at": 19.9}], ids=["for the other task", "before the call"])
def test_a_task_was_granted_the_lock_without_a_request(how: dict[str, Any], golden: Golden) -> None:
    told = unasked(**how)
    assert told.cause == "granted unasked"
    golden(told.sentence)


@pytest.mark.parametrize("task", ["c1@2", None])
def test_a_request_may_have_been_the_tasks(task: str | None) -> None:
    assert unasked(task=task).cause != "granted unasked"

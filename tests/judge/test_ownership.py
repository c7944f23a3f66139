"""Requests that change keys of other clients, told by the ledger: literal records of the witness and of the links."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import explain
from harness.checkers.judge import judge
from harness.checkers.ownership import Figures, check
from harness.verdict import Answer, Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms


def inside(until: float | None = 900, *, outcome: str = "ok", ttl: int | None = 400, **config: Any) -> History:
    """c2 sets its key on n1 within its acquire, and is inside from 500 on. c1 has a section before."""
    history = History(ttl_ms=400, **config).watch("n1").section("c1", 10, 300)
    if outcome == "ok":
        history.section("c2", 500, until, asked=480)
    else:
        history.op("c2", "acquire", outcome, 1, 480, 500)
    history.request("c2", "n1", "SET k1 b NX PX 400", 490, 491)
    return history.seen("n1", "set", 492, "b", since=485, ttl=ttl)


def deletes(history: History, at: float = 600, words: str = "DEL k1", **more: Any) -> History:
    history.request("c1", "n1", words, at, at + 1, **{"reply": "1"} | more)
    return history.seen("n1", "deleted", at + 2, since=at - 1)


def prolongs(history: History, at: float = 600, **more: Any) -> History:
    history.request("c1", "n1", "PEXPIRE k1 400", at, at + 1, **{"reply": "1"} | more)
    return history.seen("n1", "prolonged", at + 2, "b", since=at - 1, ttl=400)


def overwrites(history: History, at: float = 600, words: str = "SET k1 a PX 400", **more: Any) -> History:
    history.request("c1", "n1", words, at, at + 1, **more)
    return history.seen("n1", "set", at + 2, "a", since=at - 1, ttl=400)


def during(f: str, history: History, outcome: str = "ok", at: float = 595, number: int = 2) -> History:
    return history.op("c1", f, outcome, number, at, at + 20)


def extending(history: History, at: float = 595) -> History:
    return during("extend", history, at=at, number=1)


def found(history: History) -> tuple[int, int, int]:
    figures = check(history.recorded()).figures
    assert isinstance(figures, Figures)
    return figures.overwritten, figures.prolonged, figures.deleted


def breaks(history: History) -> list[str | None]:
    return [finding.breaks for finding in check(history.recorded()).findings]


def test_without_a_record_of_the_links_nothing_is_told() -> None:
    history = inside()
    history.wire = False
    assert check(history.recorded()) == Answer()
    assert check(History().section("c1", 10, 50).request("c1", "n1", "PING", 1, 2).recorded()) == Answer()


def test_a_key_that_another_client_deletes_breaks_the_lease(golden: Golden) -> None:
    answer = check(deletes(during("release", inside())).recorded())
    assert answer.figures == Figures(0, 0, 1, 0)
    golden(next(answer.figures.rows()).text)
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "changed-another-clients-key",
        "lock",
        "lease",
        1,
    )
    golden(finding.text)
    assert finding.examples == (
        {
            "how": "deleted",
            "node": "n1",
            "key": "k1",
            "by": "c1",
            "of": "c2",
            "at_ms": 602,
            "command": "DEL",
            "call": "release",
        },
    )


def test_what_requests_did_most_comes_first_among_the_examples(golden: Golden) -> None:
    history = inside()
    for node in ("n2", "n3"):
        history.request("c2", node, "SET k1 b NX PX 400", 490, 491).seen(node, "set", 492, "b", since=485, ttl=400)
    prolongs(extending(history))
    for node in ("n2", "n3"):
        history.request("c1", node, "DEL k1", 603, 604, reply="1").seen(node, "deleted", 605, since=602)
    (finding,) = check(history.recorded()).findings
    golden(finding.text)
    assert (finding.count, finding.at_ms) == (3, 602)
    assert [example["how"] for example in finding.examples] == ["deleted", "deleted", "prolonged"]


@pytest.mark.parametrize("f", ["acquire", "extend", "release"])
def test_no_call_may_delete_it(f: str) -> None:
    assert found(deletes(during(f, inside(), outcome="fail"))) == (0, 0, 1)


def test_nor_may_what_is_sent_when_the_call_has_ended(golden: Golden) -> None:
    """c1's section ended at 301; its lock goes on in the background."""
    answer = check(deletes(inside()).recorded())
    assert answer.figures == Figures(0, 0, 1, 1)
    golden(next(answer.figures.rows()).text)
    assert answer.findings[0].examples[0]["is_late"]


def test_nor_may_what_arrives_when_the_call_has_ended() -> None:
    assert check(deletes(during("release", inside(), at=570), sent=580).recorded()).figures == Figures(0, 0, 1, 1)


def test_a_request_that_did_nothing_deleted_nothing() -> None:
    history = during("release", inside()).request("c1", "n1", "DEL k1", 600, 601, reply="0", did=False)
    history.request("c2", "n1", "DEL k1", 600, 601, reply="1").seen("n1", "deleted", 602, since=599)
    answer = check(history.recorded())
    assert answer == Answer(Figures(0, 0, 0))
    assert list(answer.figures.rows()) == []


def test_a_client_may_delete_its_own_key() -> None:
    history = inside().request("c2", "n1", "DEL k1", 600, 601, reply="1").seen("n1", "deleted", 602, since=599)
    assert found(history) == (0, 0, 0)


def test_a_key_that_was_set_when_its_owner_had_left_belongs_to_nobody() -> None:
    assert found(deletes(during("release", inside(until=598)))) == (0, 0, 0)


def test_the_key_of_an_attempt_may_be_deleted() -> None:
    """No section needs it. (Whether a lock may do so is another question.)"""
    assert found(deletes(during("release", inside(outcome="fail")))) == (0, 0, 0)


@pytest.mark.parametrize(("nodes", "at", "number"), [(3, 880, 1), (3, 900, 0), (1, 900, 1)])
def test_a_node_that_missed_the_extension_lets_another_client_in_when_its_value_is_over(
    nodes: int, at: float, number: int
) -> None:
    """The value was sent at 490, for 400 ms; the lease was extended until 980."""
    extended = inside(until=950, ttl=None, nodes=nodes).op("c2", "extend", "ok", 1, 580, 585, validity_ms=400)
    assert found(overwrites(during("acquire", extended, at=at - 5), at)) == (number, 0, 0)


def test_a_lock_without_times_to_live_takes_over_what_is_over() -> None:
    taken = inside(ttl=None)
    assert found(deletes(during("acquire", taken, at=695), 700)) == (0, 0, 0), "c2's lease ended at 600"
    assert found(deletes(during("acquire", inside(ttl=None), at=545), 550)) == (0, 0, 1)


@pytest.mark.parametrize(("outcome", "number"), [("ok", 1), ("info", 0)])
def test_an_extension_that_was_granted_late_keeps_the_key_that_it_found(outcome: str, number: int) -> None:
    """c2's lease ended at 600; nothing had taken the key when it was extended."""
    history = inside(ttl=None, nodes=1).op("c2", "extend", outcome, 1, 645, 655)
    history.request("c2", "n1", "EVAL extend 1 k1 b2", 650, 651).seen("n1", "set", 651, "b2", since=650)
    history.by(history.key_events[-1], len(history.requests) - 1)
    assert found(deletes(during("acquire", history, at=695), 700)) == (0, 0, number)


@pytest.mark.parametrize(("f", "broken"), [("extend", "lease"), ("acquire", "liveness"), ("release", "liveness")])
def test_a_key_that_another_client_prolongs(f: str, broken: tuple[str, ...]) -> None:
    history = prolongs(during(f, inside(), number=1 if f == "extend" else 2))
    assert found(history) == (0, 1, 0)
    assert breaks(history) == [broken]


@pytest.mark.parametrize(("outcome", "broken"), [("ok", "lease"), ("fail", "liveness")])
def test_background_work_that_prolongs_it_extends_a_lease_if_one_was_granted(outcome: str, broken: str) -> None:
    """c1 believes that it is inside, and renews."""
    history = prolongs(inside().op("c1", "acquire", outcome, 2, 560, 580))
    assert breaks(history) == [broken]


def test_a_key_that_its_owner_prolongs() -> None:
    history = extending(inside()).request("c2", "n1", "PEXPIRE k1 400", 600, 601, reply="1")
    assert found(history.seen("n1", "prolonged", 602, "b", since=599, ttl=400)) == (0, 0, 0)


def test_an_extension_may_not_prolong_what_an_attempt_has_set() -> None:
    assert found(prolongs(extending(inside(outcome="fail")))) == (0, 1, 0)
    assert found(prolongs(during("acquire", inside(outcome="fail")))) == (0, 0, 0)
    assert found(prolongs(extending(inside(outcome="fail", ttl=None)))) == (0, 0, 0), (
        "it gets its time in a second step"
    )


@pytest.mark.parametrize(
    ("f", "outcome", "words", "number"),
    [
        ("extend", "ok", "EVAL hands_on 1 k1 a", 1),
        ("acquire", "ok", "EVAL hands_on 1 k1 a", 1),
        ("acquire", "fail", "SET k1 a PX 400", 1),
        ("acquire", "fail", "EVAL hands_on 1 k1 a", 0),
        ("release", "ok", "EVAL hands_on 1 k1 a", 0),
    ],
)
def test_a_key_whose_value_another_client_replaces(f: str, outcome: str, words: str, number: int) -> None:
    """A script of a refused attempt may keep the owner and note who waits; one of a release may hand the lock on."""
    reply = "1" if words.startswith("EVAL") else '"OK"'
    assert found(overwrites(during(f, inside(), outcome=outcome), words=words, reply=reply)) == (number, 0, 0)


def test_a_key_that_was_handed_on_belongs_to_the_client_that_got_it() -> None:
    """c1's release sets c2's value: c1 set the key, and c2 may delete it while c1 tries again."""
    history = History(ttl_ms=400).watch("n1").section("c1", 10, 300).op("c1", "acquire", "fail", 2, 400, 900)
    history.request("c1", "n1", "EVAL hands_on 1 k1 b", 300.5, 300.6, reply="1", sent=300.4)
    history.seen("n1", "set", 301, "b", since=299, ttl=400).section("c2", 302, 500, asked=200)
    history.request("c2", "n1", "DEL k1", 500.5, 501, reply="1").seen("n1", "deleted", 502, since=499)
    assert found(history) == (0, 0, 0)


def test_other_keys_of_the_lock_are_not_the_lock() -> None:
    history = (
        History(ttl_ms=400).watch("n1").section("c2", 500, 900, asked=480).op("c1", "acquire", "fail", 1, 590, 620)
    )
    for key, value in (("k1", "b"), ("k1:last", "b")):
        history.request("c2", "n1", f"SET {key} {value} PX 400", 490, 491)
        history.seen("n1", "set", 492, value, since=485, ttl=400, key=key)
    history.request("c1", "n1", "SET k1:last a PX 400", 600, 601).seen("n1", "set", 602, "a", since=599, key="k1:last")
    assert found(history) == (0, 0, 0)


def test_a_lock_may_call_its_key_otherwise() -> None:
    history = History(ttl_ms=400).watch("n1").section("c2", 500, 900, asked=480).op("c1", "release", "ok", 1, 590, 620)
    history.request("c2", "n1", "SET lock:k1 b PX 400", 490, 491)
    history.seen("n1", "set", 492, "b", since=485, ttl=400, key="lock:k1")
    history.request("c1", "n1", "DEL lock:k1", 600, 601, reply="1")
    assert found(history.seen("n1", "deleted", 602, since=599, key="lock:k1")) == (0, 0, 1)


def test_a_hash_that_several_have_a_field_in_belongs_to_all_of_them() -> None:
    history = History(ttl_ms=400).watch("n1").section("c2", 500, 900, asked=480).section("c1", 550, 595, asked=540)
    history.request("c2", "n1", "HSET k1 b 1", 490, 491).seen("n1", "set", 492, "b", since=485, ttl=400, is_hash=True)
    history.request("c1", "n1", "HSET k1 a 1", 545, 546)
    history.seen("n1", "set", 547, "a, b", since=544, ttl=400, is_hash=True)
    assert found(deletes(history)) == (0, 0, 0)


def test_permits_are_told_apart_by_their_values() -> None:
    history = inside(workload="semaphore", permits=2)
    assert found(deletes(during("release", history))) == (0, 0, 1)


def test_which_task_of_a_process_sent_a_request_is_not_known() -> None:
    history = History(ttl_ms=400, tasks=2, clients=1).watch("n1").section("c1@1", 500, 900, asked=480)
    history.request("c1", "n1", "SET k1 b PX 400", 490, 491).seen("n1", "set", 492, "b", since=485, ttl=400)
    history.op("c1@2", "release", "ok", 1, 595, 620)
    history.request("c1", "n1", "DEL k1", 600, 601, reply="1").seen("n1", "deleted", 602, since=599)
    assert found(history) == (0, 0, 0)


TOKEN = "b-0123456789"


def member(
    until: float = 900,
    add: str = "ZADD k1 490.1 {}",
    f: str = "acquire",
    outcome: str = "ok",
    who: str = "c2",
    **config: Any,
) -> History:
    """c2 adds its member to k1 within its acquire, and is inside from 500 on; c1 had made the key."""
    history = History(ttl_ms=400, workload="semaphore", permits=2, **config).watch("n1").section("c1", 10, 300)
    history.request("c1", "n1", add.format("a-0123456789"), 9.2, 9.4).seen("n1", "changed", 9.6, since=9)
    lease = {"validity_ms": 400.0, "deadline_ns": ms(900)}
    history.op(who, f, outcome, 1, 480, 500, **lease).op(who, "release", "ok", 1, until, until + 1)
    return history.request(who, "n1", add.format(TOKEN), 490, 491).seen("n1", "changed", 492, since=489)


def removes(history: History, at: float = 600, words: str = f"ZREM k1 {TOKEN}", client: str = "c1") -> History:
    history.request(client, "n1", words, at, at + 1, reply="1")
    return history.seen("n1", "changed", at + 2, since=at - 1)


def removed(history: History) -> int:
    figures = check(history.recorded()).figures
    assert isinstance(figures, Figures)
    assert (figures.overwritten, figures.prolonged, figures.deleted) == (0, 0, 0)
    return figures.removed


@pytest.mark.parametrize(
    ("add", "remove"),
    [
        ("ZADD k1 490.1 {}", "ZREM k1 {}"),
        ("ZADD k1 NX CH 490.1 {}", "ZREM k1 another {}"),
        ("SADD k1 {}", "SREM k1 {}"),
        ("HSET k1 {} 1", "HDEL k1 {}"),
        ("RPUSH k1 {}", "LREM k1 0 {}"),
    ],
)
def test_a_member_of_a_holder_that_another_client_removes(add: str, remove: str, golden: Golden) -> None:
    answer = check(removes(member(add=add), words=remove.format(TOKEN)).recorded())
    assert answer.figures == Figures(0, 0, 0, 1, 1)
    golden(next(answer.figures.rows()).text)
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks) == ("changed-another-clients-key", "lock", "lease")
    assert {name: finding.examples[0][name] for name in ("how", "by", "of", "node")} == {
        "how": "removed",
        "by": "c1",
        "of": "c2",
        "node": "n1",
    }


def test_a_member_that_its_own_client_removes() -> None:
    assert removed(removes(member(), client="c2")) == 0


@pytest.mark.parametrize(("at", "number"), [(500.9, 0), (501, 1), (897.9, 1), (898, 0)])
def test_a_member_is_its_holders_while_the_lease_lasts(at: float, number: int) -> None:
    """The lease ends at 900. The node did it between one before and two after."""
    assert removed(removes(member(until=950), at)) == number
    assert removed(removes(member(until=600), 597.9)) == 1
    assert removed(removes(member(until=600), 598)) == 0


@pytest.mark.parametrize(("until", "number"), [(700, 0), (720, 1)])
def test_a_member_of_a_nested_acquire_is_its_holders_while_that_lease_lasts(until: float, number: int) -> None:
    """The section's own lease lasts until 900."""
    history = (
        member().request("c2", "n1", "ZADD k1 510.1 b-nested-0123", 510, 511).seen("n1", "changed", 512, since=509)
    )
    history.op("c2", "reenter", "ok", 1, 505, 515, validity_ms=until - 515, deadline_ns=ms(until))
    assert removed(removes(history, at=705, words="ZREM k1 b-nested-0123")) == number


@pytest.mark.parametrize("words", ["ZREM k1 b-0124", "ZREM k1 490.1", "ZREMRANGEBYSCORE k1 0 490.1", "ZPOPMIN k1"])
def test_what_names_no_member_says_nothing(words: str) -> None:
    history = member().request("c2", "n1", "ZADD k1 5 b-0123", 491, 492)
    assert removed(removes(history.seen("n1", "changed", 493, since=490), words=words)) == 0


def test_a_number_is_no_member() -> None:
    history = member().request("c2", "n1", "ZADD k1 -1234567.8 b", 491, 492).seen("n1", "changed", 493, since=490)
    assert removed(removes(history, words="ZREM k1 -1234567.8")) == 0


def test_a_request_that_names_two_members_removes_both() -> None:
    assert removed(removes(member(), words=f"ZREM k1 {TOKEN} a-0123456789")) == 1


@pytest.mark.parametrize("asked", [700, 950])
def test_a_word_of_two_clients_is_neither_ones(asked: float) -> None:
    history = removes(member()).section("c3", asked + 50, asked + 100, asked=asked)
    history.request("c3", "n1", f"ZADD k1 710.1 {TOKEN}", asked + 10, asked + 11)
    assert removed(history.seen("n1", "changed", asked + 12, since=asked + 9)) == 0


@pytest.mark.parametrize(("task", "asked", "number"), [("c2@1", 1_200, 1), ("c2@2", 550, 0), ("c2@2", 910, 1)])
def test_a_word_that_a_client_uses_again_is_its_sections_that_is_under_way(
    task: str, asked: float, number: int
) -> None:
    history = removes(member(who="c2@1", tasks=2), client="c1@1")
    history.section(task, asked + 50, asked + 100, number=2, asked=asked)
    history.request(task, "n1", f"ZADD k1 1 {TOKEN}", asked + 10, asked + 11)
    assert removed(history.seen("n1", "changed", asked + 12, since=asked + 9)) == number


def test_the_member_of_an_attempt_may_be_removed() -> None:
    assert removed(removes(member(outcome="fail"))) == 0
    assert removed(removes(member(f="extend"))) == 0


def test_a_member_of_another_key_is_another() -> None:
    history = member().request("c1", "n1", f"ZREM k2 {TOKEN}", 600, 601, reply="1").op("c1", "acquire", "fail", 9, 1, 2)
    history.op("c1", "acquire", "fail", 10, 3, 4, key="k2")
    assert removed(history.seen("n1", "changed", 602, since=599, key="k2")) == 0


def test_the_last_member_that_is_removed_takes_the_key_with_it() -> None:
    history = removes(member()).seen("n1", "deleted", 602, since=599)
    history.by(history.key_events[-1], len(history.requests) - 1)
    assert removed(history) == 1


def two_readers(until: float = 900, renewed: float | None = 600, **config: Any) -> History:
    """c1 and c2 add their fields to the hash k1, and c2 is inside from 100 on: its lease ends at 500, and it renews the
    hash once. It leaves later than c1, which leaves at 650."""
    history = History(ttl_ms=400, workload="rw-lock", **config).watch("n1")
    history.section("c1", 50, 650, asked=40, deadline=450, shared=True)
    history.section("c2", 100, until, asked=90, deadline=500, shared=True)
    field = "a-0123456789"
    history.request("c1", "n1", f"EVAL lock 1 k1 {field}", 45, 46).seen("n1", "set", 47, field, since=44, ttl=400)
    inside_script(f"HSET k1 {field} 1", history)
    history.request("c2", "n1", f"EVAL lock 1 k1 {TOKEN}", 95, 96).seen("n1", "changed", 97, since=94, ttl=400)
    inside_script(f"HINCRBY k1 {TOKEN} 1", history)
    if renewed is not None:
        renews(history, renewed)
    return history


def inside_script(did: str, history: History) -> History:
    """What the last request did to the key, inside its script."""
    history.called(did).key_events[-1].is_hash = True
    return history


def renews(history: History, at: float, client: str = "c2", word: str = TOKEN, did: str = "PEXPIRE") -> History:
    history.request(client, "n1", f"EVAL renew 1 k1 400 {word}", at, at + 1, reply="1")
    words = {"PEXPIRE": "PEXPIRE k1 400", "HINCRBY": f"HINCRBY k1 {word} 1"}.get(did, f"{did} k1 {word}")
    return inside_script(words, history.seen("n1", "prolonged", at + 2, since=at - 1, ttl=400))


def unlocks(history: History, at: float = 650.5, client: str = "c1", word: str = "a-0123456789") -> History:
    """c1's release takes out its own field, and deletes the hash."""
    history.request(client, "n1", f"EVAL unlock 1 k1 {word}", at, at + 1, reply="1")
    inside_script(f"HDEL k1 {word}", history.seen("n1", "changed", at + 2, since=at - 1, ttl=350))
    history.seen("n1", "deleted", at + 2, since=at - 1)
    history.by(history.key_events[-1], len(history.requests) - 1)
    return inside_script("DEL k1", history)


def deletes_all(history: History, client: str) -> History:
    """The hash, whatever is in it, when c1 has left."""
    return history.request(client, "n1", "DEL k1", 651, 652).seen("n1", "deleted", 653, since=650.5)


def test_a_reader_that_deletes_what_another_one_renews() -> None:
    """c2's lease was told until 500, and the node has counted on until 1,002 for it."""
    answer = check(unlocks(two_readers()).recorded())
    assert answer.figures == Figures(0, 0, 1, 0)
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks) == ("changed-another-clients-key", "lock", "lease")
    assert {name: finding.examples[0][name] for name in ("how", "by", "of", "is_member")} == {
        "how": "deleted",
        "by": "c1",
        "of": "c2",
        "is_member": True,
    }


@pytest.mark.parametrize(
    ("history", "number"),
    [
        (unlocks(two_readers(renewed=None)), 0),
        (unlocks(two_readers(renewed=None), 450), 1),
        (unlocks(two_readers(until=1100), 1000), 0),
        (unlocks(two_readers(until=1100), 999), 1),
        (unlocks(two_readers(until=652)), 0),
        (unlocks(renews(two_readers(renewed=None), 600, client="c1")), 0),
        (unlocks(renews(two_readers(), 610, did="HINCRBY")), 0),
        (unlocks(renews(two_readers(), 610, client="c1", word="a-0123456789", did="HDEL")), 1),
        (unlocks(renews(two_readers(), 610, client="c1", did="HDEL")), 0),
        (unlocks(renews(two_readers(), 610, client="c1", word="c-0123456789", did="HDEL")), 1),
        (unlocks(renews(renews(two_readers(), 610, did="HINCRBY"), 620)), 0),
        (unlocks(two_readers(), client="c2", word=TOKEN), 0),
        (deletes_all(two_readers(), "c1"), 1),
        (deletes_all(two_readers(), "c2"), 0),
    ],
    ids=[
        "its lease had ended",
        "its lease as it was told",
        "the renewal had run out",
        "just before",
        "it had left",
        "another client renewed",
        "its member has a time of its own",
        "another member was removed",
        "its own member was removed",
        "no known member was removed, so its own was not",
        "its member has a time of its own, also when it renews the key",
        "its own request takes out its member",
        "another client's request deletes the key",
        "its own request deletes the key",
    ],
)
def test_a_member_is_its_readers_for_as_long_as_it_renews_it(history: History, number: int) -> None:
    assert found(history) == (0, 0, number)


def test_what_may_have_been_taken_out_before_is_not_known() -> None:
    history = two_readers().request("c1", "n1", "SPOP k1", 620, 621, reply="1")
    history.seen("n1", "changed", 622, since=619, ttl=400)
    assert found(unlocks(history)) == (0, 0, 0)


def test_a_node_that_did_not_count_the_time_well() -> None:
    wrong = {"nemesis": "clock", "wrong_clocks": ("n1",)}
    assert found(unlocks(two_readers().fault("f1", 610, 620, **wrong))) == (0, 0, 0)
    assert found(unlocks(two_readers(renewed=None).fault("f1", 110, 120, **wrong), 450)) == (0, 0, 1)


def handed_over(asked: str, *, also_by: str | None = None, shows: bool = False, value: str = "a-ticket") -> History:
    """c1's release sets the key to a value that c2's acquire has asked for; c2 is let in, and prolongs it. While it
    waits it `shows` that it lives by a key of its own."""
    history = History(ttl_ms=400).watch("n1").section("c1", 10, 300, asked=4)
    history.section("c2", 500, 900, asked=250).op("c2", "extend", "ok", 1, 599, 603)
    history.request("c1", "n1", "SET k1 a NX PX 400", 5, 6).seen("n1", "set", 7, "a", since=4, ttl=400)
    for client in filter(None, ("c2", also_by)):
        history.request(client, "n1", f"EVAL script 1 k1 {asked} 400", 260, 261, reply="0", did=False)
        if shows:
            history.seen("n1", "set", 261, "1", key=f"lives:{asked}", ttl=400)
            history.by(history.key_events[-1], len(history.requests) - 1)
    history.seen("n1", "set", 302, value, since=300, ttl=400)
    history.request("c1", "n1", "EVAL release 1 k1 a 400", 301, 302)
    history.seen("n1", "prolonged", 602, value, since=599, ttl=400)
    return history.request("c2", "n1", "PEXPIRE k1 400", 600, 601)


@pytest.mark.parametrize("shows", [False, True])
def test_a_key_that_was_handed_over_belongs_to_the_client_that_had_asked_for_it(shows: bool) -> None:
    run = handed_over("a-ticket", shows=shows).recorded()
    assert check(run).findings == ()
    owners = run.owners
    assert owners is not None
    assert owners.holdings[["value", "client", "section"]].values.tolist() == [["a", "c1", 0], ["a-ticket", "c2", 1]]


@pytest.mark.parametrize("again", [False, True])
def test_a_value_that_is_made_of_what_one_section_had_asked_for_tells_whose_key_it_is(again: bool) -> None:
    """What a client sends for each of its sections may be its own name."""
    history = handed_over("entry-of-c2", value="entry-of-c2:12")
    if again:
        history.op("c2", "acquire", "fail", 2, 920, 930)
        history.request("c2", "n1", "EVAL script 1 k1 entry-of-c2 400", 921, 922, reply="0", did=False)
    run = history.recorded()
    assert check(run).findings == ()
    owners = run.owners
    assert owners is not None
    assert (["entry-of-c2:12", "c2", 1] in owners.holdings[["value", "client", "section"]].values.tolist()) is not again


@pytest.mark.parametrize(("script", "number"), [("release", 0), ("another", 1)])
def test_what_a_script_that_hands_over_sets_unread_is_of_no_known_client(script: str, number: int) -> None:
    history = handed_over("a-ticket").op("c2", "acquire", "fail", 2, 920, 930)
    history.request("c2", "n1", f"EVAL {script} 1 k1 a-ticket 400", 921, 922)
    history.seen("n1", "set", 923, since=920, ttl=400)
    history.section("c1", 950, 1100, number=2, asked=940).op("c1", "extend", "ok", 2, 1039, 1043)
    history.request("c1", "n1", "PEXPIRE k1 400", 1040, 1041).seen("n1", "prolonged", 1042, since=1039, ttl=400)
    assert sum(found(history)) == number


@pytest.mark.parametrize("history", [handed_over("another"), handed_over("a-ticket", also_by="c3")])
def test_a_value_that_several_clients_have_sent_or_none_does_not_tell_whose_key_it_is(history: History) -> None:
    owners = history.recorded().owners
    assert owners is not None
    assert ["a-ticket", "c2"] not in owners.holdings[["value", "client"]].values.tolist()


READER = "k1:reader"


def readers(*, died: float | None = 600, key: str = READER, **config: Any) -> History:
    """Readers come in at 100, 200, … and each sets a key of its own, and a hash that all share. c2 comes in at 200, and
    is killed, or leaves at 650; the others leave at 2,000."""
    history = History(ttl_ms=400, clients=9, **{"workload": "rw-lock"} | config).watch("n1")
    for number in range(1, 10):
        client, at = f"c{number}", 100 * number
        until = (None if died else 650) if number == 2 else 2_000
        shared = {"shared": True} if history.config.workload == "rw-lock" else {}
        history.section(client, at, until, asked=at - 20, deadline=3_000, **shared)
        history.request(client, "n1", f"SET {key}:{number} 1 PX 400", at - 10, at - 9)
        history.seen("n1", "set", at - 9, "1", key=f"{key}:{number}", since=at - 10, ttl=400)
        history.request(client, "n1", f"HSET k1:all {client} 1", at - 8, at - 7)
        history.seen("n1", "changed", at - 7, client, key="k1:all", since=at - 8, ttl=400)
    for number in (1, *range(3, 10)):
        history.request(f"c{number}", "n1", f"DEL {key}:{number}", 2_000.2, 2_000.4)
        history.seen("n1", "deleted", 2_000.4, key=f"{key}:{number}", since=2_000.2)
    return history if died is None else history.end("c2", "killed", died)


def prolongs_all(history: History, at: float = 800, number: int = 2, by: str = "c1", key: str = READER) -> History:
    """Another reader prolongs that reader's key, outside of any call: a watchdog."""
    history.request(by, "n1", f"PEXPIRE {key}:{number} 400", at, at + 1, reply="1")
    history.seen("n1", "prolonged", at + 2, "1", key=f"{key}:{number}", since=at - 1, ttl=400)
    return ended(history)


def ended(history: History) -> History:
    history.key_events.sort(key=lambda event: event.at_ns)
    return history.seen("n1", "blind", 5_000)


def test_a_reader_that_is_gone_is_kept_in_by_the_others(golden: Golden) -> None:
    history = prolongs_all(readers())
    (finding,) = check(history.recorded()).findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "prolonged-another-clients-key", "lock", "liveness", 1,
    )  # fmt: skip
    golden(finding.text)
    assert breaks(prolongs_all(readers(died=None))) == ["liveness"]


@pytest.mark.parametrize(
    ("history", "at", "number", "by"),
    [
        (readers(), 550, 2, "c1"),  # It is still inside,
        (readers(), 800, 3, "c1"),  # so is this one,
        (readers(), 800, 1, "c1"),  # and it is its own.
        (readers(died=None), 650.5, 2, "c1"),  # It is just being released.
    ],
)
def test_the_key_of_a_reader_that_is_inside_may_be_prolonged(history: History, at: float, number: int, by: str) -> None:
    assert breaks(prolongs_all(history, at, number, by)) == []


def test_the_key_that_readers_share_may_be_prolonged() -> None:
    history = readers()
    history.request("c3", "n1", "PEXPIRE k1:all 400", 800, 801).seen(
        "n1", "prolonged", 801, "c1", key="k1:all", ttl=400
    )
    assert breaks(ended(history)) == []


def test_the_slot_of_another_client_was_deleted() -> None:
    def deleted(at: float, by: str = "c1", **config: Any) -> list[str | None]:
        history = readers(died=None, key="k1:slot", workload="semaphore", permits=9, **config)
        history.request(by, "n1", "DEL k1:slot:2", at, at + 1, reply="1")
        history.seen("n1", "deleted", at + 1, key="k1:slot:2", since=at - 1)
        return breaks(ended(history))

    assert deleted(300) == ["lease"]
    assert deleted(300, by="c2") == deleted(700) == []


@pytest.mark.parametrize(("by", "broken"), [("c2", ["lease"]), ("c3", [])])
def test_a_slot_that_its_client_writes_anew_to_extend_it_is_still_its_own(by: str, broken: list[str]) -> None:
    """If another client writes it, the slots may change hands."""
    history = readers(died=None, key="k1:slot", workload="semaphore", permits=9)
    history.op(by, "extend", "ok", 1, 219, 222)
    history.request(by, "n1", "SET k1:slot:2 2 PX 400", 220, 221)
    history.seen("n1", "set", 221, "2", key="k1:slot:2", since=220, ttl=400)
    history.request("c1", "n1", "DEL k1:slot:2", 300, 301, reply="1")
    history.seen("n1", "deleted", 301, key="k1:slot:2", since=299)
    assert [word for word in breaks(ended(history)) if word == "lease"] == broken


def shared_by_tasks(*, by: str = "c2@2", what: str = "deleted", sent: float = 590.2) -> History:
    """c2@1 is inside, and its key has the value of its process; c2@2, whose lease was over, deletes it as it leaves."""
    history = History(ttl_ms=400, tasks=2).watch("n1").section("c2@2", 20, 590, number=1, asked=5, deadline=380)
    history.request("c2", "n1", "SET k1 b NX PX 400", 10, 11).seen("n1", "set", 12, "b", since=8, ttl=400)
    history.seen("n1", "expired", 412, since=410)
    history.section("c2@1", 500, 900, number=1, asked=480)
    history.request("c2@1", "n1", "SET k1 b NX PX 400", 490, 491).seen("n1", "set", 492, "b", since=485, ttl=400)
    history.request(by, "n1", "EVAL free 1 k1 b", sent + 0.1, sent + 0.3, reply="1")
    return history.seen("n1", what, sent + 0.3, "b" if what == "prolonged" else None, since=sent, ttl=None)


def test_a_release_of_another_task_of_the_process_deletes_the_key(golden: Golden) -> None:
    run = shared_by_tasks().recorded()
    (finding,) = check(run).findings
    assert finding.examples[0].items() >= {"how": "deleted", "by": "c2@2", "of": "c2@1", "call": "release"}.items()
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "another task's release"
    golden(told.explanations[0].sentence)


@pytest.mark.parametrize(("by", "cause"), [("c2@2", "another task's release"), ("c1@1", "deleted")])
def test_a_release_that_names_the_value_of_another_holder(by: str, cause: str, golden: Golden) -> None:
    """c2@1 is inside with a value of its own; the release of another task, or another client, names it."""
    history = History(ttl_ms=400, tasks=2).watch("n1").section(by, 20, 590, number=1, asked=5, deadline=380)
    for task, at, value in ((by, 10, "first"), ("c2@1", 490, "second")):
        history.request(task, "n1", f"SET k1 {value} NX PX 400", at, at + 1, did=False)
        history.seen("n1", "set", at + 1, value, since=at - 1, ttl=400)
        history.by(history.key_events[-1], len(history.requests) - 1)
        if task == by:
            history.seen("n1", "expired", 412, since=410)
    history.section("c2@1", 500, 900, number=1, asked=480)
    history.request(by, "n1", "EVAL free 1 k1 second", 590.3, 590.5, reply="1")
    run = history.seen("n1", "deleted", 590.5, since=590.2).recorded()
    (finding,) = check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == cause
    golden(told.explanations[0].sentence)


def test_a_release_that_names_the_key_of_another_task_has_not_drawn_the_same_value() -> None:
    history = History(ttl_ms=400, tasks=2).watch("n1").section("c2@1", 500, 900, number=1, asked=480)
    history.request("c2@1", "n1", "SET k1 b NX PX 400", 490, 491).seen("n1", "set", 492, "b", since=485, ttl=400)
    history.section("c2@2", 510, 590, number=1, asked=500, key="k2")
    history.request("c2@2", "n1", "SET k2 a NX PX 400", 505, 506)
    history.seen("n1", "set", 507, "a", since=504, ttl=400, key="k2")
    history.request("c2@2", "n1", "EVAL free 1 k1 b", 590.3, 590.5, reply="1")
    run = history.seen("n1", "deleted", 590.5, since=590.2).recorded()
    (finding,) = check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "another key"


@pytest.mark.parametrize("read", [True, False])
def test_a_release_that_compares_with_an_earlier_request_is_told_so(read: bool) -> None:
    history = History(ttl_ms=400).watch("n1").section("c2", 500, 900, number=1, asked=480)
    history.request("c2", "n1", "SET k1 b NX PX 400", 490, 491).seen("n1", "set", 492, "b", since=485, ttl=400)
    history.op("c1", "release", "ok", 1, 400, 610)
    if read:
        history.request("c1", "n1", "GET k1", 410, 411, reply='"a"', did=False)
    history.request("c1", "n1", "DEL k1", 600, 601, reply="1").seen("n1", "deleted", 601, since=599)
    run = history.recorded()
    (finding,) = check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert ("190 ms before" in told.explanations[0].sentence) is read


@pytest.mark.parametrize(
    "how",
    [{"by": "c2"}, {"by": "c2@1"}, {"what": "prolonged"}, {"sent": 902}],
    ids=["it is not known whose request it was", "it was its own", "it took nothing", "it had left"],
)
def test_a_task_may_do_to_a_key_of_its_process(how: Any) -> None:
    assert found(shared_by_tasks(**how)) == (0, 0, 0)


def test_a_request_that_left_after_its_release_had_returned_is_still_its_tasks() -> None:
    assert found(shared_by_tasks(sent=594)) == found(shared_by_tasks())


def test_a_field_that_another_client_takes_out_prolongs_nothing() -> None:
    """c2's lease is over, and its field tells so: the acquire of c1 takes it out, and adds its own."""

    def prolonged_by(command: str) -> int:
        history = during("acquire", inside(), at=595)
        history.request("c1", "n1", "EVAL lock 1 k1 a 400", 600, 601)
        history.seen("n1", "prolonged", 602, is_hash=True, since=599)
        history.by(history.key_events[-1], len(history.requests) - 1)
        history.called(f"{command} k1 {400 if command == 'PEXPIRE' else TOKEN}")
        return found(history)[1]

    assert prolonged_by("PEXPIRE") == 1
    assert prolonged_by("HDEL") == 0


@pytest.mark.parametrize("mark", ["free", None])
@pytest.mark.parametrize(("by", "number"), [("c2", 0), ("c1", 1)])
def test_a_mark_that_the_lock_is_free_is_nobodys_key(by: str, number: int, mark: str | None) -> None:
    """A release sets the key to "free", and so does an acquire that undoes its first round: c1 holds the lock by its
    other nodes when c2's acquire takes the mark on n1, which may be there too briefly to be read. It is a mark if
    releases of several clients set it."""
    history = History(ttl_ms=400).watch("n1")
    for client, at in (("c1", 10), (by, 210)):
        history.section(client, at, at + 100, asked=at - 5, number=1 + (client == "c1" and at > 10))
        history.request(client, "n1", f"EVAL unlock 1 k1 v{at}", at + 100.2, at + 100.4)
        history.seen("n1", "set", at + 100.4, "free", since=at + 100.2, ttl=5_000)
        history.by(history.key_events[-1], len(history.requests) - 1)
        history.seen("n1", "deleted", at + 150)
    history.section("c1", 500, 900, asked=480, number=3, deadline=890)
    history.request("c1", "n1", "EVAL unlock 1 k1 a1", 490, 491).seen("n1", "set", 491, mark, since=490, ttl=5_000)
    history.by(history.key_events[-1], len(history.requests) - 1)
    history.op("c2", "acquire", "ok", 5, 595, 620, deadline_ns=ms(990), validity_ms=370.0)
    history.request("c2", "n1", "EVAL lock 1 k1 b 400", 600, 601).seen("n1", "set", 601, "b", since=600, ttl=400)
    history.by(history.key_events[-1], len(history.requests) - 1)
    assert found(history) == (number, 0, 0)


@pytest.mark.parametrize(
    ("ttl", "at", "number"), [(400, 590, 1), (400, 700, 1), (20_000, 590, 1), (20_000, 700, 0), (508, 700, 1)]
)
def test_a_key_that_lives_for_longer_than_a_lease_is_its_clients_until_the_lease_is_over(
    ttl: int, at: float, number: int
) -> None:
    """c2's lease is over at 600, and it stays on until 900; its value tells when the lease is over."""
    history = during("acquire", inside(ttl=ttl), at=at - 5)
    assert found(overwrites(history, at, "EVAL lock 1 k1 a 400"))[0] == number


def document(*, keeps: bool = True, unread: bool = False) -> History:
    """The value tells who holds the lock, and who waits. c2's acquire adds itself to it, twice, while c1 is inside, and
    is granted the lock when c1 has left it; then c3 adds itself."""
    first, second, third = "c1-holder", "c2-waiter", "c3-waiter"
    history = History(ttl_ms=400, nodes=1, clients=3).watch("n1")
    history.section("c1", 12, 100, asked=9, requested_ns=ms(9.5), deadline=400)
    history.section("c2", 132, 200, asked=29, requested_ns=ms(129.5), deadline=520).op(
        "c3", "acquire", "fail", 1, 139, 190
    )
    for client, at, value in (
        ("c1", 10, f'{{"by":"{first}"}}'),
        ("c2", 30, None if unread else f'{{"by":"{first if keeps else ""}","queue":["{second}"]}}'),
        ("c2", 60, f'{{"by":"{first if keeps else ""}","queue":["{second}"],"n":2}}'),
        ("c1", 100.2, f'{{"queue":["{second}"]}}'),
        ("c2", 130, f'{{"by":"{second}"}}'),
        ("c3", 140, f'{{"by":"{second}","queue":["{third}"]}}'),
        ("c3", 180, f'{{"by":"{second}"}}'),
    ):
        own = {"c1": first, "c2": second, "c3": third}[client]
        history.request(client, "n1", f"EVAL step 1 k1 {own} 400", at, at + 0.3)
        history.seen("n1", "set", at + 0.3, value, since=at - 0.1, ttl=400)
        history.by(history.key_events[-1], len(history.requests) - 1)
    history.request("c2", "n1", f"EVAL leave 1 k1 {second}", 200.2, 200.4)
    return history.seen("n1", "deleted", 200.4, since=200.1).seen("n1", "blind", 900)


@pytest.mark.parametrize("unread", [False, True])
def test_a_value_that_names_its_owner_and_who_waits_may_be_set_by_who_waits(unread: bool) -> None:
    assert [finding.kind for finding in judge(document(unread=unread).recorded()).findings] == []


def test_a_value_that_does_not_name_its_owner_any_more_takes_the_key() -> None:
    assert found(document(keeps=False))[0] == 1


@pytest.mark.parametrize(("left", "number"), [(400, 1), (342, 1), (340, 0), (200, 0)])
def test_what_is_to_live_for_no_longer_than_before_is_not_prolonged(left: int, number: int) -> None:
    """The key was to live until 892; it gets its own value anew at 602."""
    history = during("release", inside(), outcome="fail").seen("n1", "set", 602, "b", since=599, ttl=left)
    history.request("c1", "n1", "EVAL save 1 k1 400", 600, 601).seen("n1", "deleted", 700)
    assert found(history)[1] == number


@pytest.mark.parametrize(("requested", "number"), [(485, 1), (560, 0)])
def test_what_an_earlier_round_of_an_acquire_had_set_is_not_its_sections(requested: float, number: int) -> None:
    """c2's acquire sets the key at 490, undoes that by a mark, and is let in by the other nodes."""
    history = History(ttl_ms=400).watch("n1").section("c1", 10, 300)
    history.section("c2", 570, 900, asked=480, requested_ns=ms(requested))
    history.request("c2", "n1", "EVAL undo 1 k1 b", 490, 491).seen("n1", "set", 492, "b", since=485, ttl=400)
    assert found(overwrites(during("acquire", history), 600, "EVAL lock 1 k1 a 400"))[0] == number


@pytest.mark.parametrize(("step", "number"), [(1, 0), (7, 4)])
def test_a_key_that_tells_whose_turn_it_is_is_nobodys(step: int, number: int) -> None:
    """Each acquire sets the number of its own turn over the one before, also while its client stays on."""
    history = History(ttl_ms=400, clients=5).watch("n1")
    for turn in range(5):
        at, client = 100 * turn + 10, f"c{turn + 1}"
        history.section(client, at, at + 150, asked=at - 5, deadline=at + 390)
        history.request(client, "n1", f"EVAL take 1 k1 {client}", at - 2, at - 1)
        history.seen("n1", "set", at - 1, str(step * turn), since=at - 3, ttl=400)
        history.by(history.key_events[-1], len(history.requests) - 1)
    assert found(history) == (number, 0, 0)


@pytest.mark.parametrize(
    ("words", "text"), [("GETSET k1 same", "did not compare"), ("EVAL keep 1 k1 same", "Both had")]
)
def test_a_command_that_sets_a_key_whatever_it_holds_compares_no_value(words: str, text: str) -> None:
    """c1, which had drawn the value of c2, too, asks in vain and makes c2's key last for longer."""
    history = History(nodes=1, ttl_ms=900).watch("n1")
    history.section("c1", 10, 50, asked=8).request("c1", "n1", "SET k1 same NX PX 900", 8.5, 9)
    history.seen("n1", "set", 9.5, "same", since=8.4, ttl=900).op("c1", "release", "ok", 1, 50, 52)
    history.request("c1", "n1", "DEL k1", 50.5, 51, reply="1").seen("n1", "deleted", 51.5, since=50.4)
    history.section("c2", 110, 700, asked=108).request("c2", "n1", "SET k1 same NX PX 900", 108.5, 109)
    history.seen("n1", "set", 109.5, "same", since=108.4, ttl=900).op("c1", "acquire", "fail", 2, 590, 605)
    history.request("c1", "n1", words, 600, 601, reply='"same"').seen(
        "n1", "prolonged", 601, "same", since=600, ttl=900
    )
    history.by(history.key_events[-1], len(history.requests) - 1)
    run = history.seen("n1", "blind", 3_000).recorded()
    finding = next(one for one in check(run).findings if one.kind == "prolonged-another-clients-key")
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert text in told.explanations[0].sentence


@pytest.mark.parametrize(
    ("words", "looks", "cause"),
    [
        ("DEL k1", False, "deleted"),
        ("DEL k1", True, "shared value"),
        ("EVAL free 1 k1 same", False, "shared value"),
    ],
    ids=["compares nothing", "looks first", "compares in a script"],
)
def test_a_value_that_two_had_drawn_matters_only_to_a_request_that_compared_it(
    words: str, looks: bool, cause: str
) -> None:
    """c1 had drawn the value, too, for a section that is over; then it deletes c2's key."""
    history = History(nodes=1, ttl_ms=900).watch("n1")
    history.section("c1", 10, 50, asked=8).request("c1", "n1", "SET k1 same NX PX 900", 8.5, 9)
    history.seen("n1", "set", 9.5, "same", since=8.4, ttl=900).op("c1", "release", "ok", 1, 50, 52)
    history.request("c1", "n1", "DEL k1", 50.5, 51, reply="1").seen("n1", "deleted", 51.5, since=50.4)
    history.section("c2", 110, 700, asked=108).request("c2", "n1", "SET k1 same NX PX 900", 108.5, 109)
    history.seen("n1", "set", 109.5, "same", since=108.4, ttl=900).op("c1", "release", "ok", 2, 590, 605)
    if looks:
        history.request("c1", "n1", "GET k1", 595, 596, reply='"same"', did=False)
    run = deletes(history, words=words).seen("n1", "blind", 3_000).recorded()
    (finding,) = check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == cause


@pytest.mark.parametrize(
    ("reads", "value", "prolonged"),
    [
        ("GET k1", "drawn-by-c2", 0),
        ("", "drawn-by-c2", 1),
        ("GET k1", "short", 1),
        ("GET k1", "12345678", 1),
        ("LPOP tokens", "drawn-by-c2", 1),
    ],
    ids=["copied", "drawn by both", "too short to tell", "a number", "taken out"],
)
def test_a_key_that_was_set_with_a_value_that_its_client_had_read_is_not_its_own(
    reads: str, value: str, prolonged: int
) -> None:
    """c3, which is refused, may have read c2's value. The key is deleted, and c3 sets it again; then c2 extends its
    lease."""
    history = History(nodes=1, clients=3, ttl_ms=900).watch("n1").op("c3", "acquire", "fail", 1, 6.5, 9)
    history.section("c2", 10, 300, asked=5, deadline=905)
    history.op("c2", "extend", "ok", 1, 150, 160, deadline_ns=ms(1_050), validity_ms=900)
    history.request("c2", "n1", f"SETNX k1 {value}", 6, 6.4, reply="1").seen("n1", "set", 6.2, value, since=6)
    if reads:
        history.request("c3", "n1", reads, 6.7, 6.8, reply=f'"{value}"', did=False)
    history.request("c1", "n1", "DEL k1", 6.85, 6.9, reply="1").seen("n1", "deleted", 6.9, since=6.85)
    history.request("c3", "n1", f"PSETEX k1 900 {value}", 7, 7.4).seen("n1", "set", 7.2, value, since=7, ttl=900)
    history.request("c2", "n1", f"EVAL keep 1 k1 {value} 900", 151, 151.4, reply="1")
    history.seen("n1", "prolonged", 151.2, value, since=151, ttl=900)
    assert found(history)[1] == prolonged
    ledger = history.recorded().ledger
    assert ledger is not None
    (change,) = (ledger.change(row) for row in ledger.rows.index[(ledger.rows["what"] == "prolonged").to_numpy(bool)])
    assert ledger.drew_it_too(change) == bool(prolonged)


def test_a_key_that_readers_share_may_have_the_name_that_they_ask_for() -> None:
    """It was never changed while it was there, and keeps no reader's own key from being one."""
    history = readers()
    for number in range(1, 10):
        history.request(f"c{number}", "n1", "SET k1 1 PX 1", 100 * number - 6, 100 * number - 5)
        history.seen("n1", "set", 100 * number - 5, "1", key="k1", since=100 * number - 6, ttl=1)
        history.seen("n1", "expired", 100 * number - 4, key="k1", since=100 * number - 5)
    assert breaks(prolongs_all(history)) == ["liveness"]

"""How more clients than permits came to be inside, word for word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.checkers.explained import spans_of, tell
from harness.checkers.judge import judge
from harness.explain.evidence import gather
from harness.explain.examples import case_of
from harness.explain.explanation import Explanation
from harness.explain.kinds import Told
from harness.history.recorded import Recorded
from harness.report.explanations import lines, title
from tests.explain.stories import Story
from tests.golden import Golden
from tests.judge.histories import History


def story(**config: object) -> Story:
    return Story(**{"workload": "semaphore", "permits": 2, "clients": 4, **config})


def test_two_clients_in_the_same_slot_are_explained_like_an_overlap(golden: Golden) -> None:
    told = (
        story()
        .let_in("c1", 10, 50, "OK OK nil", name="k1#1")
        .let_in("c2", 11, 50, "OK OK OK", name="k1#2")
        .killed("n2", 12, 20)
        .let_in("c3", 30, 60, "nil OK OK", name="k1#1")
        .saw(29.5, "set", "n2 n3", "c3", key="k1#1")
        .told("over-capacity")
    )
    golden(told.sentence)
    assert [(side.client, side.key) for side in told.pair] == [("c1", "k1#1"), ("c3", "k1#1")]
    assert len(told.parts) == 3


def test_the_witness_adds_what_happened_to_a_slot(golden: Golden) -> None:
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
    golden(told.sentence)


def by_majority(third: str) -> Story:
    three = story(nodes=5).let_in("c1", 10, 50, "OK OK OK silent silent").let_in("c2", 11, 50, "OK silent silent OK OK")
    return three.let_in("c3", 30, 60, third)


def test_a_majority_of_counting_nodes_is_not_enough(golden: Golden) -> None:
    golden(by_majority("nil OK OK OK nil").told("over-capacity").sentence)


def test_a_node_that_let_in_too_many_is_named(golden: Golden) -> None:
    told = by_majority("OK OK OK OK nil").told("over-capacity").sentence
    golden(told)


def test_clients_in_different_slots_are_let_in_by_the_nodes_that_granted_these(golden: Golden) -> None:
    three = story().let_in("c1", 10, 50, "OK OK nil", name="k1#1").let_in("c2", 11, 50, "OK OK OK", name="k1#2")
    told = three.asked("c3", "acquire", 27, "nil nil OK", name="k1#1").let_in("c3", 30, 60, "OK OK OK", name="k1#3")
    golden(told.told("over-capacity").sentence)


def test_too_few_nodes_are_only_told(golden: Golden) -> None:
    golden(by_majority("nil nil nil nil OK").told("over-capacity").sentence)
    golden(by_majority("nil nil nil nil nil").told("over-capacity").sentence)


class _Unwatchable(Story):
    def recorded(self) -> Recorded:
        return replace(super().recorded(), unwatchable="ZooKeeper")


def test_nothing_is_said_of_nodes_whose_replies_are_no_grants(golden: Golden) -> None:
    three = _Unwatchable(workload="semaphore", permits=2, clients=4)
    for client, at in (("c1", 10), ("c2", 11), ("c3", 30)):
        three.let_in(client, at, 60, "nil nil nil")
    told = three.told("over-capacity")
    golden(told.sentence)
    assert told.cause == "unknown"


def test_a_lock_that_shows_nothing_is_not_guessed_at(golden: Golden) -> None:
    three = story().section("c1", 10, 50).section("c2", 11, 50).section("c3", 30, 60)
    golden(three.told("over-capacity").sentence)


def test_with_one_permit_it_is_explained_like_an_overlap(golden: Golden) -> None:
    two = story(permits=1).let_in("c1", 10, 50, "OK OK nil").let_in("c2", 30, 60, "nil nil OK")
    golden(two.told("over-capacity").sentence)


def test_a_client_that_outlived_its_lease(golden: Golden) -> None:
    three = story().section("c1", 10, 150, deadline=110).section("c2", 100, 150, asked=99).section("c3", 120, 130)
    golden(three.told("over-capacity").sentence)


def test_a_client_that_entered_too_late(golden: Golden) -> None:
    three = story().section("c1", 10, 50).section("c2", 11, 50).section("c3", 30, 60, deadline=25, asked=20)
    golden(three.told("over-capacity").sentence)


def test_a_client_that_may_have_outlived_its_lease(golden: Golden) -> None:
    three = story().section("c1", 10, 90, deadline=(25, 40)).section("c2", 11, 50).section("c3", 30, 60)
    told = three.told("over-capacity").sentence
    golden(told)
    assert told.endswith("The record allows both readings.")


@pytest.mark.parametrize(("began_anew", "cause"), [(False, "below zero"), (True, "unknown")])
def test_a_release_that_gave_back_what_the_count_no_longer_had(began_anew: bool, cause: str) -> None:
    """Two permits; c4's release leaves the count at −1, so that three clients get in."""
    history = History(workload="semaphore", permits=2, nodes=1, clients=4).watch("n1")
    history.op("c4", "release", "ok", 1, 4, 6).seen("n1", "set", 5.5, "-1", since=5)
    history.request("c4", "n1", "DECR k1", 5, 5.2, reply="-1")
    if began_anew:
        history.seen("n1", "expired", 7, since=6)
    for number, client in enumerate(("c1", "c2", "c3")):
        at = 10 + 4 * number
        history.section(client, at, 60, asked=at - 2)
        count = number + 1 if began_anew else number
        history.seen("n1", "set" if began_anew and not number else "changed", at - 0.5, str(count), since=at - 1)
        history.request(client, "n1", "INCR k1", at - 1, at - 0.8, reply=str(count))
    run = history.recorded()
    (finding,) = (found for found in judge(run).findings if found.kind == "over-capacity" and found.blame == "lock")
    case = case_of(run, finding, finding.examples[0])
    assert tell(run, gather(run, spans_of(run, [case])), case).cause == cause


@pytest.mark.parametrize(("gives", "cause"), [("LPUSH tokens 0", "given back twice"), ("GET tokens", "unknown")])
def test_a_permit_that_was_put_back_twice(gives: str, cause: str) -> None:
    """Two tokens; c5 outlives its lease, c1 puts its token back and takes it, and c5 puts it back once more."""
    history = History(workload="semaphore", permits=2, nodes=1, clients=5).watch("n1")

    def did(client: str, words: str, at: float, event: str = "changed") -> None:
        is_change = not words.startswith("GET")
        history.request(client, "n1", words, at, at + 0.2, reply="1", did=is_change)
        if is_change:
            history.seen("n1", event, at + 0.3, since=at - 0.2, key="tokens")

    history.section("c5", 4, 20, deadline=8)
    did("c5", "LPOP tokens", 3.5, "set")
    history.section("c4", 6, 60, asked=5)
    did("c4", "LPOP tokens", 5.5)
    history.op("c4", "release", "ok", 1, 60, 62)
    history.section("c1", 12, 60, asked=9)
    did("c1", "LPUSH tokens 0", 10)
    did("c1", "LPOP tokens", 11)
    did("c5", gives, 20.5)
    history.section("c2", 30, 60, asked=28)
    did("c2", "LPOP tokens", 29)
    did("c4", "LPUSH tokens 1", 60.4)
    run = history.recorded()
    (finding,) = (found for found in judge(run).findings if found.kind == "over-capacity" and found.blame == "lock")
    case = case_of(run, finding, finding.examples[0])
    told = tell(run, gather(run, spans_of(run, [case])), case)
    assert told.cause == cause
    assert ("c5 had given back" in told.sentence) == (cause != "unknown")


class _Stock(History):
    """Two permits on one node, which is watched. What a request did is told beside its words."""

    def __init__(self) -> None:
        super().__init__(workload="semaphore", permits=2, nodes=1, clients=6, ttl_ms=200)
        self.watch("n1")

    def does(self, client: str, at: float, words: str, *changes: str) -> _Stock:
        """`changes`: `set RPUSH tokens x` each."""
        self.request(client, "n1", words, at, at + 0.2, reply="1", did=False)
        for what, _, did in (change.partition(" ") for change in changes):
            self.seen("n1", what, at + 0.2, since=at, key=did.split()[1])
            self.by(self.key_events[-1], len(self.requests) - 1)
            self.called(did)
        return self

    def told_last(self) -> Told:
        """Of the last entry."""
        run = self.recorded()
        (finding,) = (found for found in judge(run).findings if found.kind == "over-capacity" and found.blame == "lock")
        case = case_of(run, finding, max(finding.examples, key=lambda example: example["at_ms"]))
        return tell(run, gather(run, spans_of(run, [case])), case)


@pytest.mark.parametrize(("deadline", "cause"), [(190, "put in by an acquire"), (30, "unknown")])
def test_an_acquire_that_fills_what_was_merely_empty(deadline: float, cause: str, golden: Golden) -> None:
    """c1 fills the list and takes a token, c2 takes the other one; c3 finds no list and fills it anew. It may if the
    leases of c1 and c2 are over."""
    stock = _Stock().does("c1", 9, "EVAL take 1 tokens c1", "set RPUSH tokens 1", "changed RPUSH tokens 2")
    stock.does("c1", 9.4, "EVAL take 1 tokens c1", "changed LPOP tokens")
    stock.does("c2", 14, "EVAL take 1 tokens c2", "changed LPOP tokens", "deleted LPOP tokens")
    fills = ("set RPUSH tokens 1", "changed RPUSH tokens 2", "changed LPOP tokens")
    stock.does("c3", 39, "EVAL take 1 tokens c3", *fills)
    stock.does("c4", 49, "EVAL take 1 tokens c4", "changed LPOP tokens", "deleted LPOP tokens")
    stock.does("c5", 54, "LPOP tokens", "changed LPOP tokens")
    stock.section("c1", 10, 100, asked=8, deadline=deadline).section("c2", 15, 100, asked=13, deadline=deadline)
    for client, at in (("c3", 40), ("c4", 50), ("c5", 55)):
        stock.section(client, at, 90, asked=at - 2, deadline=190)
    stock.does("c3", 90.2, "EVAL give 1 tokens c3", "set RPUSH tokens 1")
    told = stock.told_last()
    assert told.cause == cause
    if cause != "unknown":
        golden(told.sentence)


@pytest.mark.parametrize("again", [True, False])
def test_what_a_list_of_permits_holds_is_known_whoever_took_them_before(again: bool, golden: Golden) -> None:
    """c6 takes a token twice in acquires that end with an error, and each time puts it back in a release that does. c1
    takes one; c3 puts one in for itself, and may if it is not there already, as it is not unless c6 did it `again`."""
    stock = _Stock().does("c1", 3, "EVAL fill 1 tokens", "set RPUSH tokens 1", "changed RPUSH tokens 2")
    for number, at in enumerate((5.0, 7.0), 1):
        stock.op("c6", "acquire", "info", number, at - 0.1, at + 0.3)
        stock.op("c6", "release", "info", number, at + 0.4, at + 1)
        stock.does("c6", at, "LPOP tokens", "changed LPOP tokens")
        if again or number == 1:
            stock.does("c6", at + 0.5, "RPUSH tokens 1", "changed RPUSH tokens 1")
    took = ("changed LPOP tokens", "deleted LPOP tokens")
    stock.does("c1", 9.4, "LPOP tokens", *took[: 2 - again])
    filled = "changed RPUSH tokens 3" if again else "set RPUSH tokens 3"
    stock.does("c3", 38, "EVAL fill 1 tokens", filled).does("c3", 39, "LPOP tokens", "changed LPOP tokens")
    stock.does("c4", 49, "LPOP tokens", *took)
    stock.section("c1", 10, 100, asked=8, deadline=190)
    for client, at in (("c3", 40), ("c4", 50)):
        stock.section(client, at, 90, asked=at - 4, deadline=190)
    stock.does("c3", 90.2, "EVAL give 1 tokens c3", "set RPUSH tokens 1")
    told = stock.told_last()
    assert (told.cause == "put in by an acquire") == again
    if again:
        golden(told.sentence)


@pytest.mark.parametrize("twice", [True, False])
def test_a_release_that_gives_back_for_a_call_that_had_ended(twice: bool, golden: Golden) -> None:
    """c1's release finds the entry of c4's acquire, which was cancelled, and gives back two permits. c3's release gives
    back what it took."""
    stock = _Stock()
    for client, at in (("c1", 9), ("c2", 14)):
        stock.does(client, at, f"EVAL take 2 free queue {client}", f"{'set' if at == 9 else 'changed'} DECR free")
    stock.does("c4", 21, "EVAL take 2 free queue waiter-of-c4", "set RPUSH queue c4-0123")
    given = ("changed LPOP queue", "deleted LPOP queue", *["changed INCR free"] * twice)
    stock.does("c1", 30.2, "EVAL give 2 free queue c1", "changed INCR free", *given)
    for client, at in (("c3", 34), ("c5", 36)):
        stock.does(client, at, f"EVAL take 2 free queue {client}", "changed DECR free")
    stock.does("c3", 40.2, "EVAL give 2 free queue c3", "changed INCR free")
    stock.does("c6", 49, "EVAL take 2 free queue c6", "changed DECR free")
    stock.op("c4", "acquire", "info", 1, 20, 25)
    for client, start, end in (("c1", 10, 30), ("c2", 15, 90), ("c3", 35, 40), ("c5", 37, 90), ("c6", 50, 90)):
        stock.section(client, start, end, asked=start - 2, deadline=190)
    told = stock.told_last()
    assert told.cause == ("given back twice" if twice else "unknown")
    if twice:
        golden(told.sentence)


@pytest.mark.parametrize(("leaves", "cause"), [(20, "expired"), (60, "expired"), (14.5, "unknown")])
def test_a_count_that_expired_with_the_place_of_a_client(leaves: float, cause: str, golden: Golden) -> None:
    """The count expires at 19 with the place of c1, which leaves later and lowers the new one, or stays inside; or it
    had left before."""
    stock = _Stock().does("c1", 9, "EVAL take 1 free c1", "set INCR free")
    if leaves < 19:
        stock.does("c1", leaves + 0.2, "EVAL give 1 free c1", "changed DECR free")
    stock.seen("n1", "expired", 19, key="free", since=18.9)
    for client, at in (("c2", 24), ("c3", 26)):
        stock.does(client, at, f"EVAL take 1 free {client}", f"{'set' if at == 24 else 'changed'} INCR free")
    if 19 < leaves < 50:
        stock.does("c1", leaves + 10.2, "EVAL give 1 free c1", "changed DECR free")
    stock.does("c4", 49, "EVAL take 1 free c4", "changed INCR free")
    for client, at in (("c2", 61), ("c3", 62), ("c4", 63)):
        stock.does(client, at, f"EVAL give 1 free {client}", "changed DECR free")
    stock.section("c1", 10, leaves, asked=8, deadline=190)
    for client, start, end in (("c2", 25, 60.5), ("c3", 27, 61.5), ("c4", 50, 62.5)):
        stock.section(client, start, end, asked=start - 2, deadline=190)
    told = stock.told_last()
    assert told.cause == cause
    if cause != "unknown":
        golden(told.sentence)


def test_the_page_shows_all_sections_and_the_nodes_of_the_two_that_matter(golden: Golden) -> None:
    three = story().let_in("c1", 10, 50, "OK OK nil", name="k1#1").let_in("c2", 11, 55, "OK OK OK", name="k1#2")
    three.killed("n2", 12, 20).let_in("c3", 30, 60, "nil OK OK", name="k1#1")
    run = three.recorded()
    (finding,) = (found for found in judge(run).findings if found.kind == "over-capacity")
    case = case_of(run, finding, finding.examples[0])
    told: Told = tell(run, gather(run, spans_of(run, [case])), case)
    explanation = Explanation(case, told.sentence, "", case.sides, told.parts, told.pair, (), others=2)
    golden(title(run, explanation))
    text = lines(run, explanation)
    assert sum(line.startswith(("c1, section", "c2, section", "c3, section")) for line in text) == 3
    (head,) = (line for line in text if line.startswith("node"))
    assert head.split() == ["node", "to", "c1", "in", "between", "(ms)", "to", "c3"]
    golden(text[-1])


def test_a_slot_is_the_key_that_the_script_took_of_those_that_it_was_told(golden: Golden) -> None:
    """c1 has the first slot until c4 deletes its key; c2 takes it. Then c3 gets the second one, beside both."""
    history = History(workload="semaphore", permits=2, clients=4, ttl_ms=200, nodes=1).watch("n1")
    for client, at, slot in (("c1", 10, 1), ("c2", 30, 1), ("c3", 40, 2)):
        history.section(client, at, 90, asked=at - 3, deadline=at + 190)
        words = f"EVAL take 2 k1:1 k1:2 {client} 200"
        history.request(client, "n1", words, at - 2, at - 1, reply=str(slot))
        history.seen("n1", "set", at - 1.5, client, key=f"k1:{slot}", since=at - 2, ttl=200)
        if client == "c1":
            history.op("c4", "release", "ok", 1, 20, 22)
            history.request("c4", "n1", "DEL k1:1", 21, 21.4, reply="1").seen("n1", "deleted", 21.2, key="k1:1")
    run = history.recorded()
    (finding,) = (one for one in judge(run).findings if one.kind == "over-capacity")
    case = case_of(run, finding, finding.examples[0])
    told = tell(run, gather(run, spans_of(run, [case])), case)
    assert [(side.client, side.key) for side in told.pair] == [("c1", "k1:1"), ("c2", "k1:1")]
    golden(told.sentence)


@pytest.mark.parametrize(
    ("third", "script", "cause"),
    [
        ("1700000000001 c3", "zadd-zrank", "ranked by clients"),
        ("1700000000002 a3", "zadd-zrank", "ranked by clients"),
        ("1700000000003 c3", "zadd-zrank", "unknown"),
        ("1700000000001 c3", "zadd-zcard", "unknown"),
    ],
)
def test_who_names_an_earlier_time_comes_first(third: str, script: str, cause: str, golden: Golden) -> None:
    """c3 asks after c1 and c2, which have both permits. With an earlier time, or the same one and a smaller member, a
    rank lets it in."""
    history = History(workload="semaphore", permits=2, clients=3, ttl_ms=200, nodes=1).watch("n1")
    for at, client, words in ((10, "c1", "1700000000000 c1"), (20, "c2", "1700000000002 c2"), (30, "c3", third)):
        history.section(client, at, 90, asked=at - 3, deadline=at + 190)
        history.request(client, "n1", f"EVAL {script} 1 k1 {words} 200", at - 2, at - 1, reply="1")
        history.seen("n1", "set", at - 1.5, None, since=at - 2, ttl=200, is_hash=client != "c1")
        history.key_events[-1].command = "ZADD"
    run = history.recorded()
    (finding,) = (one for one in judge(run).findings if one.kind == "over-capacity")
    case = case_of(run, finding, finding.examples[0])
    told = tell(run, gather(run, spans_of(run, [case])), case)
    assert told.cause == cause
    if cause != "unknown":
        golden(told.sentence)


def _told_at_once(history: History) -> Told:
    run = history.seen("n1", "blind", 900).recorded()
    (finding,) = (one for one in judge(run).findings if one.kind == "over-capacity")
    case = case_of(run, finding, finding.examples[0])
    return tell(run, gather(run, spans_of(run, [case])), case)


@pytest.mark.parametrize(
    ("looked", "answered", "take", "cause"),
    [
        ("ZCARD", 27.4, "ZADD k1 3", "looked first"),
        ("ZCARD", 28.6, "ZADD k1 3", "unknown"),  # perhaps after c2's request
        ("ZCARD", 27.4, "ZADD k1 NX 3", "unknown"),
        ("PING", 27.4, "ZADD k1 3", "unknown"),
    ],
)
def test_another_client_comes_between_the_look_and_the_taking(
    looked: str, answered: float, take: str, cause: str, golden: Golden
) -> None:
    """Two permits. c3 asks how many are inside, and adds itself; c2 does so in between."""
    history = History(workload="semaphore", permits=2, clients=3, ttl_ms=200, nodes=1).watch("n1")
    for client, at in (("c1", 10.0), ("c2", 28.0), ("c3", 29.0)):
        history.section(client, at + 3, 90, asked=at - 5, deadline=at + 190)
        words = f"{take} {client}" if client == "c3" else f"ZADD k1 2 {client}"
        history.request(client, "n1", words, at, at + 0.3, reply="1", did=False)
        history.seen("n1", "set" if client == "c1" else "changed", at + 0.2, since=at, ttl=200)
        history.by(history.key_events[-1], len(history.requests) - 1)
    look = "PING" if looked == "PING" else f"{looked} k1"
    history.request("c3", "n1", look, 27, answered, told=28.8, reply="1", did=False)
    history.requests.insert(-2, history.requests.pop())
    told = _told_at_once(history)
    assert told.cause == cause
    if cause == "looked first":
        golden(told.sentence)


@pytest.mark.parametrize(("changes", "cause"), [(False, "took nothing"), (True, "unknown")])
def test_an_acquire_was_granted_by_a_request_that_changed_nothing(changes: bool, cause: str, golden: Golden) -> None:
    """Two permits. c3 is told the same member as c2, which is there already."""
    history = History(workload="semaphore", permits=2, clients=3, ttl_ms=200, nodes=1).watch("n1")
    for client, at in (("c1", 10), ("c2", 20), ("c3", 30)):
        history.section(client, at + 3, 90, asked=at - 2, deadline=at + 190)
        history.request(client, "n1", "EVAL take 1 k1 200", at, at + 0.3, reply='"member-1"', did=False)
        if client != "c3" or changes:
            history.seen("n1", "set" if client == "c1" else "changed", at + 0.2, since=at, ttl=200)
            history.by(history.key_events[-1], len(history.requests) - 1)
    told = _told_at_once(history)
    assert told.cause == cause
    if not changes:
        golden(told.sentence)


@pytest.mark.parametrize(("asks", "cause"), [(False, "granted unasked"), (True, "took nothing")])
def test_a_permit_was_granted_without_a_request(asks: bool, cause: str) -> None:
    history = History(workload="semaphore", permits=2, clients=3, ttl_ms=200, nodes=1).watch("n1")
    for client, at in (("c1", 10), ("c2", 20), ("c3", 30)):
        history.section(client, at + 3, 90, asked=at - 2, deadline=at + 190)
        if client != "c3" or asks:
            history.request(client, "n1", "EVAL take 1 k1 200", at, at + 0.3, reply='"yes"', did=False)
        if client != "c3":
            history.seen("n1", "set" if client == "c1" else "changed", at + 0.2, since=at, ttl=200)
            history.by(history.key_events[-1], len(history.requests) - 1)
    assert _told_at_once(history).cause == cause


def members(*, second: str = "mine", command: str = "ZADD", removed: bool = False) -> Story:
    """Two tasks of c1 ask for one of two permits with these members, then c2 does."""
    three = story(nodes=1, tasks=2).watched("n1")
    for task, at, member in (("c1@1", 9, "mine"), ("c1@2", 19, second), ("c2@1", 29, "its")):
        score = "1 " if command == "ZADD" else ""
        words = f"{command} places {score}{member}"
        three.request(task, "n1", words, at, at + 0.2, reply="1")
        is_new = at == 9 or (removed and at == 19)
        three.seen("n1", "set" if is_new else "changed", at + 0.3, since=at - 0.1, key="places").called(words)
        if removed and task == "c1@1":
            three.request("c3@1", "n1", "ZREM places mine", 15, 15.2, reply="1")
            three.seen("n1", "deleted", 15.3, since=14.9, key="places").called("ZREM places mine")
    three.section("c1@1", 10, 90, asked=8, deadline=150).section("c1@2", 20, 90, asked=18, deadline=150)
    return three.section("c2@1", 30, 90, asked=28, deadline=150)


def test_clients_with_the_same_member_have_one_place(golden: Golden) -> None:
    told = members().told("over-capacity")
    assert told.cause == "shared value"
    golden(told.sentence)
    assert members(command="SADD").told("over-capacity").cause == "shared value"


def test_clients_with_other_members_or_one_after_the_other_have_their_own_places() -> None:
    assert members(second="another").told("over-capacity").cause != "shared value"
    assert members(removed=True).told("over-capacity").cause != "shared value"

"""Permits that were taken and never given back. TTL 100 ms: clients go on for 2,000 ms after the heal at 1,000 ms."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.history import ClientEnd
from harness.checkers.explained import explain
from harness.checkers.taken_for_good import Figures, check
from harness.verdict import Answer, Verdict
from tests.judge.histories import History, ms


def history(stop: float = 4_000, **config: Any) -> History:
    made = History(workload="semaphore", permits=2, nodes=1, **config).watch("n1")
    made.timeline.healed_ns, made.timeline.stop_ns, made.timeline.end_ns = ms(1_000), ms(stop), ms(stop + 100)
    return made


def change(made: History, client: str, words: str, at: float, *, event: str = "changed", **more: Any) -> History:
    made.request(client, "n1", words, at, at + 0.5, **more)
    return made.seen("n1", event, at + 0.5, since=at - 0.2, key=words.split()[1])


def used(made: History, client: str = "c1", at: float = 10, number: int = 1, key: str = "k1") -> History:
    """A section that gives back what it took."""
    made.op(client, "acquire", "ok", number, at - 2, at, validity_ms=90.0)
    change(made, client, f"INCR {key}", at - 1, event="set" if at == 10 else "changed")
    made.op(client, "release", "ok", number, at + 10, at + 12)
    return change(made, client, f"DECR {key}", at + 11)


def refused(made: History, at: float = 200, client: str = "c2", key: str = "k1", **more: Any) -> History:
    made.op(client, "acquire", "fail", 1, at - 5, at + 5)
    return change(made, client, f"INCR {key}", at, **more)


def missed(made: History, at: float = 3_900) -> History:
    return made.op("c1", "acquire", "fail", 99, at - 10, at)


def lost(made: History, *, is_missed: bool = True) -> int:
    made = missed(made) if is_missed else made
    answer = check(made.seen("n1", "blind", 9_000).recorded())
    assert isinstance(answer.figures, Figures)
    assert sum(finding.count for finding in answer.findings) == answer.figures.lost
    return answer.figures.lost


def test_a_count_that_a_refused_acquire_had_raised() -> None:
    run = missed(refused(used(history()), told=None)).seen("n1", "blind", 9_000).recorded()
    answer = check(run)
    assert answer.figures == Figures(1)
    assert [row.text.partition(" ")[0] for row in answer.figures.rows()] == ["1"]
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("taken-for-good", "lock", "liveness", 1)
    assert finding.examples[0].items() >= {"client": "c2", "key": "k1", "node": "n1", "outcome": "fail"}.items()
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "never given back"


@pytest.mark.parametrize(("refusals", "number"), [(8, 1), (7, 0)])
def test_a_key_under_the_librarys_own_name_counts_if_hardly_a_refused_attempt_takes_of_it(
    refusals: int, number: int
) -> None:
    """What every attempt raises counts who waits, or tries."""
    made = refused(used(history(), key="jobs:k1"), key="jobs:k1", told=None)
    for turn in range(refusals):
        made.op("c1", "acquire", "fail", 2, 300 + turn, 300.5 + turn)
    assert lost(made) == number


@pytest.mark.parametrize(("key", "number"), [("k11", 1), ("k1", 0)])
def test_that_another_lock_ran_out_tells_nothing(key: str, number: int) -> None:
    """Also if its name is the beginning of this one's."""
    made = refused(used(history(), key="k11"), key="k11", told=None)
    assert lost(made.op("c1", "acquire", "fail", 99, 3_890, 3_900, key=key), is_missed=False) == number


def counted_by(words: str, back: str) -> History:
    """c1 and a refused acquire of c2 count with these words; what c2 counted stays."""
    made = history().op("c1", "acquire", "ok", 1, 8, 10, validity_ms=90.0)
    change(made, "c1", words, 9, event="set").op("c1", "release", "ok", 1, 20, 22)
    change(made, "c1", back, 21).op("c2", "acquire", "fail", 1, 195, 205)
    return change(made, "c2", words, 200)


@pytest.mark.parametrize(("words", "back"), [("INCRBY k1 1", "INCRBY k1 -1"), ("DECRBY k1 -2", "DECRBY k1 2")])
def test_a_count_that_is_raised_by_a_negative_number_is_lowered(words: str, back: str) -> None:
    assert lost(counted_by(words, back)) == 1
    assert lost(change(counted_by(words, back), "c2", back, 203)) == 0


def test_what_a_refused_attempt_gives_back_at_once_does_not_count_who_waits() -> None:
    made = refused(used(history(), key="jobs:k1"), key="jobs:k1", told=None)
    for turn in range(8):
        at = 300 + 10 * turn
        made.op("c1", "acquire", "fail", 2 + turn, at, at + 5)
        change(change(made, "c1", "INCR jobs:k1", at + 1), "c1", "DECR jobs:k1", at + 3)
    assert lost(made) == 1


def test_a_client_that_was_killed_as_it_acquired_asked_for_a_key_that_is_not_known() -> None:
    made = refused(used(history(), key="jobs:k1"), key="jobs:k1", told=None)
    change(made, "c3", "INCR jobs:k1", 400)
    made.ends.append(ClientEnd("c3", 1, "killed", ms(402), "acquiring", since_ns=ms(398)))
    for turn in range(18):
        made.op("c1", "acquire", "fail", 2 + turn, 500 + turn, 500.5 + turn)
    assert lost(made) == 2


def test_a_lock_without_an_end_takes_nothing_back_after_a_ttl() -> None:
    made = history().op("c1", "acquire", "ok", 1, 8, 10)
    change(made, "c1", "INCR k1", 9, event="set").op("c1", "release", "ok", 1, 20, 22)
    refused(change(made, "c1", "DECR k1", 21), told=None)
    assert lost(made) == 1


@pytest.mark.parametrize(("at", "number"), [(303.9, 0), (304, 1)])
def test_a_lock_that_did_not_run_out_may_take_it_back_when_it_does(at: float, number: int) -> None:
    """c2 is killed inside, at 204; a lease takes 100 ms."""
    made = used(history()).op("c2", "acquire", "ok", 1, 195, 202, validity_ms=90.0)
    change(made, "c2", "INCR k1", 200).end("c2", "killed", 204)
    assert lost(missed(made, at), is_missed=False) == number


def test_a_lock_that_gives_everything_back_lost_nothing() -> None:
    made = used(history())
    assert list(Figures(0).rows()) == []
    assert lost(made) == 0
    assert check(History().section("c1", 10, 20).recorded()) == Answer()


@pytest.mark.parametrize(("at", "number"), [(5, 1), (300, 0)])
def test_a_counter_that_is_filled_before_or_after(at: float, number: int) -> None:
    """What the second client took may be back by then."""
    made = change(history(), "c3", "SET k1 2 NX", 5, event="set") if at == 5 else history()
    used(made, at=11 if at == 5 else 10)
    refused(made, told=None)
    assert lost(made if at == 5 else change(made, "c3", "SET k1 2", at)) == number


def test_what_a_refused_acquire_gives_back_itself_is_not_lost() -> None:
    assert lost(change(refused(used(history())), "c2", "DECR k1", 203)) == 0


def test_another_client_may_give_it_back() -> None:
    assert lost(change(refused(used(history())), "c1", "DECR k1", 900)) == 0


@pytest.mark.parametrize(("back", "number"), [("DECRBY k1 2", 0), ("DECRBY k1 1", 1), ("INCRBY k1 -2", 0)])
def test_a_request_may_give_back_what_several_had_taken(back: str, number: int) -> None:
    made = counted_by("INCRBY k1 1", "DECRBY k1 1").op("c2", "acquire", "fail", 2, 295, 305)
    assert lost(change(change(made, "c2", "INCRBY k1 1", 300), "c1", back, 900)) == number


@pytest.mark.parametrize(("how", "number"), [("killed", 1), ("finished", 0)])
def test_what_a_client_that_was_killed_inside_had_taken(how: str, number: int) -> None:
    """One that is inside until the end of the run may still give it back."""
    made = used(history()).op("c2", "acquire", "ok", 1, 195, 202, validity_ms=90.0)
    change(made, "c2", "INCR k1", 200)
    assert lost(made.end("c2", how, 300 if number else 4_050)) == number


@pytest.mark.parametrize(("stop", "number"), [(3_299.9, 0), (3_300, 1)])
def test_clients_must_have_gone_on_for_a_lease_after_the_heal_and_for_two_after_the_call(
    stop: float, number: int
) -> None:
    """A lease takes 2,300 ms."""
    assert lost(refused(used(history(stop, ttl_ms=2_300)), at=-1_350)) == number


@pytest.mark.parametrize(("stop", "number"), [(2_999.9, 0), (3_000, 1)])
def test_clients_must_have_gone_on_after_the_heal(stop: float, number: int) -> None:
    assert lost(refused(used(history(stop)))) == number


@pytest.mark.parametrize(("at", "number"), [(1_995, 1), (1_995.1, 0)])
def test_and_after_the_call(at: float, number: int) -> None:
    assert lost(refused(used(history()), at)) == number


@pytest.mark.parametrize("words", ["PEXPIRE k1 900", "SET k1 0"])
def test_nothing_is_known_of_a_key_that_something_else_changes(words: str) -> None:
    assert lost(change(refused(used(history())), "c1", words, 900)) == 0


def test_a_key_with_a_time_to_live_gives_everything_back() -> None:
    assert lost(refused(used(history())).seen("n1", "expired", 990)) == 0
    made = used(history())
    made.seen("n1", "set", 300, "b", ttl=900, key="k1")
    assert lost(refused(made)) == 0


def test_a_node_that_forgot_the_key_starts_anew() -> None:
    made = refused(used(history())).seen("n1", "blind", 500)
    made.seen("n1", "watching", 600, "n1-second")
    assert lost(made) == 0


def test_a_token_that_a_connection_without_a_client_took() -> None:
    """The pop that empties a list is two changes of one request."""
    made = history()
    change(made, "c1", "RPUSH k1 t", 1, event="set")
    made.op("c1", "acquire", "ok", 1, 8, 10, validity_ms=90.0).request(
        "c1", "n1", "BLPOP k1 1", 9, 9.5, reply='["k1","t"]'
    )
    made.seen("n1", "changed", 9.5, since=8.8)
    pop = made.key_events[-1]
    made.seen("n1", "deleted", 9.5, since=8.8)
    made.by(made.key_events[-1], len(made.requests) - 1)
    made.op("c1", "release", "ok", 1, 20, 22)
    change(made, "c1", "RPUSH k1 t", 21, event="set")
    assert (pop.command, lost(made)) == ("BLPOP", 0)
    made.key_events.pop()
    made.seen("n1", "changed", 100, since=99)
    made.key_events[-1].port, made.key_events[-1].command = 9_999, "BLPOP"
    made.key_events[-1].digest, made.key_events[-1].place = 1, 0
    run = missed(made).seen("n1", "blind", 9_000).recorded()
    (finding,) = check(run).findings
    assert (finding.count, "client" in finding.examples[0]) == (1, False)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "never given back"
    assert "BLPOP" in told.explanations[0].sentence


def test_what_a_later_client_replaces_need_not_be_given_back() -> None:
    """Such keys may have their expiry in the value."""
    made = history()
    for number, client in enumerate(("c2", "c1"), 1):
        at = 100 * number
        made.op(client, "acquire", "ok", number, at - 5, at, validity_ms=90.0)
        made.request(client, "n1", f"SET k1 until-{at}", at - 3, at - 2.5)
        made.seen("n1", "set", at - 2.5, f"until-{at}", since=at - 3.2)
        if client == "c1":
            made.end(client, "killed", at + 20)
        else:
            made.op(client, "release", "ok", number, at + 10, at + 12)
            change(made, client, "DEL k1", at + 11, event="deleted")
    assert lost(made) == 0


def test_a_release_that_deletes_the_key_gives_all_of_it_back() -> None:
    def made(deletes: str) -> History:
        of_c1 = history().op("c1", "acquire", "ok", 1, 8, 10, validity_ms=900.0)
        change(of_c1, "c1", "INCR k1", 9, event="set")
        refused(refused(of_c1), 300, "c3")
        of_c1.op("c1", "release", "ok", 1, 500, 502)
        return change(of_c1, "c1", deletes, 501, event="deleted" if deletes == "DEL k1" else "changed")

    assert lost(made("DEL k1")) == 0
    assert lost(made("DECR k1")) == 2


def pooled(*turns: str, fill: str = "1 2", more: Any = ()) -> History:
    """Two tokens in a list. Each turn is a client that takes one at 100 ms, and so on every 100 ms, and puts it back by
    its name; `c4!` never does. `more`: what is done at 900 ms."""
    made = change(history(clients=6), "c1", f"RPUSH k1 {fill}", 1, event="set")
    taken: list[str] = fill.split()
    for number, turn in enumerate(turns):
        at, client = 100.0 * (number + 1), turn.rstrip("!")
        token = taken.pop(0)
        made.op(client, "acquire", "info" if turn.endswith("!") else "ok", number + 1, at, at + 9, validity_ms=90.0)
        change(made, client, "LPOP k1", at + 5)
        if not turn.endswith("!"):
            made.op(client, "release", "ok", number + 1, at + 20, at + 22)
            change(made, client, f"RPUSH k1 {token}", at + 21)
            taken.append(token)
    for words in more:
        change(made, "c5", words, 900)
    return made


EVERYONE = ("c1", "c2", "c3", "c1", "c2")


def test_a_token_that_no_key_holds_any_more() -> None:
    assert lost(pooled(*EVERYONE, "c4!", more=("LREM k1 1 none",))) == 1
    assert lost(pooled(*EVERYONE, "c4!", more=("RPUSH another x",))) == 1
    assert lost(pooled(*EVERYONE, "c4!", "c1", "c2", more=("LREM k1 1 none",))) == 1


def test_a_token_of_another_lock_may_be_called_the_same() -> None:
    made = pooled(*EVERYONE, "c4!", more=("LREM k1 1 none", "RPUSH k2:free 2"))
    assert lost(made) == 0
    assert lost(made.op("c6", "acquire", "fail", 1, 700, 701, key="k2")) == 1


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (pooled(*EVERYONE, "c4", more=("LREM k1 1 none",)), "it came back"),
        (pooled(*EVERYONE, "c4!", more=("RPUSH k1 2",)), "another client put it back"),
        (pooled(*EVERYONE, "c4!", more=("HSET k1:taken 2 c4",)), "another key of the lock holds it"),
        (pooled(*EVERYONE, "c4!", more=("LREM k1 1 none", "RPUSH k1 3")), "a new token came"),
        (pooled("c1", "c4!", more=("LREM k1 1 none",)), "what was taken did not come back before"),
    ],
)
def test_no_token_is_lost(made: History, why: str) -> None:
    assert lost(made) == 0, why

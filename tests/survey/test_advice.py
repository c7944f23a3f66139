"""Which lock the survey's page advises to take."""

from __future__ import annotations

from harness.campaign.statistics import rate
from harness.survey.advice import Advice, advise
from harness.survey.promises import ENOUGH, PROMISES
from harness.survey.settle import Answer, Row, Settled
from harness.survey.subjects import library_of
from tests.survey import made

ON = "2026-11-24"
SIGNS: dict[str, Answer] = {"y": "kept", "n": "broken", "?": "unknown", "-": "inapplicable"}


def row(name: str, answers: str, tested: int = ENOUGH, runs: int = 40) -> Row:
    """`answers`: by promise, in the page's order, as in SIGNS; what is not named is kept. `tested`: in how many runs
    each promise of which it is not known was tested."""
    subject = made.subject(name)
    settled = tuple(
        Settled(promise, answer, "", rate(answer == "broken", tested if answer == "unknown" else 2 * ENOUGH))
        for promise, answer in zip(PROMISES, map(SIGNS.__getitem__, answers.ljust(len(PROMISES), "y")), strict=True)
    )
    return Row(subject, library_of(subject), settled, runs, runs, 0, {}, rate(0, 0))


def only(*rows: Row) -> Advice:
    (one,) = advise(rows, ON)
    return one


def taken(*rows: Row) -> str | None:
    chosen = only(*rows).row
    return chosen.subject.name if chosen else None


def test_the_one_with_true_leases_comes_first_then_the_fewest_promises_broken() -> None:
    assert taken(row("redlock-ng", "yynnnnnyy"), row("pottery", "y?yyyyyyy")) == "redlock-ng"
    assert taken(row("redlock-ng", "yyynnyyyy"), row("pottery", "yyyn?????")) == "pottery"
    assert taken(row("redlock-ng", "yyyy?????"), row("pottery", "yyyyy????")) == "pottery"


def test_none_is_taken_that_lets_two_in_or_may_or_grants_leases_that_are_not_true() -> None:
    advice = only(row("redlock-ng", "n"), row("pottery", "?"), row("pottery-async", "yn"), row("redlock-py", "y"))
    assert advice.row is None
    assert advice.lacks == (
        "redlock-ng: exclusive is broken; pottery: exclusive is not known; pottery-async: validity true is broken; "
        "redlock-py: unmaintained"
    )


def test_each_language_has_one_for_five_servers_and_one_for_a_single_one() -> None:
    every = [row("set-nx-px", "y"), row("redis-py-lock", "y"), row("redsync", "y"), row("redlock-ng", "y")]
    every.append(row("redlock-node", "y", runs=0))
    found = [(one.language_name, one.nodes, one.row and one.row.subject.name) for one in advise(every, ON)]
    assert found == [("Python", 5, "redlock-ng"), ("Python", 1, "redis-py-lock"), ("Go", 5, "redsync")]


def test_what_a_user_adds_answers_what_speaks_against_the_lock() -> None:
    assert only(row("redlock-ng", "yyyyynyyy")).add == "put a time limit of your own around each acquire"
    assert (
        only(row("redlock-ng", "y?yyyyyyy")).add
        == "count the lease from when you asked for it, not from when you got it"
    )
    assert not only(row("redlock-ng", "y?yyyyyyy", tested=ENOUGH - 1)).add, "too few runs speak against nothing"
    assert only(row("redlock-ng", "yy-yyyyyy")).add == "it extends no lease: leave before yours is over"
    assert not only(row("redis-semaphore", "yy-yyyyyy")).add, "it renews its leases"
    hung = only(row("redlock-ng", "yyyyyynny"))
    assert hung.add == "give your Redis client a socket timeout well below the TTL", "once for two promises"
    assert hung.lacks == "broken: works with a minority down, survives a hung node"
    assert not only(row("redis-py-lock", "yyyyyy--y")).add, "a single server has no minority"

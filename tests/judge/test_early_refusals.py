"""Acquires that are refused long before the time to wait is over. The lock is told to wait for 2 s."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.early_refusals import Figures, check
from harness.checkers.explained import explain
from harness.verdict import Answer, Verdict
from tests.golden import Golden
from tests.judge.histories import History


def tried(
    *,
    early: int = 9,
    after: float = 40,
    late: int = 0,
    waited: int = 5,
    of: float = 400,
    client: str = "c1",
    again: str | None = "SET k1 v NX",
    **config: Any,
) -> History:
    """Both have called before. c1 is refused so often `after` so many ms, and so often when it has waited for 2 s; c2
    is granted the lock so often when it has waited `of` so many ms. c1 asks twice, the second time `again`."""
    history = History(**({"wait_ms": 2_000, "ttl_ms": 500} | config)).watch("n1")
    for one in (client, "c2"):
        history.op(one, "acquire", "ok", 900, -20, -10).op(one, "release", "ok", 900, -9, -8)
    for number in range(early):
        at = 100 * number
        history.op(client, "acquire", "fail", number, at, at + after)
        for words, sent in (("SET k1 v NX", at + 1), (again, at + 3)):
            if words is not None:
                history.request(client, "n1", words, sent, sent + 1, reply="null", did=False)
    for number in range(late):
        history.op(client, "acquire", "fail", early + number, 10_000 + 3_000 * number, 12_000 + 3_000 * number)
    for number in range(waited):
        at, granted_ms = max(600, of + 100) * number, float(history.config.ttl_ms)
        history.op("c2", "acquire", "ok", number, at, at + of, granted_ms=granted_ms)
        history.op("c2", "release", "ok", number, at + of, at + of + 1)
    return history


def early(history: History) -> int:
    answer = check(history.recorded())
    assert isinstance(answer.figures, Figures)
    assert sum(finding.count for finding in answer.findings) == answer.figures.early
    return answer.figures.early


def test_a_lock_that_gives_up_at_the_first_setback(golden: Golden) -> None:
    run = tried(late=1).recorded()
    answer = check(run)
    assert answer.figures == Figures(10, 9, 40)
    golden("\n".join(row.text for row in answer.figures.rows()))
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("gave-up-early", "lock", "liveness", 9)
    golden(finding.text)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    golden(told.explanations[0].sentence)


def test_a_lock_that_lets_several_clients_in_is_not_judged() -> None:
    """A semaphore or a read-write lock may refuse some clients at once while it lets others in."""
    assert check(tried(workload="semaphore", permits=2).recorded()) == Answer()


def test_a_lock_that_was_not_told_to_wait_may_refuse_at_once() -> None:
    assert check(tried(wait_ms=0).recorded()) == Answer()


@pytest.mark.parametrize(
    ("how", "number"),
    [
        ({"early": 4}, 0),
        ({"after": 249}, 0),
        ({"after": 249, "of": 1_000}, 9),
        ({"after": 251, "of": 1_100}, 0),
        ({"after": 100, "of": 399}, 0),
        ({"after": 40, "of": 249}, 0),
        ({"after": 40, "of": 250}, 9),
        ({"waited": 4}, 0),
        ({"late": 10}, 0),
        ({"early": 245}, 245),
        ({"early": 246}, 0),
    ],
    ids=str,
)
def test_most_are_refused_much_sooner_than_the_lock_can_be_seen_to_wait(how: Any, number: int) -> None:
    assert early(tried(**how)) == number


def test_time_for_which_a_client_was_stopped_is_no_wait() -> None:
    history = tried(late=0)
    for number in range(5):
        history.fault(f"f{number}", 600 * number + 50, 600 * number + 300, nemesis="pause", paused_clients=("c2",))
    assert early(history) == 0


@pytest.mark.parametrize(
    ("hit", "number"),
    [
        ({"nodes": ("n1",)}, 0),
        ({"cut_links": (("c1", "n2"),)}, 0),
        ({"paused_clients": ("c1",)}, 0),
        ({"killed_clients": ("c3",)}, 9),
    ],
    ids=str,
)
def test_a_fault_may_have_ended_the_calls(hit: Any, number: int) -> None:
    history = tried(waited=0).fault("f1", 0, 900, **hit)
    for turn in range(5):
        history.op("c2", "acquire", "ok", turn, 2_000 + 600 * turn, 2_400 + 600 * turn)
        history.op("c2", "release", "ok", turn, 2_400 + 600 * turn, 2_401 + 600 * turn)
    assert early(history) == number


def test_a_call_that_its_user_cancelled_is_none() -> None:
    history = tried(early=4)
    for number in range(4, 9):
        history.op("c1", "acquire", "fail", number, 100 * number, 100 * number + 40, cancelled=True)
    assert early(history) == 0


def test_a_lock_may_refuse_what_another_task_of_its_process_has() -> None:
    history = tried(client="c1@1", tasks=2)
    assert early(history) == 9
    assert early(history.section("c1@2", 845, 880, number=77)) == 9
    assert early(history.section("c1@2", 5, 835, number=78)) == 0
    assert early(history.op("c1@2", "release", "ok", 79, 836, 840)) == 0


def test_a_lock_may_refuse_what_its_process_is_about_to_give_up() -> None:
    """Where a task of the process acquires and releases, another one is refused at once."""
    history = tried(client="c1@1", tasks=2)
    for number in range(9):
        at = 100 * number
        history.op("c1@2", "acquire", "ok", number, at - 5, at - 1).op(
            "c1@2", "release", "ok", number, at - 0.5, at + 3
        )
    assert early(history) == 0


def test_a_client_may_have_to_connect_at_its_first_call() -> None:
    history = tried(waited=4)
    assert early(history.op("c2", "acquire", "ok", 5, 5_000, 5_400, life=2)) == 0
    history.op("c2", "release", "ok", 5, 5_400, 5_401, life=2)
    assert early(history.op("c2", "acquire", "ok", 6, 6_000, 6_400, life=2)) == 9


@pytest.mark.parametrize(("answered", "number"), [("n1 n2", 0), ("n1 n2 n3", 9)])
def test_a_client_may_have_to_connect_after_a_fault(answered: str, number: int) -> None:
    """Each of its calls that waits is the first one after a node came back, and is answered at once by these."""
    history = tried(waited=0)
    for turn in range(5):
        at = 5_000 * turn + 2_000
        for node in answered.split():
            history.request("c2", node, "SET k1 w NX", at + 1, at + 2, reply="null", did=False)
        history.op("c2", "acquire", "ok", turn, at, at + 400).op("c2", "release", "ok", turn, at + 400, at + 401)
        history.fault(f"f{turn}", at - 300, at - 50, nodes=("n2",))
    assert early(history) == number


def test_a_lock_may_refuse_its_client_what_it_never_released() -> None:
    history = tried().op("c1", "acquire", "ok", 901, -6, -5)
    assert early(history) == 0
    assert early(history.op("c1", "release", "ok", 901, -4, -3)) == 9


@pytest.mark.parametrize(
    ("again", "number"),
    [("SET k1 w NX", 9), ("GET k1", 0), ("SET k2 v NX", 0), ("DEL k1", 0), (None, 0)],
)
def test_a_lock_may_refuse_at_its_first_answer(again: str | None, number: int) -> None:
    """Because its queue is full, say, or because the key lives for longer than the client would wait."""
    assert early(tried(again=again)) == number


def test_a_lock_that_refuses_others_at_once_is_found_all_the_same() -> None:
    history = tried(again=None)
    for at in range(2_000, 2_500, 100):
        history.op("c1", "acquire", "fail", at, at, at + 40)
        for sent in (at + 1, at + 3):
            history.request("c1", "n1", "SET k1 v NX", sent, sent + 1, reply="null", did=False)
    assert early(history) == 5


def test_a_request_that_another_task_may_have_sent_does_not_count() -> None:
    history = tried(client="c1@1", tasks=2)
    for row in history.requests:
        if row["from_client_ns"] % 10**7 > 2 * 10**6:
            row["task"] = None
    assert early(history) == 0

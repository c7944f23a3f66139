"""A lock that does not use its links is not tested by faults of links; a lock that does is never taken for one."""

from __future__ import annotations

import re

import pytest

from fencepost.history import ClientEnd
from harness.checkers.judge import judge
from harness.checkers.link_use import Around, Figures, check
from harness.verdict import Answer
from tests.judge.histories import History, ms

ALL_OF_C1 = {"cut_links": (("c1", "n1"), ("c1", "n2"))}


def worked(sections: int = 10, clients: tuple[str, ...] = ("c1", "c2"), **config: object) -> History:
    """Each client is granted as many sections, one after the other."""
    history = History(**config)
    for at in range(sections * len(clients)):
        client, number = clients[at % len(clients)], at // len(clients) + 1
        history.section(client, 10 * at, 10 * at + 5, number=number)
    return history


def judged(history: History) -> tuple[Answer, Figures]:
    answer = check(history.recorded())
    assert isinstance(answer.figures, Figures)
    return answer, answer.figures


def test_a_lock_that_sends_nothing_over_links_that_were_cut_is_not_tested() -> None:
    history = worked().fault("f1", 20, 200, **ALL_OF_C1).sent("c1", 0, 0, 0).sent("c2", 20, 20, 20)
    answer, figures = judged(history)
    (reason,) = answer.unknown
    assert [int(n) for n in re.findall(r"(?<![cn])\b\d+", reason)][:3] == [3, 10, 0]
    assert figures.around == (Around("c1", ("n1", "n2", "n3"), 10, 0),)
    assert (figures.links_hit, figures.missed) == (2, 2)
    assert judge(history.recorded()).verdict == "unknown"


def test_a_violation_stays_a_violation_though_its_lock_does_not_use_its_links() -> None:
    history = History().section("c1", 0, 50).section("c2", 10, 60).fault("f1", 20, 200, **ALL_OF_C1)
    verdict = judge(history.sent("c1", 0, 0, 0).sent("c2", 0, 0, 0).recorded())
    assert verdict.verdict == "violation"
    assert verdict.unknown


@pytest.mark.parametrize(("requests", "is_tested"), [(4, False), (5, True)])
def test_half_a_request_for_each_section_is_the_least(requests: int, is_tested: bool) -> None:
    history = worked().fault("f1", 20, 200, **ALL_OF_C1).sent("c1", requests, 0, 0).sent("c2", 20, 0, 0)
    assert (check(history.recorded()).unknown == ()) is is_tested


def test_a_lock_on_one_node_uses_one_link() -> None:
    history = worked().fault("f1", 20, 200, cut_links=(("c1", "n2"),)).sent("c1", 20, 0, 0).sent("c2", 20, 0, 0)
    answer, figures = judged(history)
    assert (answer.unknown, figures.around) == ((), ())


def test_without_a_fault_of_a_link_it_is_mentioned_and_no_more() -> None:
    history = worked().fault("f1", 20, 200, nodes=("n1",)).sent("c1", 0, 0, 0).sent("c2", 0, 0, 0)
    answer, figures = judged(history)
    assert answer.unknown == ()
    (row,) = figures.rows()
    assert re.search("c1 and c2 .* 3 nodes", row.text)


def test_faults_of_other_clients_links_were_met() -> None:
    history = worked().fault("f1", 20, 200, **ALL_OF_C1).sent("c1", 20, 20, 20).sent("c2", 0, 0, 0)
    answer, figures = judged(history)
    assert answer.unknown == ()
    assert [each.client for each in figures.around] == ["c2"]


def test_a_fault_of_the_link_to_the_resource_is_no_fault_of_the_lock() -> None:
    history = worked().fault("f1", 20, 200, cut_links=(("c1", "resource"),)).sent("c1", 0, 0, 0).sent("c2", 0, 0, 0)
    assert judged(history)[0].unknown == ()


def test_what_each_life_sent_as_it_started_is_not_the_lock_s() -> None:
    history = worked().fault("f1", 20, 200, **ALL_OF_C1).sent("c1", 10, 10, 10, warm_up=5).sent("c2", 9, 9, 9)
    assert judged(history)[0].unknown == ()
    history.ends += [ClientEnd("c1", 1, "killed", ms(50)), ClientEnd("c1", 3, "finished", ms(1000))]
    answer, figures = judged(history)
    assert answer.unknown
    assert figures.around == (Around("c1", ("n1", "n2", "n3"), 10, 0),)


def test_requests_that_name_a_key_are_the_lock_s_whatever_later_lives_sent_as_they_started() -> None:
    history = worked().fault("f1", 20, 200, **ALL_OF_C1).sent("c1", 10, 10, 10, warm_up=9, named=5).sent("c2", 9, 9, 9)
    history.ends += [ClientEnd("c1", 1, "killed", ms(50)), ClientEnd("c1", 3, "finished", ms(1000))]
    assert judged(history)[0].unknown == ()


def test_a_client_without_a_section_may_have_sent_nothing() -> None:
    history = worked(clients=("c2",)).fault("f1", 20, 200, **ALL_OF_C1).sent("c1", 0, 0, 0).sent("c2", 20, 20, 20)
    answer, figures = judged(history)
    assert (answer.unknown, figures.around) == ((), ())


def test_tasks_may_send_together_what_each_of_them_needs() -> None:
    tasks = tuple(f"c1@{number}" for number in (1, 2, 3, 4))
    history = worked(clients=tasks, tasks=4).fault("f1", 20, 200, **ALL_OF_C1).sent("c1", 5, 0, 0).sent("c2", 0, 0, 0)
    assert judged(history)[1].around == ()


def test_a_node_that_holds_values_of_a_client_that_sent_it_nothing_was_reached_in_another_way() -> None:
    history = worked(clients=("c1",)).fault("f1", 20, 90, cut_links=(("c1", "n2"),))
    history.sent("c1", 20, 0, 20).sent("c2", 0, 0, 0)
    history.watch("n1", "n2", "n3")
    for number in range(1, 11):
        at = 10 * (number - 1)
        history.sets("c1", f"v{number}", number=number)
        for node in ("n1", "n2", "n3"):
            history.seen(node, "set", at - 0.5, value=f"v{number}", ttl=100)
            history.seen(node, "deleted", at + 6)
    answer, figures = judged(history)
    assert figures.around == (Around("c1", ("n2",), 10, 0),)
    assert "c1 reaches n2 without its links" in answer.unknown[0]


def test_where_it_was_not_recorded_the_run_is_judged_as_before_and_says_so() -> None:
    history = worked().fault("f1", 20, 200, **ALL_OF_C1)
    answer, figures = judged(history)
    assert answer.unknown == ()
    (row,) = figures.rows()
    assert "not recorded" in row.text
    assert list(judged(worked())[1].rows()) == []

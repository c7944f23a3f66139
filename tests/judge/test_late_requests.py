"""Requests that kept a key of which their client had been told that it is done with it. TTL 900 ms, times in ms.

A process may stand still for 250 ms unnoticed, and the proxy for as long as nothing comes to it.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.late_requests import Figures, check
from harness.verdict import Answer
from tests.golden import Golden
from tests.judge.histories import History

NODES = ("n1", "n2", "n3")


def released(outcome: str = "ok", *, words: str = "SET k1 a NX PX 900", **config: Any) -> History:
    """c1 is inside from 20 to 100, and its release ends at 101. c2 is at work all the time, over the link to n3."""
    history = busy(History(ttl_ms=900, **config).watch(*NODES))
    history.op("c1", "acquire", "ok", 1, 10, 20, validity_ms=800.0).op("c1", "release", outcome, 1, 100, 101)
    history.request("c1", "n1", words, 12, 13).seen("n1", "set", 14, words.split()[2], since=11, ttl=900)
    history.request("c1", "n1", "DEL k1", 100.4, 100.6, reply="1")
    return history.seen("n1", "deleted", 100.5, since=100.4)


def refused(outcome: str = "fail", every: int = 100) -> History:
    """c1's acquire is refused at 101."""
    return busy(History(ttl_ms=900).watch(*NODES), every).op("c1", "acquire", outcome, 1, 10, 101)


def busy(history: History, every: int = 100) -> History:
    for at in range(0, 1500, every):
        history.request("c2", "n3", f"GET {at}", at, at + 1, did=False)
    return history


def sets(
    history: History, at: float = 500, words: str = "SET k1 a PX 900", *, value: str | None = "a", **more: Any
) -> History:
    """c1 sets the key on n1, which keeps it until it expires."""
    history.request(more.pop("client", "c1"), "n1", words, at, at + 1, **more)
    history.seen("n1", "set", at + 2, value, since=at - 1, ttl=900)
    return history.seen("n1", "expired", at + 901, since=at + 900)


def found(history: History) -> tuple[int, int]:
    answer = check(history.recorded())
    kinds = {"renewal-after-release": 0, "request-after-refusal": 0}
    for finding in answer.findings:
        assert (finding.blame, finding.breaks) == ("lock", "liveness")
        kinds[finding.kind] = finding.count
    assert isinstance(answer.figures, Figures)
    assert tuple(kinds.values()) == (answer.figures.after_releases, answer.figures.after_refusals)
    return answer.figures.after_releases, answer.figures.after_refusals


def test_a_key_that_is_set_anew_after_its_release(golden: Golden) -> None:
    answer = check(sets(released()).recorded())
    assert answer.figures == Figures(1, 0)
    golden(next(answer.figures.rows()).text)
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks) == ("renewal-after-release", "lock", "liveness")
    golden(finding.text)
    assert finding.examples == (
        {
            "how": "set",
            "client": "c1",
            "node": "n1",
            "key": "k1",
            "at_ms": 502.0,
            "sent_after_ms": pytest.approx(398.9),
            "command": "SET",
        },
    )


def test_a_key_that_a_refused_acquire_sets_when_it_is_over(golden: Golden) -> None:
    answer = check(sets(refused()).recorded())
    assert answer.figures == Figures(0, 1)
    golden(next(answer.figures.rows()).text)
    (finding,) = answer.findings
    golden(finding.text)
    assert found(sets(refused("info"))) == (0, 1)


def test_without_a_record_of_the_links_nothing_is_told() -> None:
    assert check(History().watch("n1").section("c1", 20, 50).recorded()) == Answer()
    assert check(busy(History().watch("n1").section("c1", 20, 50)).recorded()) == Answer()


def test_a_release_that_is_not_known_to_have_worked_tells_nobody_that_the_lock_is_free() -> None:
    assert found(sets(released("info"))) == (0, 0)


def test_a_renewal_of_a_holder_is_right() -> None:
    history = busy(History(ttl_ms=900).watch(*NODES)).section("c1", 20, 900, asked=10)
    history.request("c1", "n1", "SET k1 a NX PX 900", 12, 13).seen("n1", "set", 14, "a", since=11, ttl=900)
    assert found(sets(history)) == (0, 0)


def test_a_key_that_its_release_left_and_a_renewal_prolongs() -> None:
    history = busy(History(ttl_ms=900).watch(*NODES)).section("c1", 20, 100, asked=10)
    history.request("c1", "n1", "SET k1 a NX PX 900", 12, 13).seen("n1", "set", 14, "a", since=11, ttl=900)
    history.request("c1", "n1", "PEXPIRE k1 900", 500, 501, reply="1")
    assert found(history.seen("n1", "prolonged", 502, "a", since=499, ttl=900)) == (1, 0)


def test_a_key_that_a_refused_acquire_left_and_a_renewal_prolongs_until_it_expires() -> None:
    def prolonged() -> History:
        history = refused().request("c1", "n1", "SET k1 a NX PX 900", 12, 13)
        history.seen("n1", "set", 14, "a", since=11, ttl=900).request("c1", "n1", "PEXPIRE k1 900", 500, 501, reply="1")
        return history.seen("n1", "prolonged", 502, "a", since=499, ttl=900)

    assert found(prolonged().seen("n1", "expired", 1402, since=1401)) == (0, 1)
    assert found(prolonged()) == (0, 0), "it is not known what became of it"


def test_what_is_freed_again_keeps_nobody_out() -> None:
    history = refused().request("c1", "n1", "SET k1 a NX PX 900", 500, 501)
    history.seen("n1", "set", 502, "a", since=499, ttl=900).request("c1", "n1", "DEL k1", 503, 504, reply="1")
    assert found(history.seen("n1", "deleted", 505, since=502)) == (0, 0)


@pytest.mark.parametrize("history", [released, refused])
def test_what_was_sent_in_time_and_held_up_on_its_way_is_a_known_limit(history: Any) -> None:
    assert found(sets(history(), sent=50)) == (0, 0)


@pytest.mark.parametrize("history", [released, refused])
@pytest.mark.parametrize(("sent", "number"), [(350, 0), (351, 0), (351.1, 1)])
def test_a_process_may_stand_still_for_250_ms(history: Any, sent: float, number: int) -> None:
    assert sum(found(sets(history(), 400, sent=sent))) == number


@pytest.mark.parametrize("history", [released, refused])
def test_a_call_of_the_client_may_be_the_reason(history: Any) -> None:
    assert found(sets(history().op("c1", "acquire", "fail", 2, 450, 550))) == (0, 0)


@pytest.mark.parametrize("history", [released, refused])
def test_another_client_does_not_know(history: Any) -> None:
    assert found(sets(history(), client="c2")) == (0, 0)


@pytest.mark.parametrize(
    ("hit", "told"),
    [
        ({"paused_clients": ("c1",)}, (0, 0)),
        ({"killed_clients": ("c1",)}, (0, 0)),
        ({"paused_clients": ("c2",)}, (1, 1)),
        ({"cut_links": (("c1", "n1"),)}, (0, 0)),
        ({"cut_links": (("c2", "n1"),)}, (1, 1)),
        ({"cut_links": (("c1", "n2"),)}, (0, 1)),
        ({"nodes": ("n2",)}, (0, 1)),
    ],
)
def test_a_fault_may_be_the_reason(hit: dict[str, Any], told: tuple[int, int]) -> None:
    """Of a round of renewals that was under way, a fault of any node."""
    assert found(sets(released()).fault("f1", 150, 200, **hit)) == (told[0], 0)
    assert found(sets(refused()).fault("f1", 150, 200, **hit)) == (0, told[1])


@pytest.mark.parametrize(
    ("began", "healed", "number"), [(-200, -150, 1), (-200, -149, 0), (500, 600, 1), (499, 600, 0)]
)
def test_a_fault_at_another_time_is_none(began: float, healed: float, number: int) -> None:
    history = sets(refused(), sent=499.9).fault("f1", began, healed, cut_links=(("c1", "n1"),))
    assert found(history) == (0, number)


@pytest.mark.parametrize(("opened", "number"), [(351, 0), (351.1, 1)])
def test_what_came_over_a_connection_that_was_made_later_was_sent_later(opened: float, number: int) -> None:
    cut = {"cut_links": (("c1", "n1"),)}
    history = sets(refused(), connection=777).fault("f1", 150, 400, **cut)
    history.opened[777] = opened
    assert found(history) == (0, number)
    history = sets(released(), connection=777).fault("f1", 150, 400, **cut)
    history.opened[777] = opened
    assert found(history) == (0, 0), "a round that was under way may make a connection"


@pytest.mark.parametrize(
    ("since", "until", "number"), [(-200, -150, 1), (-200, -149, 0), (499.9, 600, 0), (500, 600, 1)]
)
def test_a_client_without_a_processor_sends_late(since: float, until: float, number: int) -> None:
    history = sets(refused())
    history.kept_waiting = {"c1@1": [(10**15 + round(since * 1e6), 10**15 + round(until * 1e6))], "c11": [(0, 10**16)]}
    assert found(history) == (0, number)


def test_a_proxy_without_a_processor_takes_what_it_is_sent_late() -> None:
    history = sets(refused())
    history.kept_waiting = {"proxy": [(10**15 + 400_000_000, 10**15 + 450_000_000)]}
    assert found(history) == (0, 0)


def test_a_proxy_that_stood_still_may_have_taken_it_late() -> None:
    history = sets(refused())
    history.requests = [row for row in history.requests if row["arguments"] != ["300"]]
    assert found(history) == (0, 0)
    assert found(sets(refused(every=125))) == (0, 1)
    assert found(sets(refused(every=126))) == (0, 0)


def test_a_value_that_two_calls_set_belongs_to_neither() -> None:
    history = released()
    history.op("c1", "acquire", "fail", 2, 200, 210).request("c1", "n2", "SET k1 a NX PX 900", 202, 203)
    assert found(sets(history.seen("n2", "set", 204, "a", since=201, ttl=900))) == (0, 0)


def test_a_value_that_could_not_be_read_is_the_refused_acquires() -> None:
    assert found(sets(refused(), value=None)) == (0, 1)
    assert found(sets(released(), value=None)) == (0, 0), "it may be anything"


def test_a_hash_that_changed_meanwhile_may_belong_to_another_section() -> None:
    history = busy(History(ttl_ms=900).watch(*NODES)).section("c1", 20, 100, asked=10)
    history.request("c1", "n1", "HSET k1 a 1", 12, 13)
    history.seen("n1", "set", 14, "a", since=11, ttl=900, is_hash=True)
    history.request("c2", "n1", "HSET k1 b 1", 50, 51).seen("n1", "set", 52, "a, b", since=49, ttl=900, is_hash=True)
    history.request("c1", "n1", "PEXPIRE k1 900", 500, 501, reply="1")
    assert found(history.seen("n1", "prolonged", 502, "b", since=499, ttl=900)) == (0, 0)


def test_semaphores_are_not_judged() -> None:
    history = sets(released(workload="semaphore", permits=2))
    assert check(history.recorded()) == Answer()


def test_a_lease_that_the_process_hands_to_its_next_section_is_kept() -> None:
    history = sets(released(tasks=2)).op("c1@2", "acquire", "ok", 1, 480, 490, validity_ms=100.0)
    assert found(history) == (0, 0)
    history = sets(refused()).op("c1", "acquire", "ok", 2, 1300, 1310, validity_ms=100.0)
    assert found(history) == (0, 0), "the next section finds what was set in the background"
    history = sets(released()).op("c1", "acquire", "ok", 2, 1300, 1310, validity_ms=100.0)
    assert found(history) == (1, 0), "it was set long before"
    for left, number in ((101, 0), (100.9, 1)):
        history = sets(released(tasks=2)).section("c1@2", 80, left, asked=70)
        assert found(history) == (number, 0)
    for entered, number in ((1401, 0), (1401.1, 1)):
        history = sets(refused()).op("c1", "acquire", "ok", 2, 1300, entered, validity_ms=100.0)
        assert found(history) == (0, number)
    history = sets(released(tasks=2)).op("c1@2", "acquire", "ok", 1, 480, 490, validity_ms=100.0, key="k2")
    assert found(history) == (1, 0)


def test_a_key_that_is_not_the_locks_own_does_not_matter() -> None:
    history = sets(refused().request("c1", "n1", "SET other a PX 900", 400, 401))
    history.seen("n1", "set", 402, "a", since=399, ttl=900, key="other")
    assert found(history.seen("n1", "expired", 1302, since=1301, key="other")) == (0, 1)


def test_a_request_that_frees_the_key_late_is_right() -> None:
    history = busy(History(ttl_ms=900).watch(*NODES)).section("c1", 20, 100, asked=10)
    history.request("c1", "n1", "SET k1 a NX PX 900", 12, 13).seen("n1", "set", 14, "a", since=11, ttl=900)
    history.request("c1", "n1", "DEL k1", 500, 501, reply="1").seen("n1", "deleted", 502, since=499)
    assert found(history) == (0, 0)


def test_the_longest_delay_is_told() -> None:
    history = sets(released()).request("c1", "n2", "SET k1 a PX 900", 700, 701)
    (finding,) = check(history.seen("n2", "set", 702, "a", since=699, ttl=900).recorded()).findings
    assert finding.count == 2
    assert "up to 599 ms after" in finding.text


def beside(*at: float, words: str = "SET k1 b NX PX 900", number: int = 7, told: float = 0.2) -> History:
    """c1 acquires again from 300 to 1,200 and asks over its own connection, while requests set its old value."""
    history = released().op("c1", "acquire", "fail", 2, 300, 1200)
    history.request("c1", "n1", words, 310, 311, reply="null", did=False)
    for place, when in enumerate(at):
        history.seen("n1", "prolonged" if place else "set", when + 0.1, "a", since=when - 0.2, ttl=900)
        history.request("c1", "n1", f"SET k1 a PX 90{place}", when, when + 0.1, connection=number, told=when + told)
    return history.seen("n1", "expired", 2_000, since=1_999)


def test_renewals_that_go_on_beside_the_next_call() -> None:
    assert found(beside(500, 800, 1100)) == (2, 0), "the first may have been under way when the release returned"


@pytest.mark.parametrize(("again", "number"), [(750.2, 0), (750.4, 1)])
def test_the_one_before_must_have_been_answered_for_250_ms(again: float, number: int) -> None:
    assert found(beside(500, again)) == (number, 0)


def test_without_an_answer_it_is_not_known_when_the_next_was_sent() -> None:
    assert found(beside(500, 1_000, told=600)) == (0, 0)


def test_what_goes_over_a_connection_of_the_call_is_the_calls() -> None:
    assert found(beside(500, 800, number=101)) == (0, 0)


@pytest.mark.parametrize("words", ["SET k1 a NX PX 900", "GET k2"])
def test_a_call_that_asks_for_nothing_else_may_use_the_old_value(words: str) -> None:
    assert found(beside(500, 800, words=words)) == (0, 0)


def refused_beside(*, first: str = "SET k1 a NX PX 900", again: float = 700, number: int = 7) -> History:
    """c1's acquire asks n1 and n2, and is refused at 101. Its next one asks from 300 to 1,200 over its own connection,
    while the lock sends the first one's request to n1."""
    history = refused().request("c1", "n2", "SET k1 a NX PX 900", 12, 13).seen("n2", "set", 12.5, "a", ttl=900)
    history.request("c1", "n2", "DEL k1", 90, 91, reply="1").seen("n2", "deleted", 90.5, since=90)
    history.request("c1", "n1", first, 12, None, reply=None, did=False)
    history.op("c1", "acquire", "fail", 2, 300, 1_200)
    history.request("c1", "n1", "SET k1 b NX PX 900", 310, 311, reply="null", did=False)
    return sets(history, again, "SET k1 a NX PX 900", connection=number)


def test_what_a_refused_acquire_asks_once_more_beside_the_next_one() -> None:
    assert found(refused_beside()) == (0, 1)
    assert found(refused_beside(number=101)) == (0, 0), "over a connection of the next one"
    assert found(refused_beside(first="GET k1")) == (0, 0), "it may have been under way since then"
    assert found(refused_beside(again=340)) == (0, 0), "too soon"

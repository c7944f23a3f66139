"""Calls of the lock that hang. TTL 400 ms: a call that says nothing has 2.4 s."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.history import ClientEnd
from harness.checkers.hung_calls import Figures, check
from tests.golden import Golden
from tests.judge.histories import History, ms


def releases(until: float, since: float = 100, f: str = "release", **config: Any) -> History:
    """c1 calls, and a request of its is answered at once."""
    history = History(**({"ttl_ms": 400, "nodes": 1} | config)).op("c1", f, "info", 1, since, until)
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(90_000), ms(95_000), ms(99_000)
    return history.request("c1", "n1", "DEL k1", since, since, sent=since, told=since, reply="1")


def longest(history: History, limit_ms: float | None = None) -> float | None:
    history.acquire_limit_ms = limit_ms
    answer: Any = check(history.recorded())
    assert bool(answer.findings) == (answer.figures.calls > 0) == bool(list(answer.figures.rows()))
    return answer.figures.longest_ms  # type: ignore[no-any-return]


def test_a_release_that_says_nothing_hung(golden: Golden) -> None:
    (finding,) = check(releases(5000).recorded()).findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("call-hung", "lock", "liveness", 1)
    golden(finding.text)
    assert finding.examples == (
        {"client": "c1", "call": "release", "at_ms": 100, "for_ms": 4900, "called_ms": 100, "returned": True},
    )
    assert check(releases(200).recorded()).figures == Figures(0, None, 2400)


@pytest.mark.parametrize("f", ["extend", "release", "held", "reenter", "leave"])
def test_any_call_counts_that_need_not_wait_for_others(f: str) -> None:
    assert longest(releases(2500, f=f)) == 2400
    assert longest(releases(2499, f=f)) is None


def test_an_acquire_counts_if_its_lock_says_how_long_it_may_take() -> None:
    assert longest(releases(9000, f="acquire")) is None
    assert longest(releases(4100, f="acquire"), limit_ms=2000) == 4000
    assert longest(releases(4099, f="acquire"), limit_ms=2000) is None
    assert longest(releases(9000, f="read"), limit_ms=2000) is None


def asks(history: History, *times: float, client: str = "c1") -> History:
    for at in times:
        history.request(client, "n1", "GET k1", at, at, did=False)
    return history


def test_a_call_that_asks_again_did_not_hang() -> None:
    assert longest(asks(releases(5000), 2400)) == pytest.approx(2599.9)
    assert longest(asks(releases(5000), 2400, 4700)) is None
    assert longest(asks(releases(5000), 2400, 4700, client="c2")) == 4900


def test_each_call_counts_once(golden: Golden) -> None:
    history = releases(9000).request("c1", "n1", "GET k1", 3000, 3000, did=False)
    assert check(history.recorded()).figures == Figures(1, pytest.approx(5999.9), 2400)
    history.op("c2", "release", "info", 1, 50, 4000)
    (finding,) = check(history.recorded()).findings
    assert (finding.count, [example["client"] for example in finding.examples]) == (2, ["c2", "c1"])
    golden(finding.text)


@pytest.mark.parametrize("hit", [{"cut_links": (("c1", "n1"),)}, {"nodes": ("n1",)}, {"paused_clients": ("c1",)}])
def test_not_while_a_fault_is_in_the_way(hit: Any) -> None:
    assert longest(releases(4000).fault("f", 2000, 2100, **hit)) is None
    assert longest(releases(9000).fault("f", 2000, 2100, **hit)) is not None


def test_faults_of_others_do_not_matter() -> None:
    assert longest(releases(4000).fault("f", 2000, 2100, paused_clients=("c2",))) == 3900


def test_not_while_its_request_is_in_the_proxy() -> None:
    assert longest(releases(5000).request("c1", "n1", "DEL k1", None, sent=100, did=False, reply=None)) is None


@pytest.mark.parametrize("how", ["killed", "cut-off"])
@pytest.mark.parametrize("under_way", ["releasing", "extending"])
def test_a_call_in_which_the_client_ended_counts(how: Any, under_way: str) -> None:
    def ended(at: float, since_ns: int | None = ms(100)) -> History:
        history = releases(101)
        history.ends.append(ClientEnd("c1", 1, how, ms(at), under_way, since_ns=since_ns))
        return history

    (finding,) = check(ended(2500).recorded()).findings
    assert (finding.examples[0]["returned"], finding.examples[0]["for_ms"]) == (False, 2400)
    assert longest(ended(2499)) is None
    assert longest(ended(9000, None)) is None  # an older record


@pytest.mark.parametrize(("under_way", "limit_ms"), [("inside", None), ("acquiring", None), (None, None)])
def test_a_client_that_ended_while_it_did_something_else(under_way: Any, limit_ms: float | None) -> None:
    history = releases(101)
    history.ends.append(ClientEnd("c1", 1, "killed", ms(9000), under_way, since_ns=ms(100)))
    assert longest(history, limit_ms) is None
    if under_way == "acquiring":
        assert longest(history, 500) == 8900


def test_without_the_record_of_the_links_nothing_is_told() -> None:
    history = releases(5000)
    history.not_recorded.add("n1")
    assert check(history.recorded()).figures is None
    history.requests.clear()
    assert check(history.recorded()).figures is None

"""When keys may have lived for another time than their lock asked for, and what is not held against the lock then."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers import key_lifetimes, liveness, orphans, starvation, uncontended_refusals
from harness.history.wrong_clocks import WrongClocks
from tests.judge.histories import History, ms


def wrong(healed: float | None, **off: float) -> WrongClocks:
    """n1's clock was wrong from 50 on; leases are for 100 ms."""
    history = History().fault("f1", 50, healed, wrong_clocks=("n1",), **off)
    return WrongClocks.of(history.faults, 100)


def touched(clocks: WrongClocks, from_ms: float, to_ms: float) -> bool:
    return clocks.touch("n1", ms(from_ms), ms(to_ms))


def test_from_when_the_clock_may_have_been_set_until_a_lease_after_it_was_right_again() -> None:
    clocks = wrong(200)
    assert not touched(clocks, 0, 49.999)
    assert touched(clocks, 0, 50)
    assert touched(clocks, 300, 900)
    assert not touched(clocks, 300.001, 900)
    assert not clocks.touch("n2", ms(0), ms(900))
    assert clocks.nodes(ms(0), ms(900)) == ("n1",)
    assert clocks.nodes(ms(0), ms(49)) == ()


def test_a_key_that_a_fast_clock_set_lives_on_by_what_the_clock_was_ahead() -> None:
    assert touched(wrong(200, clock_off_ms=70), 370, 900)
    assert not touched(wrong(200, clock_off_ms=70), 370.001, 900)
    assert touched(wrong(250, clock_rate_percent=30), 410, 900)
    assert not touched(wrong(250, clock_rate_percent=30), 410.001, 900)


def test_a_clock_that_was_never_set_right_is_wrong_for_ever() -> None:
    assert touched(wrong(None, clock_off_ms=70, clock_rate_percent=30), 10**7, 10**7)


def test_keys_that_were_stuck_on_a_node_with_a_wrong_clock_decide_nothing() -> None:
    def gaps(healed: float) -> list[tuple[str, str]]:
        history = History(ttl_ms=1000).watch("n1", "n2").section("c1", 10, 100)
        for at in range(200, 4000, 110):
            history.op("c2", "acquire", "fail", 1, at, at + 100)
        for node in ("n1", "n2"):
            history.seen(node, "set", 300, "left").seen(node, "deleted", 4000)
        history.fault("f1", -5000, healed, wrong_clocks=("n2",))
        return [(each.blame, each.text) for each in starvation.check(history.recorded()).findings]

    ((blame, text),) = gaps(-800)
    assert (blame, text.endswith("the clock of n2 had been wrong")) == ("undecided", True)
    ((blame, text),) = gaps(-801)
    assert blame == "lock"


@pytest.mark.parametrize(("healed", "found"), [(240, 0), (239.9, 1)])
def test_nobody_is_refused_alone_while_keys_may_live_longer(healed: float, found: int) -> None:
    history = History(clients=2).section("c1", 1, 2)
    for at in range(300, 400, 10):
        history.op("c1", "acquire", "fail", 2, at, at + 9)
    history.fault("f1", 3, healed - 1, wrong_clocks=("n1",), clock_off_ms=1)
    assert len(uncontended_refusals.check(history.recorded()).findings) == found


@pytest.mark.parametrize(("began", "found"), [(359, 0), (359.1, 1)])
def test_who_was_refused_alone_before_a_clock_went_wrong_was(began: float, found: int) -> None:
    history = History(clients=2).section("c1", 1, 2)
    for at in range(300, 400, 10):
        history.op("c1", "acquire", "fail", 2, at, at + 9)
    history.fault("f1", began, None, wrong_clocks=("n1",))
    assert len(uncontended_refusals.check(history.recorded()).findings) == found


@pytest.mark.parametrize(("off", "found"), [(0, 1), (10_000, 0)])
def test_nobody_recovers_before_keys_have_expired_that_a_clock_kept(off: float, found: int) -> None:
    history = History().section("c1", 10, 20).fault("f1", 50, 900, wrong_clocks=("n1",), clock_off_ms=off)
    history.op("c1", "acquire", "fail", 2, 1400, 1900)
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(1000), ms(2000), ms(2100)
    assert len(liveness.check(history.recorded()).findings) == found


@pytest.mark.parametrize(("began", "outlasts"), [(241.5, False), (242, True)])
def test_an_orphan_on_a_node_with_a_wrong_clock_is_not_held_against_the_lock(began: float, outlasts: bool) -> None:
    history = History().watch("n1").section("c1", 10, 40).sets("c1", "v1").seen("n1", "set", 9.8, "v1", ttl=90_000)
    history.fault("f1", began, None, wrong_clocks=("n1",))
    history.seen("n1", "deleted", 241.5)
    assert bool(orphans.check(history.recorded()).findings) is outlasts


@pytest.mark.parametrize(("began", "sections"), [(50, 0), (51, 1)])
def test_how_long_the_keys_of_a_node_with_a_wrong_clock_live_is_not_known(began: float, sections: int) -> None:
    nodes = ("n1", "n2", "n3")
    history = History().watch(*nodes).section("c1", 10, 50, asked=5, deadline=205).sets("c1", "v1")
    for node in nodes:
        history.seen(node, "set", 8, "v1", since=6, ttl=100, read=9)
    history.fault("f1", began, None, wrong_clocks=nodes)
    for node in nodes:
        history.seen(node, "blind", 900)
    figures: Any = key_lifetimes.check(history.recorded()).figures
    assert (figures.sections, figures.short) == (sections, sections)

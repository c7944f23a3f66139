"""When a majority was reachable, and when faults were active: equal to checking every point in time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fencepost.history import ClientEnd, FaultEvent
from harness.explain.words import out_of_order
from harness.history.fault_windows import (
    FOREVER_NS,
    GroupFacts,
    hitting_tasks,
    longest_windows,
    majority_windows,
    merged,
    windows,
)
from tests.judge.histories import START_NS, History

LAST = 12
moments = st.integers(0, LAST)
clients = ("c1", "c2")
Window = tuple[int, int]


def covered(windows: list[Window], half: int) -> bool:
    """Whether the time `half / 2` is in one of the closed windows."""
    return any(2 * began <= half <= 2 * done for began, done in windows)


@given(st.lists(st.tuples(moments, moments), max_size=5), moments, moments)
def test_merged_windows_cover_the_same_times_and_never_touch(windows: list[Window], start: int, end: int) -> None:
    found = merged(windows, start, end)
    for half in range(2 * LAST + 1):
        assert covered(found, half) == (2 * start <= half <= 2 * end and covered(windows, half))
    assert all(began <= done for began, done in found)
    assert all(before[1] < after[0] for before, after in pairwise(found))


def event(kind: str, name: str, began: int, done: int, **hit: tuple[object, ...]) -> FaultEvent:
    return FaultEvent(kind, name, "any", "it", began, done, True, "seen", **hit)  # type: ignore[arg-type]


def test_a_fault_is_active_from_the_start_of_its_injection_to_the_end_of_its_healing() -> None:
    late, early = event("injected", "f2", 5, 6), event("injected", "f1", 1, 2)
    healed = event("healed", "f2", 7, 9)
    assert longest_windows([late, early, healed]) == [(early, 1, FOREVER_NS), (late, 5, 9)]


def test_a_fault_that_somebody_ended_early_for_one_name_ends_earlier_for_that_one_alone() -> None:
    whole = event("injected", "f1", 1, 2, paused_clients=("c1", "c2"), nodes=("n1",), cut_links=(("c1", "n2"),))
    early = event("undone", "f1", 4, 5, paused_clients=("c2",))
    healed = event("healed", "f1", 8, 9)
    events = [whole, healed, early]
    found = {(w.paused_clients, w.nodes, w.cut_links): span for w, *span in longest_windows(events)}
    assert found == {(("c2",), (), ()): [1, 5], (("c1",), ("n1",), (("c1", "n2"),)): [1, 9]}
    assert {(w.event.paused_clients, w.from_ns, w.to_ns) for w in windows(events)} == {(("c2",), 2, 4), (("c1",), 2, 8)}


@pytest.mark.parametrize(
    "rest",
    [
        {"nodes": ("n1",)},
        {"paused_clients": ("c2",)},
        {"killed_clients": ("c2",)},
        {"cut_links": (("c1", "n2"),)},
        {"slow_links": (("c1", "n2"),)},
    ],
)
def test_whatever_else_a_fault_hit_that_somebody_ended_early_goes_on(rest: dict[str, Any]) -> None:
    paused = ("c1", *rest.get("paused_clients", ()))
    whole = event("injected", "f1", 1, 2, **rest | {"paused_clients": paused})
    events = [whole, event("undone", "f1", 4, 5, paused_clients=("c1",)), event("healed", "f1", 8, 9)]
    assert [span for _, *span in longest_windows(events)] == [[1, 5], [1, 9]]


def test_a_failure_that_was_over_when_it_was_noticed_has_a_window_without_length() -> None:
    """Its healing began, as far as anybody knows, before its beginning was certain."""
    (window,) = windows([event("injected", "f1", 1, 8), event("healed", "f1", 7, 9)])
    assert (window.from_ns, window.to_ns) == (8, 8)


def test_a_fault_that_somebody_ended_early_for_all_has_no_other_window() -> None:
    whole = event("injected", "f1", 1, 2, nodes=("n1", "n2"))
    early = [event("undone", "f1", 4, 5, nodes=("n2",)), event("undone", "f1", 6, 7, nodes=("n1",))]
    healed = event("healed", "f1", 8, 9)
    assert [(w.nodes, *span) for w, *span in longest_windows([whole, *early, healed])] == [
        (("n2",), 1, 5),
        (("n1",), 1, 7),
    ]


def some(mask: int, of: Sequence[object]) -> tuple[object, ...]:
    """The things whose bit is set."""
    return tuple(thing for place, thing in enumerate(of) if mask >> place & 1)


def fault(name: str, began: int, healed: int | None, nodes: int, cut: int, slow: int, who: int) -> list[FaultEvent]:
    """A fault's two events; the names that it hits are given as bits."""
    names = ("n1", "n2", "n3", "n4")
    links = [(client, node) for client in clients for node in names]
    hit = {
        "nodes": some(nodes, names),
        "cut_links": some(cut, links),
        "slow_links": some(slow, links),
        "paused_clients": some(who, clients),
        "killed_clients": some(who >> 2, clients),
    }
    injected = event("injected", name, began, began, **hit)
    return [injected] if healed is None else [injected, event("healed", name, began + healed, began + healed)]


few_nodes = st.sampled_from([0, 0, 1, 2, 4, 5, 9])
few_links = st.sampled_from([0, 0x03, 0x30, 0x77, 0x55, 0x13, 0xC1, 0x0F])
few_clients = st.sampled_from([0, 0, 0, 1, 2, 4, 8])
lengths = st.none() | st.integers(0, 6)
faults = st.lists(st.tuples(moments, lengths, few_nodes, few_links, few_links, few_clients), max_size=3).map(
    lambda drawn: [event for number, one in enumerate(drawn) for event in fault(f"f{number}", *one)]
)
ends = st.lists(
    st.builds(ClientEnd, st.sampled_from(clients), st.integers(1, 3), st.just("killed"), moments),
    max_size=3,
    unique_by=lambda end: (end.client, end.life),
)


@settings(max_examples=200)
@given(faults, ends, st.integers(1, 4), st.sampled_from([clients, clients[:1]]), moments, moments)
def test_a_majority_is_reachable_whenever_some_client_can_reach_one(
    injected: list[FaultEvent], ended: list[ClientEnd], size: int, there: Sequence[str], start: int, end: int
) -> None:
    nodes = [f"n{place}" for place in range(1, size + 1)]

    def reaches(client: str, at: float) -> bool:
        lives = sorted((one.life, one.at_ns) for one in ended if one.client == client)
        if lives and lives[-1][1] < at:
            return False
        force = [one for one, began, done in longest_windows(injected) if began < at < done]
        if any(client in (*one.paused_clients, *one.killed_clients) for one in force):
            return False
        lost = {node for one in force for node in nodes if node in one.nodes}
        lost |= {node for one in force for c, node in (*one.cut_links, *one.slow_links) if c == client}
        return len(set(nodes) - lost) * 2 > len(nodes)

    found = majority_windows(there, nodes, injected, ended, start, end)
    for at in range(LAST):
        good = start <= at < end and any(reaches(client, at + 0.5) for client in there)
        assert covered(found, 2 * at + 1) == good
    assert found == merged(found, start, end)


def test_an_injection_and_its_healing_are_one_window_and_a_fault_that_was_not_healed_has_no_end() -> None:
    history: History = History().fault("f2", 50, None, holds=False).fault("f1", 10, 30, gone=False)
    first, second = windows(history.recorded().faults)
    assert (first.event.fault, first.from_ns, first.to_ns) == ("f1", START_NS + 11_000_000, START_NS + 29_000_000)
    assert (first.took, first.gone, first.seen_healed) == (True, False, "seen")
    assert (second.event.fault, second.from_ns, second.to_ns) == ("f2", START_NS + 51_000_000, None)
    assert (second.took, second.gone, second.seen_healed) == (False, None, None)


def test_the_tasks_of_a_client_are_hit_with_it_and_a_replica_has_none() -> None:
    cut = (("c1", "n1"), ("n2", "n1"))
    planned = History(tasks=2).fault("f1", 10, 20, cut_links=cut, paused_clients=("c1",))
    event, _ = hitting_tasks(planned.faults, ("c1", "c2"), 2)
    assert event.cut_links == (("c1", "n1"), ("c1@1", "n1"), ("c1@2", "n1"), ("n2", "n1"))
    assert event.paused_clients == ("c1", "c1@1", "c1@2")


def test_a_process_and_its_links_are_told_once_however_many_tasks_it_has() -> None:
    hit = {"cut_links": (("c1", "n1"),), "paused_clients": ("c1",)}
    run = History(tasks=2).fault("f1", 10, 20, **hit).recorded()
    said = out_of_order(run, START_NS + 12_000_000, START_NS + 15_000_000)
    assert (said.count("c1"), said.count("1 link")) == (1, 1)


def test_a_group_is_out_of_reach_while_it_elects_a_leader_and_then_with_one_member_down() -> None:
    leader = event("injected", "f1", 100, 101, nodes=("n1",))
    leader = replace(leader, led_by="n1", elected="n2", elected_after_ms=20 / 1e6)
    follower = event("injected", "f2", 700, 701, nodes=("n2",))
    events = [leader, event("healed", "f1", 399, 400, nodes=("n1",)), follower]
    group = GroupFacts(50 / 1e6)
    within = (("c1",), ("n1", "n2", "n3"), events, (), 0, 1_000)
    assert majority_windows(*within, group=group) == [(0, 100), (150, 400), (450, 1_000)]
    slow = [replace(leader, elected_after_ms=200 / 1e6), *events[1:]]
    assert majority_windows(*within[:2], slow, *within[3:], group=group) == [(0, 100), (301, 400), (450, 1_000)]
    in_vain = [replace(leader, elected=None, elected_after_ms=None), *events[1:]]
    assert majority_windows(*within[:2], in_vain, *within[3:], group=group) == [(0, 100), (450, 1_000)]


def test_a_client_of_a_group_whose_leader_alone_serves_must_reach_every_member_that_is_up() -> None:
    """Any of them may lead; and where one does not hear another, two may take themselves for the leader."""
    events = [
        event("injected", "f1", 100, 101, cut_links=(("c1", "n3"),)),
        event("healed", "f1", 199, 200, cut_links=(("c1", "n3"),)),
        event("injected", "f2", 300, 301, nodes=("n2",)),
        event("healed", "f2", 399, 400, nodes=("n2",)),
        event("injected", "f3", 500, 501, cut_members=(("n2", "n3"),)),
        event("healed", "f3", 599, 600, cut_members=(("n2", "n3"),)),
    ]
    within = (("c1",), ("n1", "n2", "n3"), events, (), 0, 1_000)
    assert majority_windows(*within, group=GroupFacts(0)) == [(0, 1_000)]
    one = GroupFacts(0, only_leader_serves=True)
    assert majority_windows(*within, group=one) == [(0, 100), (200, 500), (600, 1_000)]

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.campaign.durations import bin_of, middle_ms, quantile_ms
from harness.campaign.example_timeline import moment_of
from harness.campaign.measure import measure
from harness.checkers.judge import judge
from tests.golden import Golden
from tests.judge.histories import History, ms


def figures_of(history: History, environment: dict[str, object] | None = None):  # type: ignore[no-untyped-def]
    run = history.recorded()
    return measure(run, judge(run), environment or {})


def two_overlaps_after_one_outage() -> History:
    history = History(nodes=3)
    history.fault("f1", 10, 60, nemesis="crash", how_down="kill", nodes=("n1",), keys_at_stake=("k1",))
    history.fault("f2", 300, 360, nemesis="crash", how_down="kill", nodes=("n1", "n2"), keys_at_stake=("k1",))
    history.fault("f3", 600, 660, nemesis="crash", how_down="kill", nodes=("n3",), keys_at_stake=())
    history.section("c1", 5, 90)
    history.section("c2", 30, 50).section("c2", 60, 80, number=2)
    history.section("c1", 420, 430, number=2)
    return history


def test_a_node_outage_counts_once_however_many_overlaps_follow_it() -> None:
    found = figures_of(two_overlaps_after_one_outage())
    assert found.overlaps["lock"] == 2
    assert (found.node_outages_hit, found.node_outages) == (1, 3)


def test_an_opportunity_is_a_node_outage_that_took_a_key_that_a_majority_held() -> None:
    found = figures_of(two_overlaps_after_one_outage())
    assert (found.opportunities_hit, found.opportunities) == (1, 2)


def test_what_the_lock_is_blamed_for_is_kept_with_the_moment_of_the_first() -> None:
    history = History(ttl_ms=110).section("c1", 5, 90).section("c2", 30, 50).section("c2", 60, 80, number=2)
    blamed = {item.kind: item.at_ms for item in figures_of(history).blamed}
    assert blamed == {"overlap": 30}
    assert figures_of(History(ttl_ms=110).section("c1", 5, 90).section("c2", 95, 99)).blamed == ()


def test_where_no_node_went_down_there_are_no_outages_and_opportunities_are_not_counted() -> None:
    history = History().fault("f1", 10, 60, nemesis="pause", nodes=("n1",))
    found = figures_of(history.section("c1", 5, 90))
    assert (found.node_outages, found.opportunities) == (0, None)


def test_availability_leaves_out_the_time_in_which_a_majority_was_down() -> None:
    found = figures_of(two_overlaps_after_one_outage())
    assert found.load_s == pytest.approx(1.0)
    assert found.reachable_s == pytest.approx(1.0 - 0.06)


def test_the_wait_after_a_majority_went_down_ends_with_the_next_grant() -> None:
    history = two_overlaps_after_one_outage()
    assert figures_of(history).majority_waits_ms == (pytest.approx(420 - 301),)
    history.section("c3", 302, 310, asked=300)
    assert figures_of(history).majority_waits_ms == (pytest.approx(420 - 301),), "it was asked for before"
    history.section("c3", 400, 410, asked=302, number=2)
    assert figures_of(history).majority_waits_ms == (pytest.approx(400 - 301),)


def test_the_cost_of_an_fsync_is_that_of_the_nodes_disk() -> None:
    environment: dict[str, object] = {"cluster": {"disks": {"fsync_ms": {"p50": 0.4, "p99": 2.0}}}}
    assert figures_of(two_overlaps_after_one_outage(), environment).fsync_ms == {"p50": 0.4, "p99": 2.0}
    assert figures_of(two_overlaps_after_one_outage()).fsync_ms is None


def test_durations_in_classes_are_known_to_within_two_and_a_half_percent() -> None:
    durations = np.array([0.02, 0.9, 1.0, 3.3, 47.0, 2500.0])
    assert middle_ms(bin_of(durations)) == pytest.approx(durations, rel=0.025)
    counts = {int(b): 1 for b in bin_of(durations)}
    assert quantile_ms(counts, 0.5) == pytest.approx(1.0, rel=0.025)
    assert quantile_ms(counts, 0.99) == pytest.approx(2500, rel=0.025)
    assert quantile_ms({}, 0.5) is None


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_quantile_of_durations_is_never_shorter(took_ms: list[float], one: float, another: float) -> None:
    counts = Counter(bin_of(np.array(took_ms)).tolist())
    low, high = (quantile_ms(counts, share) for share in sorted((one, another)))
    assert low is not None
    assert high is not None
    assert low <= high


def test_the_moment_that_is_kept_shows_the_outage_and_both_sections(golden: Golden) -> None:
    moment = moment_of(two_overlaps_after_one_outage().recorded())
    assert moment is not None
    golden(moment["text"])
    data = moment["data"]
    assert isinstance(data, dict)
    first, second, began, ended, blame = data["overlaps"][int(str(moment["show"])) - 1]
    assert blame == 0
    assert ended - began == 20_000
    starts = np.cumsum(data["sections"]["step"])
    assert starts[second] - starts[first] == 25_000
    assert ms(5) - starts[first] * 1000 == ms(30) - starts[second] * 1000


def test_a_run_without_a_violation_has_no_moment_to_show() -> None:
    assert moment_of(History().section("c1", 5, 90).recorded()) is None


def test_a_client_is_overtaken_by_every_grant_between_its_request_and_its_own_grant() -> None:
    history = History().section("c1", 10, 20).section("c2", 30, 40).section("c1", 50, 60, number=2)
    assert figures_of(history).overtaken == 0
    assert figures_of(history.section("c3", 70, 80, asked=5)).overtaken == 3
    assert figures_of(History()).overtaken is None


def test_a_moment_is_served_if_a_client_was_granted_a_lock_in_it() -> None:
    history = History().section("c1", 100, 600).section("c2", 760, 770).section("c1", 780, 790, number=2)
    found = figures_of(history.section("c2", 1010, 1020, number=2))
    assert (found.moments, found.moments_served) == (4, 2), "the last one came after the load"
    assert figures_of(History()).moments_served == 0


def test_a_wait_after_an_outage_ends_with_the_first_call_that_was_made_after_it_and_granted() -> None:
    history = History(nodes=3).fault("f1", 100, 200, nemesis="crash", how_down="kill", nodes=("n1",), keys_at_stake=())
    history.section("c1", 105, 110, asked=90)
    history.section("c2", 150, 160, asked=140)
    assert figures_of(history).outage_waits_ms == (pytest.approx(150 - 101),)


def test_a_wait_for_a_dead_holder_ends_with_the_next_grant_of_its_key_or_with_the_load() -> None:
    history = History().section("c1", 100, None).end("c1", "killed", 200)
    history.section("c2", 300, 310, key="k2", asked=290)
    (wait,) = figures_of(history).dead_holder_waits_ms
    assert wait >= 800, "no client had its key again"
    assert figures_of(history.section("c3", 450, 460)).dead_holder_waits_ms == (pytest.approx(250),)


def test_what_servers_take_is_added_up_over_the_servers() -> None:
    each = {"n1": {"memory_mib": 3.0, "disk_mib": 1.0}, "n2": {"memory_mib": 4.0, "disk_mib": 0.5}}
    found = figures_of(History(), {"cluster": {"footprint": each}})
    assert (found.memory_mib, found.disk_mib) == (7.0, 1.5)
    assert figures_of(History()).memory_mib is None

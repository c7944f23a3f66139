"""What failed although no fault had planned it, and what that means for everything else that is judged."""

from __future__ import annotations

import pytest

from fencepost.history import STARVATION
from harness.checkers import coverage, evidence, faults, liveness, phases, unplanned_failures
from harness.checkers.judge import judge
from tests.golden import Golden
from tests.judge.histories import History, ms


def told(history: History) -> list[str]:
    figures = unplanned_failures.check(history.recorded()).figures
    return [] if figures is None else [row.text for row in figures.rows()]


def test_where_everything_that_failed_was_planned_nothing_is_told() -> None:
    assert unplanned_failures.check(History().fault("f1", 10, 20, nodes=("n1",)).recorded()).figures is None


def test_failures_are_told_in_the_order_of_time_with_their_end_if_they_have_one(golden: Golden) -> None:
    history = History().unplanned("u2", 700, None, "n2 went down").unplanned("u1", 499, 601, "c1 was stopped")
    golden("\n".join(told(history)))


def test_what_was_over_before_the_load_began_disturbed_nobody() -> None:
    assert told(History().unplanned("u1", -500, 1, "the lock of c1 was stopped")) == [], "it was being healed at 0"
    history = (
        History().unplanned("u1", -500, 2, "the lock of c1 was stopped").unplanned("u2", -300, None, "n1 fell silent")
    )
    assert told(history)[0].startswith("2 failures")


@pytest.mark.parametrize(("failures", "end"), [(4, "0.035 s)"), (5, "; and 1 more"), (7, "; and 3 more")])
def test_many_failures_are_told_by_the_first_few_and_their_number(failures: int, end: str) -> None:
    history = History()
    for number in range(failures):
        history.unplanned(f"u{number}", number * 10, number * 10 + 6, "n1 fell silent")
    (text,) = told(history)
    assert text.startswith(f"{failures} failures")
    assert text.count("n1 fell silent") == 4
    assert text.endswith(end)


def test_a_client_that_got_no_processor_did_not_fail(golden: Golden) -> None:
    history = History().unplanned("u1", 500, 600, "c1 was not scheduled", fault_class=STARVATION)
    golden("\n".join(told(history)))
    figures = unplanned_failures.check(history.unplanned("u2", 700, 800, "n1 fell silent").recorded()).figures
    assert isinstance(figures, unplanned_failures.Figures)
    assert [one.what for one in figures.failures] == ["n1 fell silent"]
    assert [one.what for one in figures.starved] == ["c1 was not scheduled"]


def test_a_fault_that_somebody_ended_early_is_told(golden: Golden) -> None:
    history = History().fault("f1", 10, 90, paused_clients=("c1",)).undone("f1", 40, paused_clients=("c1",))
    golden("\n".join(told(history)))


def test_an_unplanned_failure_is_not_counted_among_the_faults_of_the_schedule() -> None:
    history = History().fault("f1", 10, 20, nodes=("n1",)).unplanned("u1", 30, None, nodes=("n2",))
    history.planned = 1
    figures = faults.check(history.recorded())
    assert (figures.figures.injected, figures.figures.healed) == (1, 1)
    assert figures.findings == ()


def test_what_failed_by_itself_was_not_tried() -> None:
    history = History().unplanned("u1", 30, None, nodes=("n2",))
    assert coverage.check(history.recorded()).figures is None
    met = coverage.check(history.fault("f1", 10, 20, nodes=("n1",)).recorded()).figures.met
    assert list(met) == ["partition, brief"]


def test_an_unplanned_failure_alone_does_not_count_as_a_fault_that_worked(golden: Golden) -> None:
    history = History().fault("f1", 10, 20, holds=False, nodes=("n1",)).unplanned("u1", 30, 40, nodes=("n2",))
    history.planned = 1
    golden("\n".join(evidence.check(history.recorded()).unknown))


def test_a_run_with_an_unplanned_failure_that_could_go_on_is_valid() -> None:
    history = History().section("c1", 10, 20).unplanned("u1", 30, None, nodes=("n2",))
    history.section("c2", 1010, 1020)
    assert judge(history.recorded()).verdict == "valid"


def test_time_with_an_unplanned_failure_is_not_calm() -> None:
    history = History().section("c1", 10, 20).unplanned("u1", 200, 300, nodes=("n2",))
    figures = phases.check(history.recorded()).figures
    assert figures.faults.seconds == pytest.approx(0.1)


def without_recovery(*down: str) -> list[str]:
    """What is found of a lock that nobody got for a second after the heal, with these nodes down since 500 ms."""
    history = History().section("c1", 10, 20).unplanned("u1", 500, None, nodes=down)
    history.op("c2", "acquire", "fail", 1, 1010, 2050)
    history.timeline.stop_ns += 10**9
    return [finding.kind for finding in liveness.check(history.recorded()).findings]


def test_a_missed_recovery_is_a_finding_only_with_a_majority_of_the_nodes_in_reach() -> None:
    assert without_recovery("n1") == ["no-recovery"]
    assert without_recovery("n1", "n2") == []


def computed_late(history: History) -> float:
    """The earliest deadline of a lease of 100 ms that was computed between two stamps at 250 and 251 ms."""
    stamps = {"computed_after_ns": ms(250), "computed_before_ns": ms(251)}
    history.op("c1", "acquire", "ok", 1, 90, 260, validity_ms=100, **stamps)
    (section,) = history.sections()
    return float(section["deadline_min"])


def test_a_pause_that_somebody_undid_is_not_taken_out_of_the_bounds_after_that() -> None:
    whole = History().fault("f1", 100, 300, paused_clients=("c1", "c2"))
    assert computed_late(whole) == pytest.approx(99 + 100)
    early = History().fault("f1", 100, 300, paused_clients=("c1", "c2")).undone("f1", 110, paused_clients=("c1",))
    assert computed_late(early) == pytest.approx(250 + 100)
    others = History().fault("f1", 100, 300, paused_clients=("c1", "c2")).undone("f1", 110, paused_clients=("c2",))
    assert computed_late(others) == pytest.approx(99 + 100)


def test_a_client_that_somebody_else_stopped_is_taken_out_of_the_bounds_as_by_a_fault() -> None:
    assert computed_late(History().unplanned("u1", 100, 240, paused_clients=("c1",))) == pytest.approx(99 + 100)
    assert computed_late(History().unplanned("u1", 100, 240, paused_clients=("c2",))) == pytest.approx(250 + 100)

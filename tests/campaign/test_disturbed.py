"""A cell whose runs were too disturbed for what they claim says so."""

from __future__ import annotations

import pytest

from harness.campaign.aggregate import summaries
from harness.campaign.document import TableField
from harness.campaign.export import cells_frame, runs_frame
from harness.campaign.folder import RunLine
from harness.campaign.matrices import matrices
from harness.campaign.of_a_run import disturbances
from harness.campaign.tables import details
from harness.checkers.disturbance import Figures, Late, LateFault
from tests.campaign.made import grid, line
from tests.campaign.test_report import forms

QUIET = Late(p99_ms=2, longest_ms=9, waited_percent=1)
BUSY = Late(p99_ms=180, longest_ms=400, waited_percent=60)


def machine(
    clients: Late | None = QUIET, harness: Late | None = QUIET, stolen: float = 0, late_ms: float | None = 4
) -> Figures:
    return Figures(clients, harness, stolen, None if late_ms is None else LateFault("f1", late_ms))


@pytest.mark.parametrize(
    ("busy", "why"),
    [
        (machine(), []),
        (machine(clients=None, harness=None, late_ms=None), []),
        (machine(clients=BUSY), ["scheduling delay of clients 180 ms (p99)"]),
        (machine(harness=BUSY), ["scheduling delay of the harness 180 ms (p99)"]),
        (machine(late_ms=100), ["a fault was injected 100 ms late"]),
        (machine(late_ms=99), []),
        (machine(stolen=7), ["a hypervisor took 7 % of the processors' time"]),
    ],
)
def test_a_delay_of_a_tenth_of_a_ttl_is_too_much(busy: Figures, why: list[str]) -> None:
    assert list(disturbances(busy, ttl_ms=1_000)) == why


def test_the_same_delay_is_little_for_a_long_lease() -> None:
    assert not list(disturbances(machine(clients=BUSY), ttl_ms=10_000))


def lines(disturbed: tuple[str, ...]) -> list[RunLine]:
    busy = machine(clients=BUSY if disturbed else QUIET)
    (first, *_), of = grid().cells, grid()
    return [
        line(cell, seed, machine=busy if cell == first else machine(), disturbed=disturbed if cell == first else ())
        for cell in of.cells
        for seed in (1, 2)
    ]


def test_a_cell_of_disturbed_runs_says_so_wherever_it_is_shown() -> None:
    why = ("scheduling delay of clients 180 ms (p99)",)
    first, *others = found = summaries(grid(), lines(why))
    fields = [field for table in matrices(grid().parts[0], found) for row in table.rows for field in row]
    notes = [field.note for field in fields if isinstance(field, TableField)]
    assert sum("2 of 2 runs too disturbed" in note for note in notes) == 1
    assert [text for name, text in details(first) if "disturbed" in name] == [f"2: {why[0]}"]
    assert not any("disturbed" in name for other in others for name, _ in details(other))
    assert "2 of 2 runs too disturbed" in forms(grid(), lines(why))["report.md"]


def test_undisturbed_runs_show_how_busy_the_machine_was_all_the_same() -> None:
    for summary in summaries(grid(), lines(())):
        late = "p99 2.0 ms in the worst run, longest 9.0 ms; CPU starvation up to 1 % of the time"
        assert ("Scheduling delay of clients", late) in details(summary)
        assert ("Delay of injected faults", "up to 4.0 ms") in details(summary)


def test_the_figures_are_columns_of_the_table_of_runs() -> None:
    made = lines(("why",))
    frame = runs_frame(made)
    assert list(frame["clients_p99_ms"]) == [180, 180, *[2] * 6]
    assert list(frame["fault_late_ms"]) == [4] * 8
    assert list(frame["disturbed"]) == ["why", "why", *[""] * 6]
    assert forms(grid(), made)["report.json"]
    assert len(cells_frame(summaries(grid(), made))) == 4

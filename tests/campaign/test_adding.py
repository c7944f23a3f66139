"""A figure says how it is measured, how runs add up to a configuration, and how it is shown."""

import csv
import io
from typing import Annotated

import msgspec
import pytest

from harness.campaign.adding import (
    Figure,
    add_up,
    columns_of,
    declared,
    largest,
    measured,
    median_by_name,
    rows_of,
    total_by_name,
    total_if_all_know,
    total_if_known,
)
from harness.campaign.aggregate import summaries
from harness.campaign.export import cells_frame
from harness.campaign.measure import Figures
from tests.campaign import made
from tests.campaign.test_measure import figures_of, two_overlaps_after_one_outage


class Farm(msgspec.Struct):
    """Figures that nothing else knows."""

    sheep: Annotated[int, Figure(lambda seen: seen["sheep"], "Sheep", "sheep")] = 0
    black_sheep: Annotated[int, Figure(lambda seen: seen["black"], "Black sheep", among="sheep")] = 0
    hours: Annotated[float, Figure(lambda _: 2.0)] = 0
    wool: Annotated[int, Figure(lambda _: 10, "Wool an hour", "wool_per_h", per="hours", text=str)] = 0
    oldest: Annotated[int | None, Figure(lambda _: 7, "Oldest", "oldest", largest)] = None


def test_a_declaration_is_all_that_a_figure_needs() -> None:
    one, two = (measured(Farm, {"sheep": number, "black": 1}) for number in (3, 5))
    both = add_up(Farm, [one, two, Farm(oldest=9)])
    assert dict(rows_of(both)) == {"Sheep": "8", "Black sheep": "2 of 8 sheep", "Wool an hour": "5.0", "Oldest": "9"}
    assert columns_of(both) == {"sheep": 8, "wool_per_h": 5.0, "oldest": 9}


def test_nothing_is_made_up_where_no_run_knows() -> None:
    none = add_up(Farm, [])
    assert columns_of(none) == {"sheep": 0, "wool_per_h": None, "oldest": None}
    assert dict(rows_of(none))["Wool an hour"] == "–"


@pytest.mark.parametrize(
    ("adds", "runs", "together"),
    [
        (total_if_known, [2, None, 3], 5),
        (total_if_known, [None], None),
        (total_if_all_know, [2, None, 3], None),
        (total_if_all_know, [2, 3], 5),
        (total_if_all_know, [], None),
        (largest, [2, None, 3], 3),
        (largest, [], None),
        (total_by_name, [{"a": 1}, {"a": 2, "b": 3}], {"a": 3, "b": 3}),
        (median_by_name, [{"p50": 1.0}, None, {"p50": 3.0}, {"p50": 9.0}], {"p50": 3.0}),
        (median_by_name, [None], None),
    ],
)
def test_each_way_to_add_up(adds, runs, together) -> None:  # type: ignore[no-untyped-def]
    assert adds(runs) == together


def test_every_figure_of_a_run_is_declared_and_those_of_one_run_alone_stay_as_they_are() -> None:
    assert list(declared(Figures)) == list(Figures.__struct_fields__)
    figures = figures_of(two_overlaps_after_one_outage())
    assert add_up(Figures, [figures]) == msgspec.structs.replace(figures, stakes=None)


def test_the_columns_of_a_cell_are_those_of_its_runs_together() -> None:
    lines = [made.line("none · clients 2", seed, lost=seed, longest_gap_ms=10.0 * seed) for seed in (1, 2)]
    text = str(cells_frame(summaries(made.grid(), lines)).to_csv(index=False))
    row = next(csv.DictReader(io.StringIO(text)))
    assert (row["lost_updates"], row["longest_gap_ms"], row["acquisitions_per_s"]) == ("3", "20.0", "9.0")

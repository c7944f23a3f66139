"""A campaign's headline: figures in sentences that were written before anything was measured."""

from __future__ import annotations

import re

import msgspec
import pytest

from fencepost.errors import UsageError
from harness.campaign import headline
from harness.campaign.aggregate import summaries
from harness.campaign.folder import RunLine
from harness.campaign.grid import Grid, Headline, Pool, check, load_grid
from harness.campaign.grids.fsync import GRID, QUICK
from tests.campaign import made
from tests.campaign.test_report import forms, page_of, text_of
from tests.golden import Golden

BARE = ("none · clients 2", "none · clients 4")
KEPT = ("aof-always · clients 2", "aof-always · clients 4")
SAYS = Headline(
    text="Without a log it was $bare. With one, $kept, at $speed times the speed.",
    rates={"bare": Pool("no <log>", BARE), "kept": Pool("a log", KEPT)},
    speeds={"speed": tuple(zip(BARE, KEPT, strict=True))},
)

IN_REACH = Headline(text="In reach for $reach.", availabilities={"reach": BARE})


def grid(says: Headline = SAYS) -> Grid:
    return msgspec.structs.replace(made.grid(), headline=says)


def said(lines: list[RunLine], says: Headline = SAYS) -> str:
    return headline.sentences(says, summaries(grid(says), lines))


def test_cells_are_counted_together_and_a_zero_has_its_bound(golden: Golden) -> None:
    lines = made.lines(grid())
    golden(said(lines))


def test_a_ratio_of_speeds_spans_the_pairs() -> None:
    speeds = dict(zip((*BARE, *KEPT), (100, 100, 50, 80), strict=True))
    lines = [made.line(cell, 1, grants=grants) for cell, grants in speeds.items()]
    assert "at 0.50 to 0.80 times" in said(lines)


def test_nothing_is_said_of_what_was_not_played(golden: Golden) -> None:
    golden(said([]))
    assert said([], IN_REACH) == "In reach for –."


def test_an_availability_spans_its_cells() -> None:
    lines = [made.line(cell, 1, reachable_s=reach, load_s=10.0) for cell, reach in zip(BARE, (3.3, 9.0), strict=True)]
    assert re.findall(r"\d+ %", said(lines, IN_REACH)) == ["33 %", "90 %"]
    assert re.findall(r"\d+ %", said(lines[:1], IN_REACH)) == ["33 %"]
    with pytest.raises(UsageError, match="names the cell 'unknown'"):
        check(grid(msgspec.structs.replace(IN_REACH, availabilities={"reach": ("unknown",)})))


def test_the_unit_is_the_finest_one_that_every_cell_counted() -> None:
    lines = [made.line(BARE[0], 1, hit=1), made.line(BARE[1], 1, opportunities=None)]
    ((_, unit, rate), _) = headline.rows(SAYS, summaries(grid(), lines))
    assert (unit, rate.events, rate.trials) == ("node outage", 1, 20)
    lines = [made.line(BARE[0], 1, hit=1), made.line(BARE[1], 1, opportunities=0)]
    ((_, unit, rate), _) = headline.rows(SAYS, summaries(grid(), lines))
    assert (unit, rate.events, rate.trials) == ("opportunity", 1, 8), "a cell without opportunities adds none"


def test_the_page_and_the_markdown_say_it_and_the_page_shows_every_pool() -> None:
    lines = made.lines(grid())
    page = page_of(grid(), lines)
    assert said(lines) in text_of(page)
    assert "no &lt;log&gt;</text>" in page
    assert "no <log>" not in page
    text = forms(grid(), lines)["report.md"]
    assert said(lines) in text
    assert "12 of 32 in 4 runs: 38 % (15 % to 76 %)" in text
    assert "In short" not in page_of(made.grid(), lines)


def test_the_markdown_compares_what_the_grid_asks_for_and_otherwise_everything() -> None:
    of = grid()
    asked = msgspec.structs.replace(of, parts=(msgspec.structs.replace(of.parts[0], pairs=((BARE[1], KEPT[0]),)),))
    for one, rows in ((of, 4), (asked, 1)):
        lines = made.lines(one)
        text = forms(one, lines)["report.md"]
        units = [line.split(" | ")[2] for line in text.splitlines() if line.count(" | ") > 2]
        assert units.count("opportunity") == rows


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (Headline(text="$nobody"), r"must have \$nobody"),
        (Headline(text="5 $ a day"), "without a name"),
        (Headline(text="", rates={"a": Pool("", ("missing",))}), "'missing'"),
        (Headline(text="", speeds={"a": ((BARE[0], "missing"),)}), "'missing'"),
        (Headline(text="$a", rates={"a": Pool("", BARE)}, speeds={"a": (BARE,)}), "among its rates or its speeds"),
    ],
)
def test_a_headline_that_cannot_be_written_is_refused(says: Headline, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check(grid(says))


@pytest.mark.parametrize("of", [GRID, QUICK], ids=lambda of: of.name)
def test_the_report_on_fsync_shows_every_cell_of_its_safety_part_once(of: Grid) -> None:
    assert of.headline is not None
    pooled = [cell for pool in of.headline.rates.values() for cell in pool.cells]
    assert sorted(pooled) == sorted(cell.name for cell in of.parts[0].cells)
    remedied = [of.at(cell) for name in ("delayed", "aof_always_power_cut") for cell in of.headline.rates[name].cells]
    kept = "what the servers keep"
    assert not [at for at in remedied if at[kept].startswith("aof") and at["went down by"] == "process crash"], (
        "an outage in which a server forgets nothing tries no remedy"
    )
    pairs = of.headline.speeds["speed"]
    assert len(pairs) == len([cell for cell in of.parts[1].cells if cell.at["what the servers keep"] == "none"])
    assert load_grid("fsync", quick=of is QUICK) == of

from __future__ import annotations

import csv
import io
import json
import re
from html import unescape
from html.parser import HTMLParser

import msgspec
import pytest

from fencepost.markdown import escaped
from harness.campaign import export, wording
from harness.campaign.adding import columns_of
from harness.campaign.aggregate import contrasts, summaries
from harness.campaign.example_timeline import moment_of
from harness.campaign.folder import RunLine
from harness.campaign.forms import forms_of
from harness.campaign.grid import Cell, Grid, Part
from harness.campaign.page import document_of
from harness.campaign.statistics import holm
from tests.campaign import made
from tests.campaign.test_measure import two_overlaps_after_one_outage

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>|\u2028'\"&"


def forms(grid: Grid, lines: list[RunLine], moments: dict[str, dict[str, object]] | None = None) -> dict[str, str]:
    """Every form of the report, by the name of its file."""
    made_of = forms_of(document_of(made.played(grid, lines, moments), summaries(grid, lines)))
    return {name: form if isinstance(form, str) else form.decode() for name, form in made_of.items()}


def page_of(grid: Grid, lines: list[RunLine], moments: dict[str, dict[str, object]] | None = None) -> str:
    return forms(grid, lines, moments)["index.html"]


def text_of(page: str) -> str:
    body = page[page.index("<main") : page.index("</main>")]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]


def test_a_cell_counts_its_runs_node_outages_and_opportunities_over_all_seeds() -> None:
    grid = made.grid()
    found = {s.cell.name: s for s in summaries(grid, made.lines(grid))}
    hit, spared = found["none · clients 2"], found["aof-always · clients 2"]
    assert hit.main_rate[0] == "opportunity"
    assert (hit.main_rate[1].events, hit.main_rate[1].trials) == (6, 16)
    assert (hit.violated["lock"].events, hit.violated["lock"].trials) == (2, 2)
    assert (spared.per_unit["node outage"].events, spared.per_unit["node outage"].trials) == (0, 20)
    assert spared.per_second == pytest.approx(9)
    assert columns_of(spared.total)["availability"] == pytest.approx(0.95)


def test_where_opportunities_were_not_counted_node_outages_are_the_unit_and_without_those_runs() -> None:
    grid = made.grid()
    uncounted = [made.line("none · clients 2", 1, opportunities=None)]
    assert summaries(grid, uncounted)[0].main_rate[0] == "node outage"
    calm = [made.line("none · clients 2", 1, opportunities=0, node_outages=0)]
    assert summaries(grid, calm)[0].main_rate[0] == "run"


def test_cells_are_compared_along_one_axis_at_a_time_with_its_first_value() -> None:
    grid = made.grid()
    part = grid.parts[0]
    found = contrasts(part, summaries(grid, made.lines(grid)))
    assert [(c.axis, c.first.name, c.second.name) for c in found] == [
        ("persistence", "none · clients 2", "aof-always · clients 2"),
        ("persistence", "none · clients 4", "aof-always · clients 4"),
        ("clients", "none · clients 2", "none · clients 4"),
        ("clients", "aof-always · clients 2", "aof-always · clients 4"),
    ]
    assert found[0].difference is not None
    assert found[0].difference.share == pytest.approx(-6 / 16)
    assert found[0].difference.p == pytest.approx(1 / 3), "two runs against two, however many their opportunities"
    assert found[0].p_paired == pytest.approx(1 / 2)


def test_p_values_by_seed_and_by_run_are_adjusted_together() -> None:
    grid = made.grid(seeds=10)
    found = contrasts(grid.parts[0], summaries(grid, made.lines(grid)))
    raw = [p for c in found if c.difference for p in (c.difference.p, c.p_paired)]
    assert len(raw) == 8
    assert [p for c in found for p in (c.p_holm, c.p_paired_holm)] == holm([p for p in raw if p is not None])
    assert found[0].difference is not None
    assert found[0].p_holm == pytest.approx(8 * found[0].difference.p)
    assert found[0].p_paired_holm == pytest.approx(6 * 2 / 2**10)


def test_the_speeds_of_two_cells_are_compared_by_seed() -> None:
    grid = made.grid()
    found = contrasts(grid.parts[0], summaries(grid, made.lines(grid)))
    assert found[0].speed == pytest.approx((1, 1, 1))


def test_two_cells_that_the_grid_wants_compared_stand_side_by_side() -> None:
    pair = ("none · clients 4", "aof-always · clients 2")
    grid = made.grid()
    grid = msgspec.structs.replace(grid, parts=(msgspec.structs.replace(grid.parts[0], pairs=(pair,)),))
    lines = made.lines(grid)
    assert [(c.first.name, c.second.name) for c in contrasts(grid.parts[0], summaries(grid, lines)) if not c.axis] == [
        pair
    ]
    assert "Compare " in text_of(page_of(grid, lines))
    assert "Compare " not in text_of(page_of(made.grid(), lines))


def test_runs_that_broke_off_are_named_and_not_counted() -> None:
    grid = made.grid()
    broken = RunLine(cell="none · clients 2", seed=1, folder="run-b", verdict="broke off", took_s=1, error="no disk")
    found = summaries(grid, [broken, made.line("none · clients 2", 2)])[0]
    assert found.broke_off == ("run-b",)
    assert found.violated["lock"].trials == 1


def test_a_run_whose_verdict_is_unknown_counts_in_no_rate() -> None:
    cell = "none · clients 2"
    unknown = msgspec.structs.replace(made.line(cell, 2), verdict="unknown")
    found = summaries(made.grid(), [made.line(cell, 1, hit=1), unknown])[0]
    assert (found.violated["lock"].events, found.violated["lock"].trials) == (1, 1)
    assert (found.main_rate[1].trials, found.main_rate[1].runs) == (8, 1)
    assert found.verdicts == {"violation": 1, "unknown": 1}


def test_the_page_answers_with_rates_and_every_zero_has_its_bound() -> None:
    grid = made.grid()
    text = text_of(page_of(grid, made.lines(grid)))
    assert "in 2 of 4 configurations: none · clients 2, none · clients 4." in text
    assert "6 of 16 in 2 runs 38 % (" in text
    zeros = re.findall(r"\b0 of [1-9][\d,]*(.{0,32})", text)
    rates = [after for after in zeros if not after.startswith((" acknowledged", " opportunities", " planned"))]
    assert len(rates) > 4
    assert all(re.match(r"( in \d+ runs)?:? at most ", after) for after in rates), rates
    assert wording.METHOD in unescape(text)
    assert escaped(wording.METHOD) in forms(grid, made.lines(grid))["report.md"]


@pytest.mark.parametrize(
    ("axes", "told"),
    [((), "30 s of load in each run, the lock redlock"), (("duration=8s,26s",), "8 s to 26 s of load in each run")],
)
def test_it_says_how_long_the_load_of_a_run_was(axes: tuple[str, ...], told: str) -> None:
    grid = made.grid(*axes)
    assert told in text_of(page_of(grid, []))


def test_every_number_names_its_runs_and_the_command_that_repeats_it() -> None:
    grid = made.grid()
    written = forms(grid, made.lines(grid))
    for form in (written["index.html"], written["report.md"]):
        assert "fencepost test --cluster=process --lock=redlock --persistence=none --clients=4 --seed=1" in form
        assert "run-aof-always · clients 4-2" in form


def test_what_stayed_behind_is_told_where_nodes_were_watched() -> None:
    grid = made.grid("lock=redlock,pottery", seeds=2)
    left = {"orphans": 13, "orphan_longest_ms": 990.0, "overruns": 1, "unfounded": 2}
    clean = {"orphans": 0, "orphan_longest_ms": 0.0, "unfounded": 0}
    lines = [made.line("pottery", 1, **left), made.line("pottery", 2, **clean), made.line("redlock", 1, **clean)]
    said = "13 keys", "up to 990 ms, 1 acquire took too long, 2 sections not backed by a majority"
    text = text_of(page_of(grid, lines))
    assert "Orphaned keys" in text
    assert f"redlock 0 keys pottery {' '.join(said)}" in text
    told = forms(grid, lines)["report.md"]
    assert f"| pottery | {'<br>'.join(said)} |" in told
    assert "Orphaned keys" not in text_of(page_of(grid, [made.line("pottery", 1)]))


def test_a_campaign_that_has_just_begun_says_so() -> None:
    grid = made.grid()
    text = text_of(page_of(grid, []))
    assert "This campaign is not finished" in text
    assert "0 of 8 runs" in text


def test_the_word_safe_never_appears() -> None:
    grid = made.grid()
    assert not re.search(r"\bsafe", page_of(grid, made.lines(grid)), re.IGNORECASE)


def test_hostile_names_are_text_everywhere_and_nothing_is_loaded_from_anywhere() -> None:
    def named(name: str) -> tuple[Grid, list[RunLine], str]:
        cells = (
            Cell(name, {"lock": "redlock"}, {name: name, "clients": "2"}),
            Cell("b", {}, {name: "b", "clients": "2"}),
        )
        part = Part(title=name, text=name, cells=cells, seeds=1)
        cost = Part(title=name, kind="cost", cells=(Cell(f"c{name}", {}, {name: name, "clients": "1"}),), seeds=1)
        grid = Grid(name="g", title=name, question=name, introduction=(name,), parts=(part, cost))
        lines = [made.line(cell, 1, hit=1) for cell in grid.cells]
        lines = [msgspec.structs.replace(line, folder=name, revision=name) for line in lines]
        moment = moment_of(two_overlaps_after_one_outage().recorded())
        assert moment is not None
        moments = {name: {**moment, "cell": name, "folder": name, "text": name, "seed": 1}}
        return grid, lines, page_of(grid, lines, moments)

    grid, lines, page = named(HOSTILE)
    hostile, plain = Tags(page), Tags(named("plain")[2])
    assert hostile.names.count("script") == plain.names.count("script") == 2
    assert "img" not in hostile.names
    assert not any(name.startswith("on") for name in hostile.attributes)
    assert not {"src", "href"} & set(hostile.attributes)
    assert not re.search(r"https?:|url\(|@import", page)
    assert "default-src 'none'" in page
    text = forms(grid, lines)["report.md"]
    assert not re.search(r"^\|.*<(?!br>)", text, re.MULTILINE)


def test_the_timeline_of_a_violation_is_on_the_page_with_its_words() -> None:
    grid = made.grid()
    moment = moment_of(two_overlaps_after_one_outage().recorded())
    assert moment is not None
    moments = {"none · clients 2": {**moment, "cell": "none · clients 2", "folder": "run-7", "seed": 1}}
    page = page_of(grid, made.lines(grid), moments)
    data = re.search(r'<script type="application/json" id="moment0">(.*?)</script>', page, re.DOTALL)
    assert data
    assert len(json.loads(data[1])["overlaps"]) == 2
    assert 'data-timeline="moment0" data-show="' in page
    assert "c2 was granted k1 too" in page


def test_the_tables_to_compute_with_agree_with_the_page() -> None:
    grid = made.grid()
    lines = made.lines(grid)
    found = summaries(grid, lines)
    cells = list(csv.DictReader(io.StringIO(export.cells_frame(found).to_csv(index=False))))
    assert [row["cell"] for row in cells] == list(grid.cells)
    assert (cells[0]["opportunities_hit"], cells[0]["opportunities_hit_of"]) == ("6", "16")
    assert float(cells[2]["runs_with_overlap_lock_high"]) == pytest.approx(found[2].violated["lock"].high)
    runs = list(csv.DictReader(io.StringIO(export.runs_frame(lines).to_csv(index=False))))
    assert [(row["cell"], row["seed"]) for row in runs] == [(line.cell, str(line.seed)) for line in lines]
    document = json.loads(forms(grid, lines)["report.json"])
    assert document["finished"] == 8
    assert len(document["comparisons"]) == 4
    assert document["comparisons"][0]["p_paired_holm"] == contrasts(grid.parts[0], found)[0].p_paired_holm
    assert document["cells"][0]["folders"] == ["run-none · clients 2-1", "run-none · clients 2-2"]


def test_what_a_checker_adds_up_over_runs_is_shown_for_each_configuration() -> None:
    grid = made.grid()
    lines = [made.line("none · clients 2", seed, totals={"sheep": 3}) for seed in (1, 2)]
    found = summaries(grid, lines)
    assert found[0].total.totals == {"sheep": 6}
    assert "sheep 6" in text_of(page_of(grid, lines))
    assert export.cells_frame(found)["sheep"].iloc[0] == 6
    assert export.runs_frame(lines)["sheep"].tolist() == [3, 3]

"""Edges: what is played on both sides, what is counted, and what the page shows of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.campaign.folder import Campaign, CampaignFolder, RunLine
from harness.campaign.measure import Figures
from harness.campaign.study import read_played, write_document
from harness.claims.claim import Claim
from harness.claims.edges import EDGES, VALIDITY_TTLS, Edge, seen_of
from harness.claims.grid import LEAST_LOADS, chosen, claims_grid, edges_of
from harness.claims.page import document_of
from harness.claims.session import settle_all
from harness.claims.table import CLAIMS
from harness.options import parse_run
from workloads.base import LockSettings
from workloads.locks.redlock import Redlock

ALL = pytest.mark.parametrize("edge", EDGES.values(), ids=EDGES)


def figures(sections: int, lock: int = 0, client: int = 0, outages: int = 0, hit: int = 0) -> Figures:
    return Figures(
        sections=sections,
        overlaps={"lock": lock, "client": client, "undecided": 0},
        node_outages=outages,
        node_outages_hit=hit,
        load_s=4,
        grants=sections,
        reachable_s=4,
        acquire={},
    )


def line(edge: Edge, point: float, seed: int, shown: Figures | None, verdict: str = "valid") -> RunLine:
    return RunLine(cell=edge.cell(point), seed=seed, folder="run", verdict=verdict, took_s=4, figures=shown)


@ALL
def test_an_edge_has_points_on_both_sides_and_belongs_to_a_claim(edge: Edge) -> None:
    for points in (edge.points, edge.coarse):
        assert list(points) == sorted(set(points))
        assert {edge.is_safe(point) for point in points} == {True, False}
    assert [claim.name for claim in CLAIMS if claim.edge == edge.name]
    for point in edge.points:
        parse_run([f"--{name}={value}" for name, value in edge.options(point).items()])


def test_every_edge_that_a_claim_names_exists() -> None:
    assert {claim.edge for claim in CLAIMS} - {""} == EDGES.keys()


def test_the_predicted_edges_are_what_the_reference_lock_allows_for() -> None:
    ttl_ms = 1_000
    promised_ms = ttl_ms - Redlock([], LockSettings()).drift_ms(ttl_ms)
    assert VALIDITY_TTLS * ttl_ms == pytest.approx(promised_ms)
    fast = 1 + EDGES["drift"].predicted / 100
    assert ttl_ms / fast == pytest.approx(promised_ms, abs=0.1), "there keys expire when the validity is over"


def test_a_side_is_safe_up_to_the_edge_itself() -> None:
    assert EDGES["restart-delay"].is_safe(1)
    assert not EDGES["restart-delay"].is_safe(0.9)
    assert EDGES["hold"].is_safe(0.95)
    assert not EDGES["hold"].is_safe(1)


def test_what_happened_is_counted_among_how_often_it_could_have() -> None:
    drift, restart, hold = (EDGES[name] for name in ("drift", "restart-delay", "hold"))
    shown = figures(10, lock=3, client=4, outages=5, hit=2)
    assert (drift.counts(shown), restart.counts(shown), hold.counts(shown)) == ((3, 10), (2, 5), (7, 10))
    assert drift.counts(figures(2, lock=3)) == (2, 2), "a pair a section at most"


def test_points_add_up_over_their_runs_and_what_is_unknown_or_missing_counts_nothing() -> None:
    edge = EDGES["drift"]
    lines = [
        line(edge, 0.5, 1, figures(10)),
        line(edge, 0.5, 2, figures(20)),
        line(edge, 2, 1, figures(10, lock=8), "violation"),
        line(edge, 2, 2, figures(10, lock=9), "unknown"),
    ]
    seen = seen_of(edge, lines, 2, coarse=True)
    assert [(at, rate.events, rate.trials) for at, rate in seen.rates.items()][:3] == [
        (0.5, 0, 30),
        (1, 0, 0),
        (2, 8, 10),
    ]
    assert seen.missing == 2 * (len(edge.coarse) - 2)
    assert (seen.pooled(safe=True).events, seen.pooled(safe=True).trials) == (0, 30)
    assert (seen.pooled(safe=False).events, seen.pooled(safe=False).trials) == (8, 10)


def test_a_quick_form_plays_fewer_points_and_each_as_often_as_a_script() -> None:
    claims = chosen(["clock-drift"])
    (edge,) = edges_of(claims)

    def swept(repeats: int) -> dict[str, int]:
        cells = claims_grid(claims, repeats, None).cells
        return {name: part.seeds for name, (part, _) in cells.items() if name.startswith(edge.name + " ")}

    assert swept(3) == {edge.cell(point): 3 for point in edge.coarse}
    assert swept(LEAST_LOADS) == {edge.cell(point): LEAST_LOADS for point in edge.points}


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The page of one claim, all of whose sweep is there, and none of its scripts."""
    claims: tuple[Claim, ...] = chosen(["clock-drift"])
    (edge,) = edges_of(claims)
    grid = claims_grid(claims, 1, "process")
    campaign = Campaign(grid=grid, revision="1a2b3c", command="fencepost claims", machine={"cores": 2})
    folder = CampaignFolder.claim(tmp_path / "report", campaign)
    for point in edge.coarse:
        folder.append(line(edge, point, 1, figures(40, lock=0 if edge.is_safe(point) else 30)))
    write_document(document_of(read_played(folder, {}), settle_all(claims, 1, folder.lines())), folder.path)
    folder.close()
    return folder.path


def test_the_page_shows_the_rates_with_their_intervals_and_the_predicted_edge(page: Path) -> None:
    html = (page / "index.html").read_text()
    edge = EDGES["drift"]
    picture = html.partition('aria-label="Rates on both sides of the edge drift"')[2].partition("</svg>")[0]
    assert picture.count("<circle") == len(edge.coarse)
    assert picture.count('<circle class="zero"') == sum(map(edge.is_safe, edge.coarse))
    assert picture.count('class="mark"') == 1
    (drawn,) = [float(part.partition('"')[0]) for part in picture.partition('class="mark" x1="')[2:] if part]
    circles = [float(part.partition('"')[0]) for part in picture.split('cx="')[1:]]
    safe = [edge.is_safe(point) for point in edge.coarse]
    assert [at < drawn for at in circles] == safe, "the line is between what is safe and what is not"
    assert "in 0 of 80 sections in 2 runs, at most 85 % of runs; on the other side in 90 of 120 sections in 3" in html
    assert "fencepost test --cluster=process" in html


def test_the_other_forms_have_the_same_figures(page: Path) -> None:
    markdown = (page / "claims.md").read_text()
    assert "0 of 80 sections in" in markdown
    (claim,) = json.loads((page / "claims.json").read_bytes())["claims"]
    assert claim["edge"]["predicted"] == EDGES["drift"].predicted
    assert [point["events"] for point in claim["edge"]["points"]] == [0, 0, 30, 30, 30]

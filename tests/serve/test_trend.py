"""The trend of a run: the runs of the same settings over their dates, as charts and as a table, in a real browser."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.serve.live_run import LiveRun
from tests.serve.served import a_run, serving
from tools.chromium import Chromium

pytestmark = pytest.mark.needs("chromium")
ROWS = "[...document.querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell => cell.innerText))"


def a_night(place: Path, day: int, *, overlaps: bool = False, **settings: object) -> str:
    """A judged run of that day; returns its name."""
    with LiveRun(place, **settings) as run:
        run.begin()
        run.section("c1", 100, 900)
        run.section("c2", 500 if overlaps else 1_000, 1_200)
        run.end()
    path = run.folder.path
    return path.rename(path.with_name(f"202611{day:02}T010000.000000Z-{path.name.partition('-')[2]}")).name


def test_a_trend_shows_the_nights_of_the_same_settings(tmp_path: Path) -> None:
    first = a_night(tmp_path, 1, seed=1)
    a_night(tmp_path, 2, seed=2, overlaps=True)
    a_night(tmp_path, 3, seed=3)
    a_night(tmp_path, 4, seed=4, ttl_ms=2000)
    a_run(tmp_path / "runs", 5, lock="redlock")
    with serving(tmp_path) as served, Chromium() as browser:
        page = browser.page(width=400)
        page.open(f"{served.address}runs/{quote(first)}/?tab=files")
        page.click(".bar nav a:last-child")
        page.wait_for("location.pathname.endsWith('/trend') && document.readyState === 'complete'", within_s=20)
        rows = page.evaluate(ROWS)
        assert [row[:2] for row in rows] == [[f"2026-11-0{day} 01:00", str(day)] for day in (3, 2, 1)]
        assert [row[2] for row in rows] == ["unknown", "violation", "unknown"]
        assert rows[1][3] != "0", "findings that blame the lock"
        assert rows[0][4:] == [rows[2][4], "1.0 ms", "1.0 ms"]
        for figure in range(4):
            dots = f"[...document.querySelectorAll('figure')[{figure}].querySelectorAll('circle')]"
            assert page.evaluate(f"{dots}.map(dot => dot.className.baseVal)") == ["zero", "hit", "zero"]
            places = page.evaluate(f"{dots}.map(dot => dot.cx.baseVal.value)")
            assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.2), "a day each"
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert page.complaints() == []
        page.click("tbody tr:nth-child(2) a")
        page.wait_for("document.title.startsWith('VIOLATION')", within_s=20)


def test_a_run_that_was_not_judged_has_no_trend(tmp_path: Path) -> None:
    path = a_run(tmp_path / "runs", 1)
    (path / "config.json").write_text("{")
    with serving(tmp_path) as served:
        assert "nothing to compare" in served.page(f"runs/{quote(path.name)}/trend")


def test_the_most_severe_come_first_and_two_are_compared_by_finding_figure_and_setting(tmp_path: Path) -> None:
    a_night(tmp_path, 1, seed=1, overlaps=True)
    a_night(tmp_path, 2, seed=2, ttl_ms=2000)
    names = "[...document.querySelectorAll('tbody tr')].map(row => row.querySelector('.word').innerText)"
    with serving(tmp_path) as served, Chromium() as browser:
        page = browser.page(width=1400)
        page.open(served.address)
        assert page.evaluate(names) == ["unknown", "violation"]
        page.evaluate("document.querySelector('[name=sort]').value = 'most severe'")
        page.click("form[method=get] button")
        page.wait_for("document.body.innerText.includes('2 runs, most severe first')", within_s=20)
        assert page.evaluate(names) == ["violation", "unknown"]
        for number in (1, 2):
            page.click(f"tbody tr:nth-child({number}) [name=run]")
        page.click("table + p button")
        page.wait_for("location.pathname.endsWith('/two') && document.readyState === 'complete'", within_s=20)
        rows = page.evaluate(ROWS)
        assert [each[1:] for each in rows if each[0] == "overlap (lock)"] == [["1", "0"]]
        assert [each[1:] for each in rows if each[0] == "ttl"] == [["1s", "2s"]]
        sections = next(each for each in rows if each[0] == "Sections")
        assert sections[1].startswith("2 ")
        assert sections[2].startswith("2 ")
        assert "{" not in page.text(), "words, no JSON"
        assert page.complaints() == []

"""The space-time diagram on a page in a real browser: what the pointer shows, what zooms, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.checkers.judge import judge
from harness.explain.explanation import Explained
from harness.explain.space_time import Album
from harness.report.judged import Judged
from harness.report.page import render_page
from harness.store.run_folder import RunFolder
from tests.explain.pictures import Links, explained, recorded
from tests.explain.test_space_time import taken_away
from tests.judge.histories import History
from tools.chromium import Chromium, Page

pytestmark = pytest.mark.needs("chromium")
HOSTILE = '<img src="x" onerror="document.title = `obeyed`"><script>document.title = "obeyed"</script>'
SVG = "document.querySelector('[data-picture] svg')"
TIP = "document.querySelector('[data-picture] .tip')"
VIEW = f"{SVG}.viewBox.baseVal.width"


def page_of(history: History, links: Links, folder: Path) -> str:
    run = recorded(history, links)
    verdict = judge(run)
    finding = next(found for found in verdict.findings if found.kind == "overlap")
    album = Album(run, RunFolder(folder), links.wire())
    return render_page(
        Judged(run, verdict, {}, explained=(Explained(finding, (explained(run, finding),)),), album=album)
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Chromium, tmp_path: Path) -> Page:
    """The picture, and a request whose arguments are markup."""
    history, links = taken_away()
    links.asked("c3", "n1", "DEL k1", 0, 15, 15.1, 15.2, 15.3)
    links.rows[-1]["arguments"] = [HOSTILE]
    (tmp_path / "report.html").write_text(page_of(history, links, tmp_path))
    page = browser.page(width=1240)
    page.open((tmp_path / "report.html").as_uri())
    return page


def point_at(page: Page, number: int) -> str:
    """What is shown for the request of this number when the pointer is on it."""
    page.evaluate(
        f"{SVG}.querySelectorAll('.request')[{number}].querySelector('.touch')"
        ".dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: 300, clientY: 300 }))"
    )
    return str(page.evaluate(f"{TIP}.hidden ? '' : {TIP}.innerText"))


def test_the_pointer_shows_the_request(page: Page) -> None:
    assert page.evaluate(f"{TIP}.hidden")
    assert point_at(page, 0).startswith("c1 to n1: SET k1 NX PX 100\nsent +8.00 ms, passed on to n1 +8.01 ms")
    assert "deletes c1's key" in point_at(page, 4)
    assert page.evaluate(f"{SVG}.querySelectorAll('g > title').length") == 0, "one tip is enough"
    assert page.complaints() == []


def test_what_a_request_says_is_no_markup(page: Page) -> None:
    assert "<img src=" in point_at(page, 3)
    assert page.evaluate("document.title") != "obeyed"
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.complaints() == []


def test_buttons_zoom_in_and_out_and_back(page: Page) -> None:
    whole = page.evaluate(VIEW)
    page.click("[data-zoom=in]")
    assert page.evaluate(VIEW) == pytest.approx(whole / 2, rel=0.01)
    page.click("[data-zoom=in]")
    page.click("[data-zoom=out]")
    assert page.evaluate(VIEW) == pytest.approx(whole / 2, rel=0.01)
    for _ in range(9):
        page.click("[data-zoom=in]")
    assert page.evaluate(VIEW) >= whole / 13
    page.click("[data-zoom=whole]")
    assert page.evaluate(VIEW) == whole
    assert page.complaints() == []


def test_a_telephone_shows_the_picture_in_its_own_size_to_be_moved(browser: Chromium, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(page_of(*taken_away(), tmp_path))
    page = browser.page(width=390, dark=True)
    page.open((tmp_path / "report.html").as_uri())
    assert page.evaluate(f"{SVG}.getBoundingClientRect().width === {SVG}.viewBox.baseVal.width")
    assert page.evaluate("document.querySelector('[data-picture] .stage').scrollLeft = 200") == 200
    page.wait_for("document.querySelector('[data-picture] .stage').scrollLeft === 200")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(f"getComputedStyle({SVG}.querySelector('.back')).fill") == "rgb(27, 31, 36)"

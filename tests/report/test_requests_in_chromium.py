"""The requests in the timeline of a page, in a real browser: they appear when it is zoomed in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.explain.test_space_time import taken_away
from tests.report.test_space_time_in_chromium import HOSTILE, page_of
from tools.chromium import Chromium, Page

pytestmark = pytest.mark.needs("chromium")
SAYS = "document.querySelector('.asked summary').textContent"
TOLD = "[...document.querySelectorAll('.asked li')].map(each => each.textContent)"
CANVAS = "document.querySelector('[data-timeline] canvas')"
TIP = "document.querySelector('[data-timeline] .tip')"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history, links = taken_away()
    links.asked("c3", "n2", "DEL k1", ..., 15, 15.1)
    links.asked("c3", "n3", "PTTL k1", 5, 50, 50.1, 1180, 1180.1)
    links.asked("c3", "n1", "DEL k1", 0, 22, 22.1, 22.2, 22.3)
    links.rows[-1]["arguments"] = [HOSTILE]
    for at in range(500):
        links.asked("c1", "n1", "GET k1", None, 1000 + at / 10, 1000.01 + at / 10)
    path = tmp_path_factory.mktemp("page")
    (path / "report.html").write_text(page_of(history, links, path))
    return path / "report.html"


@pytest.fixture
def page(file: Path) -> Iterator[Page]:
    with Chromium() as browser:
        page = browser.page(width=1400)
        page.open(file.as_uri())
        yield page


def zoom_in(page: Page) -> None:
    """With the key that the canvas tells of."""
    before = page.evaluate("document.querySelector('.where').textContent")
    page.evaluate(f"{CANVAS}.dispatchEvent(new KeyboardEvent('keydown', {{ key: '+' }}))")
    page.wait_for(f"document.querySelector('.where').textContent !== {before!r}", within_s=10)


def test_zooming_in_shows_which_client_asked_which_node_what(page: Page) -> None:
    assert "zoom in" in page.evaluate(SAYS), "there are too many"
    assert page.evaluate(TOLD) == []
    page.evaluate("location.hash = '0.005-0.045'")
    page.wait_for(f"{SAYS}.includes('11 requests')", within_s=10)
    told = page.evaluate(TOLD)
    assert told[0] == "c1 asked n1: SET k1 NX PX 100; sent 0.0080 s, answered OK after 30 µs"
    assert "c3 asked n2: DEL k1; sent 0.0150 s, reached n2, never answered" in told
    for count in (8, 7):
        zoom_in(page)
        assert page.evaluate(SAYS) == f"{count} requests in view"
    assert {text.split()[0] for text in page.evaluate(TOLD)} == {"c2", "c3"}, "those of the window alone"
    page.evaluate("location.hash = '1.1-1.15'")
    page.wait_for(f"{TOLD}.join().startsWith('c3 asked n3: PTTL k1; sent 0.0500 s')", within_s=10)
    assert page.evaluate("document.title") != "obeyed"
    assert page.evaluate("document.querySelectorAll('.asked img').length") == 0
    assert page.complaints() == []


def test_requests_are_drawn_and_the_pointer_shows_one(page: Page) -> None:
    """In the row of its client, where nothing else is drawn."""
    page.evaluate("location.hash = '0.0149-0.0153'")
    page.wait_for(f"{SAYS}.includes('1 request in view')", within_s=10)
    found = page.evaluate(
        f"(() => {{ const box = {CANVAS}.getBoundingClientRect(), tips = [];"
        "for (let y = 40; y < box.height - 30; y += 2) {"
        f"{CANVAS}.dispatchEvent(new PointerEvent('pointermove', {{ clientX: box.left + 450, clientY: box.top + y }}));"
        f"if (!{TIP}.hidden) tips.push({TIP}.innerText); }} return tips; }})()"
    )
    assert any("c3 asked n2: DEL k1" in text for text in found)
    assert page.complaints() == []

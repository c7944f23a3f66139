"""Each published page in a real browser: its timelines are drawn, and it fits a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.chromium import Chromium

pytestmark = pytest.mark.needs("chromium")
RESULTS = Path(__file__, "../../../results").resolve()
PAGES = sorted(RESULTS.rglob("index.html"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


@pytest.mark.parametrize("file", PAGES, ids=lambda file: str(file.parent.relative_to(RESULTS)))
def test_a_published_page_draws_all_its_timelines_and_fits_a_phone(browser: Chromium, file: Path) -> None:
    page = browser.page(width=400)
    page.open(file.as_uri())
    assert page.complaints() == []
    assert (
        page.evaluate("[...document.querySelectorAll('[data-timeline] .where')].filter(each => !each.textContent)")
        == []
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 400

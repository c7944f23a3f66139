"""The page of a run in a real browser: walking through its findings, going to the moment of one, zooming, a phone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from synthetic import Made, make_run

from harness.report.judged import Judged
from harness.report.page import render_page
from harness.verdict import Finding
from tools.chromium import Chromium, Page

pytestmark = pytest.mark.needs("chromium")
WHERE = "document.querySelector('.where').textContent"
HOSTILE = '<img src="x" onerror="document.title = `obeyed`">'
LATE = Finding(
    "late-grant",
    "lock",
    f"2 grants came late {HOSTILE}",
    count=2,
    examples=(
        {"client": "c2", "nodes": ("n1 overwritten",), "at_ms": 4_000.0, "for_ms": 100.0},
        {"client": "c3", "at_ms": 9_000.0},
    ),
)
UNTIMED = Finding("no-time", "client", "nothing says when")


def run_with(*findings: Finding) -> Made:
    made = make_run(lock_overlaps=2)
    return replace(made, verdict=msgspec.structs.replace(made.verdict, findings=findings))


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = run_with(LATE, UNTIMED, Finding("overlap", "client", "another", at_ms=12_000.0))
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(
        render_page(Judged(made.recorded, made.verdict, made.environment, replay="fencepost test --seed 7"))
    )
    return path


@pytest.fixture
def page(browser: Chromium, file: Path) -> Page:
    page = browser.page(width=1400)
    page.open(file.as_uri())
    return page


def shown_s(page: Page) -> tuple[float, float]:
    """The seconds that the timeline shows."""
    first, second = page.evaluate(WHERE).partition(" · ")[0].split(" to ")
    return float(first.removesuffix(" s")), float(second.removesuffix(" s"))


def test_buttons_walk_through_the_moments_of_all_findings_and_around(page: Page) -> None:
    told = []
    for _ in range(4):
        before = page.evaluate(WHERE)
        page.click("[data-do=next]")
        page.wait_for(f"{WHERE} !== {before!r}")
        told.append(page.evaluate(WHERE))
    assert "finding 1 of 3, example 1 of 2: 2 grants came late" in told[0]
    assert "finding 1 of 3, example 2 of 2" in told[1]
    assert "finding 3 of 3: another" in told[2], "one that tells no time has no moment"
    assert told[3] == told[0]
    page.click("[data-do=previous]")
    page.wait_for(f"{WHERE}.includes('finding 3 of 3')")
    assert page.complaints() == []


def test_each_finding_with_a_moment_has_a_button_that_shows_it(page: Page) -> None:
    buttons = "[...document.querySelectorAll('article.finding > p:first-child [data-moment]')]"
    assert page.evaluate(f"{buttons}.length") == 3, "the first one on the first screen too"
    page.evaluate(f"{buttons}[2].click()")
    page.wait_for(f"{WHERE}.includes('finding 3 of 3')")
    begin, end = shown_s(page)
    assert begin < 12.0 < end
    assert end - begin < 2.0
    assert page.evaluate("document.activeElement.tagName") == "CANVAS", "the keyboard goes on from there"
    assert page.complaints() == []


def test_the_address_names_a_finding(browser: Chromium, file: Path) -> None:
    page = browser.page()
    page.open(file.as_uri() + "#finding-3")
    page.wait_for(f"{WHERE}.includes('finding 3 of 3')")


def test_the_timeline_zooms_and_shows_all_again(page: Page) -> None:
    begin, end = shown_s(page)
    before = page.evaluate(WHERE)
    page.click("[data-timeline] [data-do=in]")
    page.wait_for(f"{WHERE} !== {before!r}")
    nearer = shown_s(page)
    assert nearer[1] - nearer[0] == pytest.approx((end - begin) / 2, rel=0.01)
    page.click("[data-timeline] [data-do=whole]")
    page.wait_for(f"{WHERE} === {before!r}")


def test_the_first_screen_answers(page: Page) -> None:
    """What happened, the cause, what it cost and how to repeat it, without scrolling."""
    for text in ("VIOLATION", "Cause", "What it cost", "Reproduce"):
        heading = f"[...document.querySelectorAll('h2, .word')].find(e => e.textContent === {text!r})"
        top = page.evaluate(f"{heading}.getBoundingClientRect().top")
        assert 0 <= top < page.height, text
    assert page.evaluate("document.querySelectorAll('details.part[open]').length") == 0


def test_what_a_finding_says_is_no_markup_in_the_timeline(page: Page) -> None:
    page.click("[data-do=next]")
    page.wait_for(f"{WHERE}.includes('<img')")
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.evaluate("document.title") != "obeyed"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_fits_a_phone(dark: bool, browser: Chromium, file: Path) -> None:
    page = browser.page(width=400, height=800, dark=dark)
    page.open(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    brightness = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(brightness) < 80) == dark

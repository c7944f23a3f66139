"""The pages of `fencepost serve` in a real browser: what is clicked, typed and seen, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from harness.store.run_folder import RunFolder
from tests.serve.live_run import LiveRun
from tests.serve.served import Served, a_run, serving
from tools.chromium import Chromium, Page

pytestmark = pytest.mark.needs("chromium")
HOSTILE = '<img src="x" onerror="document.title = `obeyed`"><script>document.title = "obeyed"</script>'
CHOSEN = "[...document.querySelectorAll('tbody a')].map(link => link.textContent)"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("chromium")
    a_run(place / "runs", 1, lock="redlock")
    mine = a_run(place / "runs", 2, lock_command="node lock.mjs", name="mine", nemesis="crash")
    (mine / "report.html").write_text("<script>try { top.document.title = `obeyed` } catch {}</script>")
    hostile = place / "runs" / ("20260101T000000.000000Z-" + HOSTILE.replace("/", ""))
    hostile.mkdir()
    (hostile / "config.json").write_text("{")
    return place


@pytest.fixture(scope="module")
def served(place: Path) -> Iterator[Served]:
    with serving(place) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Chromium) -> Page:
    return browser.page()


def tab_to(page: Page, what: str) -> None:
    """Press Tab until that has the focus."""
    for _ in range(40):
        if page.evaluate(f"Boolean(document.activeElement.matches({what!r}))"):
            return
        page.press("Tab")
    raise AssertionError(f"the keyboard does not get to {what}")


def test_the_list_is_searched_by_keyboard_alone(page: Page, served: Served) -> None:
    page.open(served.address)
    assert len(page.evaluate(CHOSEN)) == 3
    tab_to(page, "[name=text]")
    page.type("MINE")
    page.press("Enter")
    page.wait_for("location.search.includes('text=MINE') && document.readyState === 'complete'")
    assert page.evaluate(CHOSEN) == ["mine, crash, fenced-counter"]
    tab_to(page, "tbody a")
    page.press("Enter")
    page.wait_for("location.pathname.includes('/runs/') && document.readyState === 'complete'")
    assert "mine under crash" in page.text()
    assert page.complaints() == []


def test_two_runs_are_chosen_with_the_space_bar_and_shown_side_by_side(page: Page, served: Served) -> None:
    page.open(f"{served.address}?verdict=unknown")
    tab_to(page, "tr:nth-child(1) [name=run]")
    page.press("Space")
    tab_to(page, "tr:nth-child(2) [name=run]")
    page.press("Space")
    assert page.evaluate("document.querySelectorAll('[name=run]:checked').length") == 2
    page.click("table + p button")
    page.wait_for("location.pathname.endsWith('/two') && document.readyState === 'complete'")
    assert "Different settings" in page.text()
    assert page.complaints() == []


def test_hostile_names_are_text(page: Page, served: Served) -> None:
    for path in ("", f"?text={quote(HOSTILE)}", f"?lock={quote(HOSTILE)}"):
        page.open(served.address + path)
        assert page.evaluate("document.title") == "fencepost: 3 runs"
        assert page.evaluate("document.querySelectorAll('img, script').length") == 0


def test_a_live_page_follows_a_run_to_its_end(page: Page, served: Served, place: Path) -> None:
    with LiveRun(place, seed=7) as run:
        page.open(f"{served.address}runs/{quote(run.folder.name)}/live")
        page.wait_for("document.body.innerText.includes('are starting')")
        run.begin()
        run.section("c1", 100, 900)
        run.fault("injected", HOSTILE, 1_000)
        page.wait_for("document.querySelector('[data-text=sections]').textContent === '1'")
        page.wait_for("document.querySelector('[data-rows=faults] li')")
        assert page.evaluate("document.querySelector('[data-rows=faults] span').textContent") == HOSTILE
        assert page.evaluate("document.querySelectorAll('svg .bar, svg .fault').length") >= 2
        run.section("c2", 500, 1_000)
        page.wait_for("document.querySelector('[data-rows=findings] .blame-lock')")
        run.end()
        page.wait_for("!document.querySelector('[data-end]').hidden")
    assert "VIOLATION" in page.evaluate("document.querySelector('[data-end]').innerText")
    assert page.evaluate("document.title") == "redlock-ng under none: live"
    assert page.complaints() == []
    tab_to(page, "[data-end] a")
    page.press("Enter")
    page.wait_for("location.pathname.endsWith('/') && document.readyState === 'complete'")
    assert "VIOLATION" in page.text()


def names(page: Page) -> list[str]:
    return [str(text).partition(",")[0] for text in page.evaluate(CHOSEN)]


def test_the_list_is_sorted_by_lock(page: Page, tmp_path: Path) -> None:
    a_run(tmp_path / "runs", 1, lock="redlock")
    a_run(tmp_path / "runs", 2, lock_command="node lock.mjs", name="zebra")
    with serving(tmp_path) as served:
        page.open(served.address)
        assert names(page) == ["zebra", "redlock"]
        for order, says, shown in (
            ("lock", "by lock", ["redlock", "zebra"]),
            ("newest", "newest first", ["zebra", "redlock"]),
        ):
            page.evaluate(f"document.querySelector('[name=sort]').value = {order!r}")
            page.click("form[method=get] button")
            page.wait_for(f"document.body.innerText.includes('2 runs, {says}')")
            assert names(page) == shown
        assert page.complaints() == []


def test_a_run_s_own_page_is_shown_in_a_frame_and_its_files_behind_a_tab(page: Page, served: Served) -> None:
    page.open(f"{served.address}?lock=mine")
    page.click("tbody a")
    page.wait_for("location.pathname.includes('/runs/') && document.readyState === 'complete'")
    loaded = "performance.getEntriesByType('resource').some(each => each.name.endsWith('report.html'))"
    page.wait_for(loaded)
    assert page.evaluate("document.querySelector('iframe').contentDocument") is None, "it is another site's"
    assert page.evaluate("document.title").startswith("UNKNOWN"), "its script did not reach out of the frame"
    assert page.complaints() == []
    page.click(".bar nav a[href$='?tab=files']")
    page.wait_for("location.search === '?tab=files' && document.readyState === 'complete'")
    assert "config.json" in page.text()


def test_a_run_gets_a_tag_and_the_list_shows_the_runs_that_have_it(page: Page, served: Served) -> None:
    page.open(f"{served.address}?lock=mine")
    page.click("tbody a")
    page.wait_for("location.pathname.includes('/runs/') && document.readyState === 'complete'")
    tab_to(page, "[name=tags]")
    page.type("suspicious")
    page.press("Enter")
    page.wait_for("document.querySelector('[name=tags]')?.defaultValue === 'suspicious'")
    page.open(served.address)
    page.click("a.tag")
    page.wait_for("location.search.includes('tag=suspicious') && document.readyState === 'complete'")
    assert names(page) == ["mine", "suspicious"]
    assert page.complaints() == []


def test_a_run_is_started_watched_stopped_and_repeated(page: Page, tmp_path: Path) -> None:
    """Real runs: each is stopped as soon as a client got the lock."""
    entered = "parseInt(document.querySelector('[data-text=sections]')?.textContent) > 0"
    is_over = "document.querySelector('[data-end]') && !document.querySelector('[data-end]').hidden"
    with serving(tmp_path, real=True) as served:
        page.open(served.address)
        page.click(".start summary")
        page.evaluate("document.querySelector('[name=nemesis]').value = 'none'")
        options = "--lock redlock-token --clients 2 --nodes 3 --duration 60s --recovery 1s --cluster process"
        page.evaluate(f"document.querySelector('[name=options]').value = {options!r}")
        page.evaluate("document.querySelector('[name=duration]').value = ''")
        page.click(".start form button")
        came_from = served.root
        for number in (1, 2):
            page.wait_for(f"!location.pathname.endsWith({came_from!r}) && document.readyState === 'complete'")
            assert page.evaluate("location.pathname").endswith("/live"), page.text()
            page.wait_for(entered, within_s=120)
            assert page.evaluate(
                "/^[\\d.]+ (µs|ms|s)$/.test(document.querySelector('[data-text=acquire]').textContent)"
            )
            name = page.evaluate("decodeURIComponent(location.pathname.split('/').at(-2))")
            page.click(".stop button")
            page.wait_for(f"location.pathname.endsWith('/live') && {is_over}", within_s=120)
            assert len(runs_in(served)) == number
            folder = RunFolder(served.results / name)
            assert (folder.read_config().nemesis, folder.read_config().clients) == ("none", 2)
            timeline = folder.read_timeline()
            assert timeline is not None
            assert timeline.interrupted
            if number == 1:
                page.click("[data-end] a")
                page.wait_for("document.querySelector('form[action$=repeat]') && document.readyState === 'complete'")
                came_from = page.evaluate("location.pathname")
                page.click("form[action$=repeat] button")
        assert page.complaints() == []


def runs_in(served: Served) -> list[Path]:
    return [path for path in served.results.iterdir() if path.is_dir() and not path.is_symlink()]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_fit_a_phone_and_keep_to_its_colours(dark: bool, browser: Chromium, served: Served, place: Path) -> None:
    page = browser.page(width=360, height=740, dark=dark)
    runs = [quote(path.name) for path in sorted((place / "runs").iterdir()) if path.is_dir() and not path.is_symlink()]
    with LiveRun(place, seed=8) as run:
        run.begin()
        run.fault("injected", "w" * 200, 1_000)
        live = f"runs/{quote(run.folder.name)}/live"
        for path in ("", *(f"runs/{name}/" for name in runs), f"two?run={runs[0]}&run={runs[1]}", "runs/none/", live):
            page.open(served.address + path)
            if path == live:
                page.wait_for("document.querySelector('[data-rows=faults] li')")
            assert page.evaluate("document.documentElement.scrollWidth") <= page.width, path
            brightness = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
            assert (max(brightness) < 80) == dark, path


def test_what_lies_in_a_run_s_folder_reads_nothing_here(page: Page, served: Served, place: Path) -> None:
    """Its scripts run, as those of another site."""
    path = a_run(place / "runs", 3)
    own = f"fetch('{served.root}').then(() => 'read', () => 'refused').then(said => document.title = said)"
    (path / "report.html").write_text(f"<!doctype html><script>{own}</script>")
    page.open(f"{served.address}runs/{quote(path.name)}/files/report.html")
    page.wait_for("document.title")
    assert page.evaluate("document.title") == "refused"


def test_a_page_of_another_site_reads_nothing_and_frames_nothing(
    browser: Chromium, served: Served, tmp_path: Path
) -> None:
    """Even if it knows the address."""
    page = browser.page()
    with LiveRun(served.results.parent, seed=9) as run:
        (tmp_path / "evil.html").write_text(
            f"<!doctype html><iframe src='{served.address}'></iframe><script>"
            f"fetch('{served.address}').then(() => 'read', () => 'refused').then(said => document.title += said);"
            f"const source = new EventSource('{served.address}runs/{quote(run.folder.name)}/events');"
            "source.addEventListener('shown', () => document.title += ' heard');"
            "source.onerror = () => { source.close(); document.title += ' deaf'; }</script>"
        )
        page.open((tmp_path / "evil.html").as_uri())
        page.wait_for("document.title.includes('refused') && document.title.includes('deaf')")
    assert "heard" not in page.evaluate("document.title")
    assert any("frame" in text for text in page.complaints())

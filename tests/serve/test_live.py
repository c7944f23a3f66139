"""Live pages: what the server tells of a run and of a campaign while they are under way."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from harness.campaign.folder import CampaignFolder, RunLine
from harness.serve import run_so_far
from harness.serve.run_so_far import RunSoFar
from harness.store.folder_lock import hold, is_held
from harness.store.run_folder import RunFolder
from tests.campaign.made import campaign, line
from tests.serve.live_run import LiveRun
from tests.serve.served import HOSTILE, Served, serving


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("live")
    (place / "runs").mkdir()
    return place


@pytest.fixture(scope="module")
def served(place: Path) -> Iterator[Served]:
    with serving(place) as served:
        yield served


class Events:
    """A stream of server-sent events."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer = answer

    def next(self) -> tuple[str, Any]:
        """The name and the value of the next event; fails if none comes within a minute, or none any more."""
        while True:
            line = self._answer.readline().decode()
            assert line, "the stream has ended"
            if line.startswith("event: "):
                name, data = line[7:].strip(), self._answer.readline().decode()
                return name, json.loads(data.removeprefix("data: "))

    def until(self, is_there: Callable[[Any], bool]) -> Any:
        """The first value of an event `shown` for which it is."""
        while True:
            name, value = self.next()
            assert name == "shown", (name, value)
            if is_there(value):
                return value

    def end(self) -> Any:
        while True:
            name, value = self.next()
            if name == "end":
                assert self._answer.readline() in (b"\n", b"")
                return value


@contextmanager
def events(served: Served, path: str) -> Iterator[Events]:
    with closing(http.client.HTTPConnection(served.host, timeout=60)) as connection:
        connection.request("GET", f"{served.root}{path}")
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("Content-Type")) == (200, "text/event-stream; charset=utf-8")
        yield Events(answer)


def texts(rows: Any) -> list[str]:
    return [row[0]["text"] for row in rows]


def test_a_run_is_told_as_its_folder_grows_and_ends_in_a_link_to_its_page(served: Served, place: Path) -> None:
    with LiveRun(place, seed=7) as run, events(served, f"runs/{quote(run.folder.name)}/events") as told:
        assert "are starting" in told.until(lambda shown: True)["texts"]["state"]
        run.begin()
        first = told.until(lambda shown: "chart" in shown)
        assert first["texts"]["state"].startswith("Load under faults, ")
        assert (first["texts"]["sections"], first["texts"]["in-force"]) == ("0", "None right now.")

        run.section("c1", 100, 900)
        run.fault("injected", HOSTILE, 1_000)
        shown = told.until(lambda shown: shown["texts"]["sections"] == "1" and shown["texts"]["injected"] == "1")
        assert (shown["texts"]["operations"], texts(shown["rows"]["faults"])) == ("2", [HOSTILE])
        assert shown["chart"]["sections"][:2] == [1, 0]
        assert shown["chart"]["faults"] == [[1.0, None, HOSTILE]]

        run.section("c2", 500, 1_000)
        shown = told.until(lambda shown: shown["rows"]["findings"])
        assert shown["texts"]["found"] == ""
        blamed = [who for finding, who in shown["rows"]["findings"] if "overlapped" in finding["text"]]
        assert blamed == [{"text": "the lock is to blame", "tone": "blame-lock"}]

        run.fault("healed", HOSTILE, 3_000)
        shown = told.until(lambda shown: not shown["rows"]["faults"])
        assert shown["chart"]["faults"] == [[1.0, 3.001, HOSTILE]]

        run.end()
        end = told.end()
        assert end["word"] == {"text": "VIOLATION", "tone": "violation"}
        assert served.page(end["link"]["href"]).count("VIOLATION")


def test_half_a_line_is_not_read_until_it_is_whole(place: Path) -> None:
    with LiveRun(place) as run:
        run.begin()
        run.section("c1", 100, 900)
        so_far = RunSoFar(run.folder)
        log = run.folder.client_log("c1", 1)
        whole = log.read_bytes()
        with log.open("ab") as file:
            file.write(whole[:50])
        assert so_far.look(()).texts["operations"] == "2"
        with log.open("ab") as file:
            file.write(whole[50:])
        assert so_far.look(()).texts["operations"] == "4"


@pytest.mark.parametrize("duration_ms", [100.0, 24 * 3_600_000.0])
def test_a_chart_has_few_bars_however_long_the_run_is(duration_ms: float, place: Path) -> None:
    with LiveRun(place, duration_ms=duration_ms) as run:
        run._start_ns -= 50_000_000_000_000
        run.begin()
        run.section("c1", 60, 90)
        chart = RunSoFar(run.folder).look(()).chart
        assert chart is not None
        assert len(chart.sections) <= 600
        assert sum(chart.sections) == 1


def test_the_list_says_which_runs_are_under_way_and_leads_to_them(served: Served, place: Path) -> None:
    with LiveRun(place, seed=8) as run:
        live = f"{served.root}runs/{quote(run.folder.name)}/live"
        page = served.page("?verdict=under+way")
        assert f'href="{live}"' in page
        assert page.count('<span class="word">under way</span>') == 1
        assert "watch it live" in served.page(f"runs/{quote(run.folder.name)}/")
    assert f'href="{live}"' not in served.page("")


def test_a_run_whose_harness_is_gone_ends_without_a_verdict(served: Served, place: Path) -> None:
    with LiveRun(place, seed=9) as run:
        run.begin()
    with events(served, f"runs/{quote(run.folder.name)}/events") as told:
        end = told.end()
    assert end["word"]["text"] == "OVER"
    assert "aborted, or its harness was killed" in end["says"]


def test_a_run_that_cannot_be_read_says_so_at_the_end(served: Served, place: Path) -> None:
    with LiveRun(place, seed=10) as run:
        run.begin()
        run.folder.client_log("c1", 1).write_text(f"{HOSTILE}\n")
        with events(served, f"runs/{quote(run.folder.name)}/events") as told:
            end = told.end()
    assert end["word"]["text"] == "DAMAGED"
    assert "is damaged" in end["says"]


def test_a_live_page_runs_our_script_alone_and_reads_from_here_alone(served: Served, place: Path) -> None:
    with LiveRun(place, seed=11) as run:
        status, headers, body = served.ask(f"runs/{quote(run.folder.name)}/live")
    policy = headers["Content-Security-Policy"]
    assert status == 200
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert "connect-src 'self'" in policy
    assert "unsafe-inline'" not in policy.partition("script-src")[2]
    assert body.count(b"<script") == 1
    assert served.ask("runs/nobody/live")[0] == served.ask("runs/nobody/events")[0] == 404


def test_nobody_else_is_told(served: Served, place: Path) -> None:
    with LiveRun(place, seed=12) as run:
        for path in (f"runs/{quote(run.folder.name)}/live", f"runs/{quote(run.folder.name)}/events"):
            assert served.ask(path, Origin="http://evil.example")[0] == 403
            assert served.ask(f"/wrong/{path}")[0] == 403


def test_a_campaign_is_told_run_by_run_until_nobody_is_at_work_on_it(served: Served, place: Path) -> None:
    made = campaign()
    cells = list(made.grid.cells)
    path = place / "reports" / "comparison"
    folder = CampaignFolder.claim(path, made)
    try:
        assert '<span class="word">under way</span>' in served.page("")
        assert served.page("reports/comparison/live").count("<script") == 1
        with events(served, "reports/comparison/events") as told:
            shown = told.until(lambda shown: True)
            assert shown["texts"]["state"] == f"0 of {made.grid.run_count} runs made."
            folder.append(line(cells[0], 1, hit=1))
            shown = told.until(lambda shown: shown["texts"]["violations"] == "1")
            assert shown["texts"]["state"] == f"1 of {made.grid.run_count} runs made, about 2 min left."
            assert [cell["text"] for cell in shown["rows"]["groups"][0]] == [
                *("none", f"1 of {made.grid.run_count // 2}"),
                "violations in 1 of 1: 100 % (2.5 % to 100 %)",
            ]
            broken = RunLine(cell=cells[1], seed=1, folder="", verdict="broke off", took_s=0, error=HOSTILE)
            folder.append(broken)
            shown = told.until(lambda shown: shown["texts"]["broke-off"] == "1")
            assert [cell["text"] for cell in shown["rows"]["newest"][0]][1:] == ["broke off", HOSTILE]
            folder.close()
            assert told.end()["word"]["text"] == "OVER"
    finally:
        if is_held(path):
            folder.close()
    with events(served, "reports/comparison/events") as told:
        assert "no process is making the others" in told.until(lambda shown: True)["texts"]["state"]


def test_whoever_looks_at_a_campaign_keeps_nobody_from_it(tmp_path: Path) -> None:
    looking = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert not is_held(tmp_path)
    assert hold(tmp_path) is None
    os.close(looking)
    held = hold(tmp_path)
    assert held is not None
    assert is_held(tmp_path)
    assert hold(tmp_path) is None
    os.close(held)
    assert not is_held(tmp_path)


def test_reading_a_campaign_changes_nothing(tmp_path: Path, served: Served, place: Path) -> None:
    made = campaign()
    folder = CampaignFolder.claim(place / "reports" / "half", made)
    folder.append(line(next(iter(made.grid.cells)), 1))
    folder.close()
    log = place / "reports" / "half" / "runs.jsonl"
    with log.open("ab") as file:
        file.write(b'{"cell":')
    before = log.read_bytes()
    with events(served, "reports/half/events") as told:
        assert told.until(lambda shown: True)["texts"]["state"].startswith("1 of ")
    assert log.read_bytes() == before


def test_a_run_that_ends_while_it_is_looked_at_is_not_over_before_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(run: Path) -> bool:
        (run / "manifest.json").touch()
        return False

    monkeypatch.setattr(run_so_far, "is_under_way", ends)
    run = RunSoFar(RunFolder(tmp_path))
    assert not run.is_over
    for name in ("verdict.json", "report.html"):
        (tmp_path / name).touch()
    assert run.is_over

"""Which runs are made beside others, and which alone; with workers that make nothing but lines."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from fencepost.errors import BrokenEnvironmentError
from harness.campaign import dask_cluster, side_by_side
from harness.campaign import play as playing
from harness.campaign.folder import CampaignFolder
from harness.campaign.grid import Grid
from harness.campaign.one_run import Made, Order
from harness.campaign.parallelism import Hands
from harness.campaign.play import make_plan, play
from harness.run.messages import Failed
from tests.campaign import made

Outcome = Callable[[Order], Made]


def finished(order: Order, *disturbed: str) -> Made:
    line = made.line(order.cell, order.seed, disturbed=disturbed)
    return Made(msgspec.structs.replace(line, at_once=order.at_once))


def quiet(order: Order) -> Made:
    return finished(order)


class Company:
    """Stands in for Dask's workers and for the runs that the command makes itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, outcome: Outcome = quiet) -> None:
        self.together: list[tuple[str, int]] = []
        self.alone: list[tuple[str, int]] = []
        self.count = 0
        self._outcome = outcome

        @contextmanager
        def cluster(count: int) -> Iterator[None]:
            self.count = count
            yield

        def make(order: Order, *_: object) -> Made:
            self.alone.append((order.cell, order.seed))
            assert order.at_once == 1
            return outcome(order)

        monkeypatch.setattr(dask_cluster, "local_cluster", cluster)
        monkeypatch.setattr(side_by_side, "Workers", lambda *_, **__: self)
        monkeypatch.setattr(playing, "make", make)

    def play(self, orders: Sequence[Order], *_: object) -> Generator[tuple[Order, Made], None, None]:
        for order in reversed(orders):  # as they come, and not as they were asked for
            assert order.at_once == 4
            self.together.append((order.cell, order.seed))
            yield order, self._outcome(order)


@pytest.fixture
def grid() -> Grid:
    return made.grid("persistence=none,aof-always", seeds=2)


def played(grid: Grid, path: Path, *, workers: int = 4) -> bool:
    folder = CampaignFolder.claim(path / "r", made.campaign(grid))
    try:
        out = Console(width=200)
        return play(make_plan(grid, yes=False), folder, path / "runs", "rev", out, hands=Hands(workers))
    finally:
        folder.close()


def test_runs_are_made_beside_each_other_and_each_is_on_record_once(
    tmp_path: Path, grid: Grid, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    company = Company(monkeypatch)
    assert played(grid, tmp_path)
    assert (company.count, company.alone) == (4, [])
    assert sorted(company.together) == [("aof-always", 1), ("aof-always", 2), ("none", 1), ("none", 2)]
    assert len((tmp_path / "r" / "runs.jsonl").read_text().splitlines()) == 4
    out = capsys.readouterr().out
    assert "4 runs to make, 4 at" in out
    assert ", seed 2: valid" in out
    assert played(grid, tmp_path)
    assert len(company.together) == 4, "nothing is made again"


def test_one_worker_needs_no_dask(tmp_path: Path, grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    company = Company(monkeypatch)
    assert played(grid, tmp_path, workers=1)
    assert (len(company.together), len(company.alone)) == (0, 4)


def test_runs_that_measure_costs_are_made_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    safety, cost = made.grid("clients=2", seeds=2).parts[0], made.grid("clients=4", seeds=2).parts[0]
    grid = msgspec.structs.replace(made.grid(), parts=(safety, msgspec.structs.replace(cost, kind="cost")))
    company = Company(monkeypatch)
    assert played(grid, tmp_path)
    assert sorted(company.together) == [("clients 2", 1), ("clients 2", 2)]
    assert company.alone == [("clients 4", 1), ("clients 4", 2)]


def test_a_run_that_was_too_disturbed_in_company_is_made_again_alone_once(
    tmp_path: Path, grid: Grid, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    company = Company(monkeypatch, lambda order: finished(order, *["late"] * (order.seed == 2)))
    assert played(grid, tmp_path)
    assert sorted(company.alone) == [("aof-always", 2), ("none", 2)]
    assert "2 runs to make alone" in capsys.readouterr().out
    assert played(grid, tmp_path)
    assert len(company.alone) == 2, "alone it was disturbed too, and that cannot be helped"
    folder = CampaignFolder.claim(tmp_path / "r", made.campaign(grid))
    assert {line.slot for line in folder.lines() if line.at_once == 1} == set(company.alone), "and that is what counts"
    folder.close()


def test_a_disturbed_run_is_made_alone_when_the_campaign_is_resumed(
    tmp_path: Path, grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CampaignFolder.claim(tmp_path / "r", made.campaign(grid))
    order = Order(cell="none", seed=1, words=(), results="", revision="", at_once=4)
    disturbed = finished(order, "late").line
    assert disturbed is not None
    folder.append(disturbed)
    folder.close()
    company = Company(monkeypatch)
    assert played(grid, tmp_path)
    assert company.alone == [("none", 1)]
    assert len(company.together) == 3


def test_a_run_that_breaks_off_in_company_is_on_record_and_three_in_a_row_end_it(
    tmp_path: Path, grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Failed("environment", "its worker died again and again")
    Company(monkeypatch, lambda _: Made(failure=broken))
    with pytest.raises(BrokenEnvironmentError, match="again and again"):
        played(grid, tmp_path)
    assert len((tmp_path / "r" / "runs.jsonl").read_text().splitlines()) == 3
    company = Company(monkeypatch)
    assert played(grid, tmp_path)
    assert len(company.together) == 4


def test_a_run_that_was_called_off_does_not_count(
    tmp_path: Path, grid: Grid, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Company(monkeypatch, lambda order: finished(order) if order.seed == 2 else Made())
    assert not played(grid, tmp_path)
    assert "interrupted; 2 runs of 4 made" in capsys.readouterr().out

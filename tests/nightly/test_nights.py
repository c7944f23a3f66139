"""Which runs a night has, what is kept of it, and what is said of the change."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

from harness.campaign import wording
from harness.campaign.folder import RunLine
from harness.campaign.forms import html
from harness.nightly.grid import CONTROLS, SCRIPTED_CONTROLS, nightly_grid
from harness.nightly.nights import Failing, LockNight, Night, changes, failing_of, keep_night, played_of, read_nights
from harness.nightly.page import document_of
from harness.survey.subjects import chosen
from tests.campaign import made
from tests.golden import Golden
from tests.survey.made import blamed
from workloads.registry import lock_names

SUBJECTS = [subject for subject in chosen((), quick=False) if subject.role != "broken"]


def grid(failing: tuple[Failing, ...] = (), seed: int = 1, budget_s: float = 3600, **more: Any) -> Any:
    return nightly_grid(SUBJECTS, ("process", "docker"), seed, failing, budget_s=budget_s, quick=False, **more)


def locks(of: Any) -> list[tuple[str, str]]:
    return [(cell.at["lock"], cell.at["cluster"]) for cell in of.parts[-1].cells]


def played(lock: str = "pottery", violations: int = 0, **more: Any) -> LockNight:
    of = {"cluster": "process", "kind": "library", "runs": 2, "blamed": violations}
    return LockNight(**{"lock": lock, "violations": violations, **of, **more})


def night(date: str, *of: LockNight, revision: str = "a") -> Night:
    return Night(date=date, revision=revision, first_seed=1, played=of)


def test_every_control_that_ships_is_played_every_night() -> None:
    assert {info.name for info in lock_names() if info.name.startswith("control-")} == {
        *CONTROLS,
        *SCRIPTED_CONTROLS,
    }
    assert {cell.at["lock"] for _, cell in grid().cells.values() if cell.at["kind"] == "control"} == {
        *CONTROLS,
        *SCRIPTED_CONTROLS,
    }


def test_what_failed_comes_first_then_the_controls() -> None:
    of = grid((Failing("pottery", "docker", 5),))
    assert [part.title for part in of.parts] == [
        *("What failed the night before", "Controls", "Controls, by experiment"),
        "Standard faults",
    ]
    (again,) = of.parts[0].cells
    assert of.words(again.name, 1).count("--seed=5") == 1


def test_a_small_budget_gives_every_lock_its_turn_within_a_few_nights() -> None:
    pairs = {(subject.lock, cluster) for subject in SUBJECTS for cluster in ("process", "docker")}
    first = locks(grid(budget_s=1800))
    assert 3 < len(first) < len(pairs)
    met = {pair for seed in range(len(pairs)) for pair in locks(grid(seed=seed, budget_s=1800))}
    assert met == pairs


def test_a_large_budget_gives_every_lock_several_seeds() -> None:
    of = grid(budget_s=3 * 77 * 2 * len(SUBJECTS) + 1000)
    assert of.parts[-1].seeds == 3
    assert len(of.parts[-1].cells) == 2 * len(SUBJECTS)


def test_runs_are_counted_by_lock_and_cluster() -> None:
    of = grid((Failing("pottery", "docker", 5),), budget_s=1e5)
    again, control = of.parts[0].cells[0].name, of.parts[1].cells[0].name
    found = made.figures(blamed=(blamed("overlap"),))
    lines = [
        RunLine(cell=again, seed=1, folder="r", verdict="violation", took_s=1, figures=found),
        RunLine(cell="pottery · docker", seed=2, folder="r", verdict="valid", took_s=1, figures=made.figures()),
        RunLine(cell=control, seed=1, folder="r", verdict="unknown", took_s=1, figures=found),
        RunLine(cell="pottery · docker", seed=3, folder="", verdict="broke off", took_s=1, error="no"),
    ]
    rows = {(each.lock, each.cluster): each for each in played_of(of, lines)}
    pottery = rows["pottery", "docker"]
    assert (pottery.runs, pottery.violations, pottery.blamed, pottery.detected_ms) == (2, 1, 1, 1_200.0)
    assert pottery.sections_per_s == 10.0
    assert not next(each for each in rows.values() if each.kind == "control").is_as_it_must_be
    assert failing_of(of, lines) == (Failing("pottery", "docker", 5),)


def test_a_night_that_is_played_again_replaces_itself(tmp_path: Path) -> None:
    keep_night(tmp_path, night("2026-01-02", played(violations=1)))
    keep_night(tmp_path, night("2026-01-01"))
    keep_night(tmp_path, night("2026-01-02", played()))
    assert read_nights(tmp_path) == [night("2026-01-01"), night("2026-01-02", played())]


def test_what_changed_is_said_against_the_last_night_that_played_the_lock(golden: Golden) -> None:
    nights = [
        night("1", played("a"), played("b", 1), played("c")),
        night("2", played("b", 1)),
        night("3", played("a", 1), played("b"), played("c"), played("d"), revision="b"),
    ]
    golden("\n".join(changes(nights)))
    assert changes(nights[:1]) == []


def test_hostile_names_are_text_on_the_page() -> None:
    tonight = night("1", played("<script>alert(1)</script>", detected_ms=5.0, sections_per_s=2.0))
    document = document_of(made.played(None, []), [tonight])
    assert document is not None
    shown = html(document)
    assert shown.count("<script") == 1, "our own"
    assert "5.0 ms" in shown


def test_the_page_names_the_method_of_its_intervals() -> None:
    document = document_of(made.played(None, []), [night("1", played("a"))])
    assert document is not None
    assert wording.METHOD in unescape(html(document))

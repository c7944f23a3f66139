"""The table of mutants, from runs that are on record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.errors import UsageError
from harness.campaign.folder import Campaign, RunLine
from harness.campaign.forms import forms_of
from harness.campaign.measure import Blamed, Figures
from harness.mutants.grid import mutants_grid
from harness.mutants.page import document_of
from harness.mutants.table import Row, comparison, conclusion, in_words, rows_of
from tests.campaign import made
from tests.golden import Golden
from workloads.mutants import CONTROLS, MUTANTS, STANDARD

HALF, OVER = "half is enough", "grants what is over"


def line(lock: str, nemesis: str, seed: int, *blamed: tuple[str, float], **more: Any) -> RunLine:
    figures = Figures(
        sections=9, overlaps={}, node_outages=0, node_outages_hit=0, load_s=1, grants=9, reachable_s=1, acquire={},
        blamed=tuple(Blamed(kind, at_ms, f"{kind} at {at_ms:g}") for kind, at_ms in blamed),
    )  # fmt: skip
    known = {"folder": f"run-{seed}", "verdict": "valid", "took_s": 1.0, "figures": figures}
    return RunLine(cell=f"{lock} · {nemesis}", seed=seed, **(known | more))


def forms(campaign: Campaign, lines: list[RunLine]) -> dict[str, str]:
    """Every form of the page, by the name of its file."""
    written = forms_of(document_of(made.played(None, lines, of_campaign=campaign), rows_of(lines)))
    return {name: form if isinstance(form, str) else form.decode() for name, form in written.items()}


def row(*lines: RunLine) -> Row:
    return rows_of(lines)[0]


def test_a_field_counts_the_runs_that_named_it_and_takes_the_median_of_their_times() -> None:
    found = row(
        line(HALF, "standard", 1, ("overlap", 300.0)),
        line(HALF, "standard", 2, ("overlap", 100.0), ("lease-lost-early", 50.0)),
        line(HALF, "standard", 3, ("overlap", 900.0)),
    )
    field = found.fields["standard"]
    assert (field.runs, field.caught, field.named, field.median_ms) == (3, 3, 3, 300.0)
    assert field.kinds == {"overlap": 3, "lease-lost-early": 1}
    assert found.text == "overlap at 100"
    assert found.is_right
    assert "3 of 3, 0.3 s" in in_words([found]).rows[0]


def test_another_finding_is_shown_and_does_not_name_it() -> None:
    found = row(line(OVER, "standard", 1, ("overlap", 10.0)))
    assert (found.fields["standard"].caught, found.fields["standard"].named) == (1, 0)
    assert not found.is_right
    assert "(1 of 1)" in in_words([found]).rows[0]
    assert found.text is None


def test_another_finding_that_is_explained_rightly_names_it_too() -> None:
    def found(*blamed: Blamed) -> Row:
        run = line("a late reply counts", "standard", 1)
        assert run.figures is not None
        return row(replace(run, figures=replace(run.figures, blamed=blamed)))

    early, right = Blamed("lease-without-majority", 9.0, "belief"), Blamed("overlap", 5.0, "both", "another reply")
    both = found(early, right)
    assert (both.fields["standard"].named, both.fields["standard"].median_ms, both.text) == (1, 5.0, "both")
    assert both.others == {}
    campaign = Campaign(grid=mutants_grid(1, 1, "process", quick=True), revision="1a", command="it", machine={})
    names = "| `lease-without-majority` or `overlap` |"
    assert names in forms(campaign, [line("a late reply counts", "standard", 1)])["table.md"]
    wrong = found(Blamed("overlap", 5.0, "both", "deleted"))
    assert (wrong.fields["standard"].named, wrong.others) == (0, {"overlap": 1})


@pytest.mark.parametrize(("seeds", "right"), [((1, 1, 1), True), ((1, 1, 0), False), ((0, 0, 0), False)])
def test_a_mutant_must_be_named_in_every_run_under_the_standard_faults(seeds: tuple[int, ...], right: bool) -> None:
    lines = [
        line(HALF, "standard", number, *([("overlap", 5.0)] if hit else [])) for number, hit in enumerate(seeds, 1)
    ]
    assert row(*lines, line(HALF, "pause", 1)).is_right is right


def test_other_faults_that_find_it_do_not_make_up_for_the_standard_ones() -> None:
    assert not row(line(HALF, "standard", 1), line(HALF, "pause", 1, ("overlap", 5.0))).is_right
    assert not row(line(HALF, "pause", 1, ("overlap", 5.0))).is_right


def test_the_last_row_has_the_rate_and_the_median_over_all_runs_and_a_miss_counts_as_later_than_any() -> None:
    def last(*lines: RunLine) -> str:
        return in_words(rows_of(lines)).rows[-1][3]

    half, over = line(HALF, "standard", 1, ("overlap", 100.0)), line(OVER, "standard", 1, ("no-validity", 900.0))
    assert last(half, over) == "2 of 2, 0.5 s"
    assert last(half, over, line(OVER, "standard", 2)) == "2 of 3, 0.9 s"
    assert last(half, line(OVER, "standard", 1)) == "1 of 2, –"


def test_columns_that_were_not_played_are_not_shown() -> None:
    assert in_words([row(line(HALF, "pause", 1))]).heads == ("lock", "wrong line", "settings", "pause")


def test_the_standard_faults_are_compared_with_the_plain_ones(golden: Golden) -> None:
    def compared(*lines: RunLine) -> str:
        return comparison(rows_of(lines))

    soon, later = line(HALF, "standard", 1, ("overlap", 500.0)), line(HALF, "plain", 1, ("overlap", 2_000.0))
    golden(compared(soon, later))
    found = line(OVER, "standard", 1, ("no-validity", 500.0))
    assert compared(soon, later, found, line(OVER, "plain", 1)).endswith("more than 120 times as long.")
    assert compared(soon, later, line(OVER, "plain", 1)) == compared(soon, later), "a mutant that met only one of them"
    assert compared(soon) == compared(later) == compared(line(HALF, "standard", 1), later) == ""


def test_mutants_that_show_without_any_fault_say_nothing_about_faults(golden: Golden) -> None:
    shown = [line(HALF, kind, 1, ("overlap", 5.0)) for kind in ("standard", "unaimed", "plain", "no fault")]
    times = {"standard": 500.0, "unaimed": 600.0, "plain": 2_000.0}
    hidden = [line(OVER, kind, 1, ("no-validity", at_ms)) for kind, at_ms in times.items()] + [
        line(OVER, "no fault", 1)
    ]
    rows = rows_of([*shown, *hidden])
    golden(comparison(rows))
    assert in_words(rows).rows[-1][3:] == ("1 of 1, 0.5 s", "1 of 1, 0.6 s", "1 of 1, 2.0 s", "0 of 1, –")
    assert comparison(rows_of(shown[::3])) == ""


@pytest.mark.parametrize(("at_ms", "right"), [(60_000.0, True), (60_001.0, False)])
def test_it_must_be_named_within_a_minute(at_ms: float, right: bool) -> None:
    assert row(line(HALF, "standard", 1, ("overlap", at_ms))).is_right is right


def test_a_correct_lock_must_never_be_blamed_for_anything() -> None:
    never = row(line("reference, busy", "crash", 1))
    assert never.is_right
    assert "never blamed" in in_words([never]).rows[0]
    once = row(line("reference, busy", "crash", 1), line("reference, busy", "pause", 1, ("lease-lost-early", 5.0)))
    assert not once.is_right
    assert "BLAMED 1 of 1" in in_words([once]).rows[0]
    assert "reference, busy" in conclusion([once])


def test_a_run_that_broke_off_counts_for_nothing() -> None:
    assert rows_of([line(HALF, "standard", 1, error="no space left")]) == []
    assert conclusion([]) == "No run is finished yet."


def test_the_table_names_every_revision_that_made_a_run() -> None:
    campaign = Campaign(grid=mutants_grid(1, 1, "process", quick=True), revision="1a", command="it", machine={})
    lines = [line(HALF, "standard", seed, ("overlap", 5.0), revision="1a") for seed in (1, 2)]
    assert "| revision | 1a |" in forms(campaign, lines)["table.md"]
    lines.append(line(OVER, "standard", 1, revision="2b"))
    assert "| revision | 1a (2 runs) and 2b (1 run) |" in forms(campaign, lines)["table.md"]


def test_the_conclusion_names_who_was_missed() -> None:
    rows = rows_of([line(HALF, "standard", 1, ("overlap", 5.0)), line(OVER, "standard", 1)])
    assert conclusion(rows) == f"NOT found within 60 s: {OVER}."
    assert "The mutant was found" in conclusion(rows[:1])


def test_the_conclusion_says_nothing_of_a_mutant_that_the_standard_faults_have_not_met(golden: Golden) -> None:
    golden(conclusion([row(line(HALF, "plain", 1, ("overlap", 5.0)))]))
    both = rows_of([line(HALF, "standard", 1, ("overlap", 5.0)), line(OVER, "plain", 1)])
    golden(conclusion(both))


def test_columns_can_be_chosen() -> None:
    def columns(*faults: str, quick: bool = False) -> set[str]:
        grid = mutants_grid(1, 1, "process", quick=quick, faults=faults)
        return {cell.at["nemesis"] for _, cell in grid.cells.values()}

    assert columns("standard", "plain") == {"standard", "plain"}
    assert columns() > {"standard", "plain", "pause"}
    assert columns(quick=True) == {"standard"}
    with pytest.raises(UsageError, match="'standrad' is no column of the table; they are standard, unaimed, plain,"):
        columns("standrad")
    with pytest.raises(UsageError, match="leave no run"):
        columns("plain", quick=True)


@pytest.mark.parametrize("quick", [True, False])
def test_correct_locks_are_played_with_the_options_of_the_mutants(quick: bool) -> None:
    """Among them the servers' persistence: the standard faults need none for a correct lock, only for its tokens."""
    cells = [cell for _, cell in mutants_grid(1, 1, "process", quick=quick).cells.values()]
    correct = [cell for cell in cells if cell.at["lock"] in CONTROLS]
    assert {cell.at["nemesis"] for cell in correct} >= {"standard"}
    mutants = [cell.options for cell in cells if cell.at["lock"] in MUTANTS]
    assert all(("persistence" in cell.options) == ("fencing" in cell.options) for cell in correct)
    for cell in correct:
        assert any({**options, "lock": cell.options["lock"]} == cell.options for options in mutants)


def test_every_form_of_the_table_has_every_row() -> None:
    grid = mutants_grid(1, 1, "process", quick=True)
    campaign = Campaign(grid=grid, revision="1a2b3c", command="fencepost mutants --quick", machine={"cores": 2})
    lines = [line(mutant.name, STANDARD, 1, (mutant.finding, 5.0)) for mutant in MUTANTS.values()]
    written = forms(campaign, lines)
    text = written["table.md"]
    assert all(f"| {name} |" in text for name in MUTANTS)
    assert f"All {len(MUTANTS)} mutants were found and named within 60 s." in text
    assert campaign.command in text
    value = json.loads(written["table.json"])
    assert [row["name"] for row in value["rows"]] == list(MUTANTS)
    assert value["runs"][0] | {"folder": "run-1", "seed": 1} == value["runs"][0]

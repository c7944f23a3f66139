from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from synthetic import Made, make_empty_run, make_run

from harness.checkers import liveness
from harness.checkers.updates import LOST_UPDATE
from harness.report.judged import Judged
from harness.report.summary import MOST_LINES, render_summary

FOLDER = Path("results/runs/20260101T000000Z-fenced-counter-redlock-ng-partition-7")
REPLAY = f"fencepost test --seed 7 --lock redlock-ng --nemesis partition --schedule {FOLDER}/schedule.json"


def shown(
    made: Made, *, colour: bool = False, terminal: bool = False, everything: bool = False, width: int = 80
) -> str:
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=terminal or colour, color_system="truecolor" if colour else None
    )
    summary = render_summary(
        Judged(made.recorded, made.verdict, made.environment, REPLAY), FOLDER, everything=everything
    )
    console.print(summary, crop=False)
    return out.getvalue()


def words_of(text: str) -> str:
    return " ".join(text.replace("┃", " ").split())


def test_an_ordinary_run_fits_on_one_screen_and_says_everything() -> None:
    text = shown(make_run(nemesis="partition"))
    assert len(text.splitlines()) <= 40
    flat = words_of(text)
    for part in (
        "VALID — no promise broken by the lock in",
        "95 % upper bound for this run 0.",
        "5 × redis 7.0.15 in containers (images built from this machine's binaries), resource on redis 7.0.15, "
        "toxiproxy 2.12.0",
        "seed 7",
        "planned, 12 injected, 12 verified active, 12 verified healed",
        "0 lost of",
        "p99",
        "longest time without a grant: 812 ms with a majority in reach (from 12 s on), 1.81 s overall",
        "adds 61.2 µs at p50",
    ):
        assert part in flat, part


def test_extensions_are_told_where_there_may_be_any() -> None:
    made = make_run()
    assert "extension" not in shown(made)
    config = msgspec.structs.replace(made.recorded.config, extensions=3)
    assert "up to 3 extensions" in words_of(shown(replace(made, recorded=replace(made.recorded, config=config))))


def test_the_word_safe_never_appears() -> None:
    for made in (make_run(), make_run(lock_overlaps=2), make_empty_run()):
        assert "safe" not in shown(made).lower()


def test_a_violation_names_the_lock_and_shows_examples() -> None:
    text = words_of(shown(make_run(lock_overlaps=3, client_overlaps=2, undecided_overlaps=1)))
    assert "VIOLATION — 3 overlaps, first after" in text
    assert "the lock is to blame" in text
    assert "lock 3 of" in text
    assert "client 2 · undecided 1" in text
    assert "earlier c1 in section 4" not in text


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_run_takes_no_more_than_25_lines_of_a_terminal_and_the_rest_on_demand(width: int) -> None:
    for made in (make_run(nemesis="partition"), make_run(lock_overlaps=3, client_overlaps=2, undecided_overlaps=1)):
        short = shown(made, terminal=True, width=width)
        whole = shown(made, terminal=True, everything=True, width=width)
        assert len(short.splitlines()) <= MOST_LINES
        for part in (made.verdict.verdict.upper(), "replay", "redlock-ng under"):
            assert part in short
        assert ("-v shows" in short) is (len(whole.splitlines()) >= MOST_LINES)
        assert "-v shows" not in whole
        assert "recovery" in whole


def test_a_consequence_is_counted_below_its_cause_and_told_on_demand() -> None:
    made = make_run(lock_overlaps=3)
    lost = LOST_UPDATE.found("lock", "7 of 9 updates were lost", 7, (), 2_500.0)
    made = replace(made, verdict=msgspec.structs.replace(made.verdict, findings=(lost, *made.verdict.findings)))
    text = words_of(shown(made))
    assert "led to 7 lost updates" in text
    assert "7 of 9 updates were lost" not in text
    assert "led to 7 of 9 updates were lost" in words_of(shown(made, everything=True))
    assert "earlier c1 in section 4" in words_of(shown(made, everything=True))


def test_colour_only_repeats_what_the_words_say() -> None:
    made = make_run(lock_overlaps=1)
    plain = shown(made)
    assert "\x1b" not in plain
    assert "\x1b" in shown(made, colour=True)


def test_a_lock_with_a_name_is_called_by_it_and_the_command_is_shown_once() -> None:
    text = words_of(shown(make_run(lock_command="node lock.mjs", name="mine")))
    assert "lock mine (node lock.mjs), TTL" in text
    assert text.count("node lock.mjs") == 1


def test_paths_and_commands_stay_whole() -> None:
    lines = shown(make_run()).splitlines()
    assert f"  page      {FOLDER}/report.html" in lines
    assert f"  replay    {REPLAY}" in lines


def test_a_crashed_run_is_shown_with_what_there_is() -> None:
    text = words_of(shown(make_empty_run()))
    assert "UNKNOWN — no client acquired the lock; no planned fault was observed" in text
    assert "aborted (interrupted)" in text
    assert "6 planned" in text


@pytest.mark.parametrize("missing", ["exclusion", "counter", "fencing", "liveness", "faults", "phases"])
def test_any_checker_may_be_missing(missing: str) -> None:
    made = make_run(lock_overlaps=1)
    figures = {name: value for name, value in made.verdict.figures.items() if name != missing}
    assert "VIOLATION" in shown(replace(made, verdict=msgspec.structs.replace(made.verdict, figures=figures)))


def test_figures_without_values_are_dashes_and_not_errors() -> None:
    made = make_run()
    replaced = msgspec.structs.replace
    waits = liveness.Spread(0, None, None, None, None)
    found = made.verdict.of(liveness.Figures)
    assert found is not None
    nothing = replaced(
        found, wait_ms=waits, longest_gap_at_ms=None, recovery_all_ms=None, never_acquired=("c3",), jain=None
    )
    verdict = replaced(made.verdict, figures={**made.verdict.figures, "liveness": nothing})
    text = words_of(shown(replace(made, verdict=verdict, environment={})))
    assert "waiting p50 –, p90 –, p99 –, max –; fairness (Jain) –" in text
    assert (
        "longest time without a grant: 812 ms with a majority in reach, 1.81 s overall (from 11 s on) recovery" in text
    )
    assert "first grant 14 ms after the heal, not every client had one" in text
    assert "never acquired the lock: c3" in text


def test_leases_that_arrive_expired_and_slow_acquires_are_told_in_plain_words() -> None:
    made = make_run()
    found = made.verdict.of(liveness.Figures)
    assert found is not None
    late = msgspec.structs.replace(found, late_grants=1, acquires_longer_than_ttl=2)
    verdict = msgspec.structs.replace(made.verdict, figures={"liveness": late})
    text = words_of(shown(replace(made, verdict=verdict)))
    assert "late 1 lease already expired on arrival; 2 acquires slower than the TTL" in text


def test_markup_and_escapes_in_a_lock_name_are_shown_and_not_obeyed() -> None:
    made = make_run(lock_command="evil [red]x[/red] \x1b[2J")
    text = shown(made)
    assert "evil [red]x[/red]" in text
    assert "\x1b" not in text

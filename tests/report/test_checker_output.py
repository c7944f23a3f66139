"""What checkers offer of their figures, and that reports show it without knowing the checker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.console import Console

from harness.checkers.judge import judge
from harness.figures import KEYS_ON_NODES, CheckerFigures, Part, Row, Table, Tile
from harness.report import checker_output
from harness.report.judged import Judged
from harness.report.page import render_page
from harness.report.summary import render_summary
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.histories import History


def left_behind(**config: object) -> History:
    history = History(nodes=2, **config).watch("n1", "n2").section("c1", 10, 40).sets("c1", "v1")
    history.seen("n1", "set", 9, "v1", ttl=100).seen("n1", "deleted", 81)
    return history.seen("n2", "set", 9, "v1", ttl=100).seen("n2", "deleted", 30).seen("n2", "blind", 1000)


def verdict(history: History) -> Verdict:
    return judge(history.recorded())


def rows(history: History) -> dict[str, str]:
    return {row.label: row.text for row in checker_output.rows(verdict(history))}


def about_keys(history: History) -> Part | None:
    return next((part for part in checker_output.parts(verdict(history)) if part.heading == KEYS_ON_NODES), None)


def test_the_rows_of_a_run_that_left_keys_behind(golden: Golden) -> None:
    found = rows(left_behind())
    golden(found["keys"])
    golden(found["quorum"])
    golden(found["key loss"])
    assert "overruns" not in found


def test_rows_and_tiles_keep_their_order() -> None:
    found = verdict(left_behind())
    assert [row.label for row in checker_output.rows(found)] == [
        "faults", "sections", "judged", "overlaps", "updates", "waiting", "gap", "starved", "keys", "quorum",
        "key loss", "requests",
    ]  # fmt: skip
    assert [tile.name for tile in checker_output.tiles(found)] == [
        "Sections", "Overlaps, lock to blame", "Overlaps, client to blame", "Overlaps, undecided", "Lost updates",
        "Waiting time, p50", "Longest gap",
    ]  # fmt: skip
    assert [part.heading for part in checker_output.parts(found)] == [
        "By phase", "How much could be judged", "The keys on the nodes", "The data behind the lock",
    ]  # fmt: skip


def test_a_row_a_node() -> None:
    part = about_keys(left_behind())
    assert part is not None
    (table,) = part.tables
    (first, cells), (second, _) = table.rows
    assert (first, second) == ("n1", "n2")
    assert dict(zip(table.columns, cells, strict=True)) == {
        "keys left without an owner": "1",
        "in all": "40 ms",
        "longest": "40 ms",
        "not released": "1",
        "given up": "0",
        "client gone": "0",
        "set too late": "0",
        "back from disk": "0",
        "out of sight": "1.12 s",
    }


def test_calls_that_took_too_long(golden: Golden) -> None:
    history = History().op("c1", "acquire", "fail", 1, 0, 900).op("c1", "acquire", "fail", 1, 901, 902)
    golden(rows(history)["overruns"])
    history.acquire_limit_ms = 400
    golden(rows(history)["overruns"])


def test_a_run_that_could_not_be_watched_says_so_and_one_that_was_not_to_be_says_nothing(golden: Golden) -> None:
    history = History().section("c1", 10, 40)
    golden(rows(history)["keys"])
    part = about_keys(history)
    assert part is not None
    assert part.tables == ()
    assert about_keys(History(witness="off").section("c1", 10, 40)) is None


def test_nothing_left_behind_is_worth_a_row(golden: Golden) -> None:
    history = History(nodes=1).watch("n1").section("c1", 10, 40).sets("c1", "v1").seen("n1", "set", 9, "v1", ttl=100)
    history.seen("n1", "deleted", 41).seen("n1", "blind", 1300)
    found = rows(history)
    golden(found["keys"])
    golden(found["quorum"])
    assert "key loss" not in found


def shown(history: History, extra: CheckerFigures | None = None) -> tuple[str, str]:
    """The terminal's text and the page."""
    run, found = history.recorded(), verdict(history)
    if extra is not None:
        found = msgspec.structs.replace(found, figures={**found.figures, "extra": extra})
    console = Console(width=200, record=True)
    console.print(render_summary(Judged(run, found, replay="again"), Path("/runs/x")))
    return console.export_text(), render_page(Judged(run, found))


def test_terminal_and_page_tell_it() -> None:
    for text in shown(left_behind()):
        assert "1 key without an owner on a node" in text
        assert "not backed by a majority" in text
    assert "The keys on the nodes" in shown(left_behind())[1]
    assert "The keys on the nodes" not in shown(History(witness="off").section("c1", 10, 40))[1]


class Sheep(CheckerFigures, frozen=True):
    sheep: int

    def rows(self) -> Iterator[Row]:
        yield Row("sheep", f"{self.sheep} counted <b>\x1b")


class ShornSheep(Sheep, frozen=True):
    def tiles(self) -> Iterator[Tile]:
        yield Tile("Sheep <b>", f"{self.sheep}", "none asleep", "warn", order=25)

    def parts(self) -> Iterator[Part]:
        table = Table("field", ("sheep", "named"), (("north", ("7", "Dolly")),), frozenset({"named"}))
        yield Part("The sheep", hint="Before.", sentences=("all are there",), tables=(table,), note="After.")


def test_figures_of_a_checker_that_nobody_knows_are_shown_and_their_texts_are_not_obeyed() -> None:
    terminal, page = shown(left_behind(), Sheep(7))
    assert "sheep     7 counted <b>�" in terminal
    assert "<h2>Other figures</h2>" in page
    assert "<tr><th>sheep</th><td>7 counted &lt;b&gt;�</td></tr>" in page


def test_tiles_and_parts_of_a_checker_that_nobody_knows_are_laid_out() -> None:
    terminal, page = shown(left_behind(), ShornSheep(7))
    assert "7 counted" in terminal
    assert "Other figures" not in page
    tile = '<div class="tile warn"><dt>Sheep &lt;b&gt;</dt><dd class="value">7</dd><dd class="note">none asleep</dd>'
    figures = page[page.index("<h2>All figures</h2>") :]
    assert figures.index("Overlaps, undecided") < figures.index(tile) < figures.index("Lost updates")
    assert "<h2>The sheep</h2>" in page
    assert "<p>All are there.</p>" in page
    assert '<tr><th>north</th><td class="num">7</td><td>Dolly</td></tr>' in page
    assert page.index("Before.") < page.index("All are there.") < page.index("Dolly") < page.index("After.")

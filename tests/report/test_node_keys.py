"""What the reports say about the keys on the nodes."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from harness.checkers.judge import judge
from harness.report import node_keys
from harness.report.page import render_page
from harness.report.summary import render_summary
from harness.verdict import Verdict
from tests.judge.histories import History


def left_behind(**config: object) -> History:
    history = History(nodes=2, **config).watch("n1", "n2").section("c1", 10, 40).shows("c1", "v1")
    history.seen("n1", "set", 9, "v1", ttl=100).seen("n1", "deleted", 81)
    return history.seen("n2", "set", 9, "v1", ttl=100).seen("n2", "deleted", 30).seen("n2", "blind", 1000)


def verdict(history: History) -> Verdict:
    return judge(history.recorded())


def test_the_lines_of_a_run_that_left_keys_behind() -> None:
    found = verdict(left_behind())
    assert node_keys.orphans_line(found) == (
        "1 key without an owner on a node, 40 ms in all, the longest 40 ms: not released 1; n1, n2 out of sight for "
        "some time"
    )
    assert node_keys.beliefs_line(found) == (
        "1 of 1 section without a majority behind them, up to 10 ms: deleted 1; on single nodes, while held: deleted 1"
    )
    assert node_keys.overruns_line(found) is None


def test_a_row_a_node() -> None:
    (first, cells), (second, _) = node_keys.node_rows(verdict(left_behind()))
    assert (first, second) == ("n1", "n2")
    assert dict(zip(node_keys.NODE_COLUMNS, cells, strict=True)) == {
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


def test_calls_that_took_too_long() -> None:
    history = History().op("c1", "acquire", "fail", 1, 0, 900).op("c1", "acquire", "fail", 1, 901, 902)
    assert node_keys.overruns_line(verdict(history)) == (
        "1 of 2 acquire calls took longer than the TTL (100 ms), up to 900 ms"
    )
    history.acquire_limit_ms = 400
    assert node_keys.overruns_line(verdict(history)) == (
        "1 of 2 acquire calls took longer than the lock allows (400 ms), up to 900 ms"
    )


def test_a_run_that_could_not_be_watched_says_so_and_one_that_was_not_to_be_says_nothing() -> None:
    history = History().section("c1", 10, 40)
    assert node_keys.rows(verdict(history)) == [("keys", "the nodes were not watched: logs/witness.log says why")]
    assert node_keys.node_rows(verdict(history)) == []
    assert node_keys.rows(verdict(History(witness="off").section("c1", 10, 40))) == []


def test_nothing_left_behind_is_worth_a_line() -> None:
    history = History(nodes=1).watch("n1").section("c1", 10, 40).shows("c1", "v1").seen("n1", "set", 9, "v1", ttl=100)
    history.seen("n1", "deleted", 41).seen("n1", "blind", 1300)
    assert node_keys.rows(verdict(history)) == [
        ("keys", "none was left on a node without an owner"),
        ("beliefs", "0 of 1 section (95 % upper bound 98 %) without a majority behind them"),
    ]


def test_terminal_and_page_tell_it() -> None:
    run = left_behind().recorded()
    found = judge(run)
    console = Console(width=200, record=True)
    console.print(render_summary(run, found, Path("/runs/x"), "again", {}))
    for text in (console.export_text(), render_page(run, found, {})):
        assert "1 key without an owner on a node" in text
        assert "without a majority behind them" in text
    assert "The keys on the nodes" in render_page(run, found, {})
    unwatched = History(witness="off").section("c1", 10, 40).recorded()
    assert "The keys on the nodes" not in render_page(unwatched, judge(unwatched), {})

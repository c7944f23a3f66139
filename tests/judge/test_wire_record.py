"""How far the record of the links reaches is in the verdict, and what stands on it is not guessed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.checkers import link_use
from harness.checkers.judge import judge
from harness.checkers.wire_record import Figures, check
from harness.history.run_tables import ForeignBytes, WireGaps
from tests.golden import Golden
from tests.judge.histories import History, ms


def rows(gaps: WireGaps) -> list[str]:
    figures = judge(replace(History().section("c1", 10, 20).recorded(), wire_gaps=gaps)).of(Figures)
    return [] if figures is None else [row.text for row in figures.rows()]


@pytest.mark.parametrize("ended", [12_300, 0, -250], ids=str)
def test_a_record_that_became_too_large_says_until_when_it_is_one(ended: float, golden: Golden) -> None:
    started_ns = History().recorded().timeline.start_ns
    golden("\n".join(rows(WireGaps(ended_ns=started_ns + ms(ended) - ms(0)))))


def test_bytes_of_another_protocol_are_counted_by_link(golden: Golden) -> None:
    foreign = (ForeignBytes("c3", "n2", "Redis", 4096), ForeignBytes("c4", "n2", "Valkey", 1))
    golden("\n".join(rows(WireGaps(foreign=foreign))))


@pytest.mark.parametrize(("links", "more"), [(4, None), (5, "1 more link"), (9, "5 more links")])
def test_of_many_links_some_are_named(links: int, more: str | None) -> None:
    said = rows(WireGaps(foreign=tuple(ForeignBytes("c1", f"n{at}", "Redis", 9) for at in range(links))))
    assert len(said) == 4 + (more is not None)
    assert more is None or said[-1] == f"{more} carried bytes of another protocol"


def test_it_is_on_the_page_too() -> None:
    (part,) = Figures(ended_ms=1.0, foreign=(ForeignBytes("c1", "n1", "Redis", 2),)).parts()
    assert [sentence[:5] for sentence in part.sentences] == ["The r", "C1's "]


def test_of_a_whole_record_nothing_is_said() -> None:
    assert rows(WireGaps()) == []
    assert check(History().recorded()).figures is None


def test_how_much_went_over_a_link_of_another_protocol_is_not_guessed() -> None:
    history = History().section("c1", 0, 5).section("c1", 10, 15, number=2).section("c1", 20, 25, number=3)
    history.fault("f1", 20, 200, cut_links=(("c1", "n1"),)).sent("c1", 0, 0, 0)
    run = history.recorded()
    assert run.traffic is not None
    figures = link_use.check(run).figures
    assert isinstance(figures, link_use.Figures)
    assert figures.around, "all links are known, and unused"
    known = replace(run, traffic=run.traffic[1:])
    figures = link_use.check(known).figures
    assert isinstance(figures, link_use.Figures)
    assert figures.around == (), "what went over the link to n1 is not known"

"""The whole answer of a campaign in a few sentences, and the rates for one picture, from the grid's `Headline`."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

from harness.campaign import wording
from harness.campaign.aggregate import UNITS, Summary, Unit, pooled, ratio_of_speeds
from harness.campaign.grid import Headline
from harness.campaign.statistics import Rate


def rows(headline: Headline, found: Sequence[Summary]) -> list[tuple[str, Unit, Rate]]:
    """Label, unit and rate of each pool, in the order of the grid."""
    return [
        (pool.label, *pooled([each for each in found if each.cell.name in pool.cells]))
        for pool in headline.rates.values()
    ]


def sentences(headline: Headline, found: Sequence[Summary]) -> str:
    """The text with every figure in its place."""
    by_name = {summary.cell.name: summary for summary in found}
    rates = zip(headline.rates, rows(headline, found), strict=True)
    said = {name: wording.counted(rate, UNITS[unit]) for name, (_, unit, rate) in rates}
    for name, pairs in headline.speeds.items():
        ratios = [ratio_of_speeds(by_name[first].by_seed, by_name[second].by_seed) for first, second in pairs]
        said[name] = wording.span([ratio[0] for ratio in ratios if ratio])
    for name, cells in headline.availabilities.items():
        times = [by_name[cell].total for cell in cells if by_name[cell].total.load_s]
        said[name] = wording.shares([total.reachable_s / total.load_s for total in times])
    return Template(headline.text).substitute(said)

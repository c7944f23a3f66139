"""The figures of a campaign as rows of tables: of one configuration, of all, and of two compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fencepost.text import MISSING, count, printable
from harness.campaign import wording
from harness.campaign.adding import rows_of
from harness.campaign.aggregate import Contrast, Summary
from harness.campaign.document import DataTable


def details(summary: Summary) -> list[tuple[str, str]]:
    """Everything about one cell, as rows."""
    unit, rate = summary.main_rate
    return [
        ("Runs", wording.verdicts(summary)),
        (f"Violations by {unit}", wording.counted(rate)),
        *((f"Violations by {u}", wording.counted(r)) for u, r in summary.per_unit.items() if u != unit and r.trials),
        *(
            (f"Runs with an overlap, {whose}", wording.counted(summary.violated[blame]))
            for blame, whose in (("client", "a client to blame"), ("undecided", "undecided"))
        ),
        *rows_of(summary.total),
        *_disturbed(summary),
    ]


def _disturbed(summary: Summary) -> Iterator[tuple[str, str]]:
    if summary.disturbed:
        reasons = "; ".join(sorted({reason for run in summary.disturbed for reason in run})[:3])
        yield "Runs that were too disturbed to compare", f"{count(len(summary.disturbed))}: {reasons}"


def figures_of(found: Sequence[Summary]) -> DataTable:
    """A row for each cell, a column for each figure that one of them has."""
    rows = [{"": printable(summary.cell.name), **dict(details(summary))} for summary in found]
    heads = list(dict.fromkeys(head for row in rows for head in row))
    return DataTable(heads, [[row.get(head, MISSING) for head in heads] for row in rows], "wide")


def comparison(contrast: Contrast) -> tuple[str, ...]:
    """A row of the table of comparisons."""
    first, second = printable(contrast.first.name), printable(contrast.second.name)
    if contrast.part.kind == "cost":
        return first, second, wording.speed(contrast)
    p = contrast.difference.p if contrast.difference else None
    return (
        first, second, contrast.unit, wording.difference(contrast), wording.p_value(p),
        wording.p_value(contrast.p_holm), wording.p_value(contrast.p_paired), wording.p_value(contrast.p_paired_holm),
        wording.speed(contrast),
    )  # fmt: skip


HEADS: Final[Mapping[str, tuple[str, ...]]] = {
    "safety": (
        "from", "to", "rate per", "difference (95 % interval)", "p", "p (Holm)", "p by seed", "p by seed (Holm)",
        "acquisitions/s",
    ),
    "cost": ("from", "to", "acquisitions/s"),
}  # fmt: skip

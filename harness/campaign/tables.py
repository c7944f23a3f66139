"""The figures of a campaign as rows of tables: of one configuration, of all, and of two compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fencepost.text import MISSING, count, milliseconds, number, plural, printable
from harness.campaign import wording
from harness.campaign.aggregate import Contrast, Summary
from harness.campaign.measure import BLAMES


def details(summary: Summary) -> list[tuple[str, str]]:
    """Everything about one cell, as rows."""
    waits = summary.majority_waits_ms
    unit, rate = summary.main_rate
    return [
        ("Runs", wording.verdicts(summary)),
        ("Faults", f"{count(summary.faults_observed)} of {count(summary.faults_planned)} planned were seen to work"),
        ("Sections", count(summary.sections)),
        ("Node outages", count(summary.node_outages)),
        ("Opportunities", count(summary.opportunities) if summary.opportunities is not None else "not counted"),
        (f"Violations by {wording.unit(unit)}", wording.counted(rate)),
        *(
            (f"Violations by {wording.unit(u)}", wording.counted(r))
            for u, r in summary.per_unit.items()
            if u != unit and r.trials
        ),
        *(
            (
                f"Runs with an overlap, {whose}",
                f"{wording.counted(summary.violated[blame])}; {plural(summary.overlaps[blame], 'pair')}",
            )
            for blame, whose in (("client", "a client to blame"), ("undecided", "undecided"))
        ),
        ("Acquisitions a second", number(summary.per_second)),
        ("Acquire call", _p50_p99(summary.acquire_p50_ms, summary.acquire_p99_ms)),
        ("Availability", wording.percent(summary.availability) if summary.availability is not None else MISSING),
        (
            "Wait after a majority went down",
            f"median {milliseconds(summary.majority_wait_ms)}, longest {milliseconds(max(waits))}, {len(waits)} times"
            if waits
            else "none went down",
        ),
        ("Longest gap with a majority in reach", milliseconds(summary.longest_gap_ms)),
        *(
            [("Fsync on a node's disk", _p50_p99(summary.fsync_p50_ms, summary.fsync_p99_ms))]
            if summary.fsync_p50_ms is not None
            else []
        ),
        ("Lost updates", _lost(summary)),
        *_keys(summary),
        *_machine(summary),
        *((printable(name), count(number)) for name, number in summary.totals.items()),
    ]


def _keys(summary: Summary) -> list[tuple[str, str]]:
    """What the nodes held, where it was watched."""
    rows = []
    if summary.orphans is not None:
        rows.append(("Keys left without an owner", _orphans(summary)))
    if summary.unfounded is not None:
        rows.append(("Sections not backed by a majority", count(summary.unfounded)))
    if summary.overruns:
        rows.append(("Acquire calls that took longer than allowed", count(summary.overruns)))
    return rows


def _machine(summary: Summary) -> Iterator[tuple[str, str]]:
    """How busy the machine was; nothing for runs that kept no beats."""
    for who, all_late in (
        ("Clients", [one.clients for one in summary.machine if one.clients]),
        ("The harness", [one.harness for one in summary.machine if one.harness]),
    ):
        if all_late:
            p99, longest = (max(getattr(late, name) for late in all_late) for name in ("p99_ms", "longest_ms"))
            yield (
                f"{who} woke up late by",
                f"p99 {milliseconds(p99)} in the worst run, longest {milliseconds(longest)}; CPU starvation up to "
                f"{number(max(late.waited_percent for late in all_late))} % of the time",
            )
    if latest := [one.latest.late_ms for one in summary.machine if one.latest]:
        yield "Faults were injected late by", f"up to {milliseconds(max(latest))}"
    if summary.disturbed:
        reasons = "; ".join(sorted({reason for run in summary.disturbed for reason in run})[:3])
        yield "Runs that were too disturbed to compare", f"{count(len(summary.disturbed))}: {reasons}"


def _lost(summary: Summary) -> str:
    if not summary.acknowledged:
        return MISSING
    return f"{count(summary.lost)} of {count(summary.acknowledged)} acknowledged"


def _orphans(summary: Summary) -> str:
    longest = f", the longest {milliseconds(summary.orphan_longest_ms)}" if summary.orphans else ""
    return f"{count(summary.orphans)}{longest}"


FIGURES: Final = (
    "configuration", "runs", "sections", "opportunities", "node outages", "lock to blame: runs",
    "client to blame: runs", "undecided: runs", "acquisitions/s", "acquire p50", "p99", "availability",
    "wait after a majority went down", "lost updates", "keys without an owner", "sections not backed by a majority",
    "acquire calls that took too long", "clients woke up late (p99)", "runs too disturbed",
)  # fmt: skip


def figures_row(summary: Summary) -> tuple[str, ...]:
    """A row of the table of figures, under `FIGURES`."""
    return (
        printable(summary.cell.name),
        wording.verdicts(summary),
        count(summary.sections),
        count(summary.opportunities),
        count(summary.node_outages),
        *(wording.counted(summary.violated[blame]) for blame in BLAMES),
        number(summary.per_second),
        milliseconds(summary.acquire_p50_ms),
        milliseconds(summary.acquire_p99_ms),
        wording.percent(summary.availability) if summary.availability is not None else MISSING,
        milliseconds(summary.majority_wait_ms),
        _lost(summary),
        _orphans(summary),
        count(summary.unfounded),
        count(summary.overruns),
        milliseconds(max((one.clients.p99_ms for one in summary.machine if one.clients), default=None)),
        count(len(summary.disturbed)) if summary.machine else MISSING,
    )


def comparison(contrast: Contrast) -> tuple[str, ...]:
    """A row of the table of comparisons."""
    first, second = wording.names(contrast)
    if contrast.part.kind == "cost":
        return first, second, wording.speed(contrast)
    p = contrast.difference.p if contrast.difference else None
    return (
        first, second, wording.unit(contrast.unit), wording.difference(contrast), wording.p_value(p),
        wording.p_value(contrast.p_holm), wording.p_value(contrast.p_paired), wording.speed(contrast),
    )  # fmt: skip


HEADS: Final[Mapping[str, tuple[str, ...]]] = {
    "safety": (
        "from", "to", "rate per", "difference (95 % interval)", "p (Fisher)", "p (Holm)", "p by seed (McNemar)",
        "acquisitions/s",
    ),
    "cost": ("from", "to", "acquisitions/s"),
}  # fmt: skip


def _p50_p99(p50_ms: float | None, p99_ms: float | None) -> str:
    return f"p50 {milliseconds(p50_ms)}, p99 {milliseconds(p99_ms)}"

"""What a campaign was and what its results are, as sentences and tables for every form of the report."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Final

from fencepost.text import MISSING, count, milliseconds, number, plural, printable
from harness.campaign import wording
from harness.campaign.aggregate import Contrast, Summary, contrasts
from harness.campaign.folder import Campaign, RunLine
from harness.campaign.grid import Grid, Part
from harness.campaign.measure import BLAMES
from harness.config import RunConfig

INTRODUCTION: Final = (
    "A distributed lock lets one of many programs at a time do something that two must not do at once. The locks "
    "compared here keep one key on each of several Redis servers: whoever set the key on a majority of them holds the "
    "lock, until it gives it back or until the key expires. The expiry is counted from a time to live (TTL).",
    "In each run real client processes compete for the lock on real servers, faults are injected on a schedule that is "
    "drawn from a seed, and a judge goes through the record afterwards. Two clients inside at the same moment, each "
    "within the time that its lock had told it, are a violation, and the lock is to blame.",
)


LEFT_BEHIND: Final = "keys without an owner, acquires that took too long, sections not backed by a majority"


@dataclass(frozen=True, slots=True)
class Box:
    """One field of a matrix: the cell's summary and its texts. `tone`: `bad` for a violation, else empty."""

    summary: Summary
    value: str
    note: str
    tone: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows are the values of the part's first axis, columns all combinations of the next ones, a matrix for each value
    of the last where there are many."""

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Box | None, ...]], ...]


def matrices(part: Part, found: Sequence[Summary]) -> Iterator[Matrix]:
    """The answer to the question of this part."""
    return _matrices(part, found, _box)


def left_behind(part: Part, found: Sequence[Summary]) -> Iterator[Matrix]:
    """What `LEFT_BEHIND` names; none where no node was watched."""
    if part.kind == "safety" and any(s.orphans is not None for s in found):
        yield from _matrices(part, found, _left_box)


def _matrices(part: Part, found: Sequence[Summary], box: Callable[[Summary], Box]) -> Iterator[Matrix]:
    axes = part.axes
    if not axes or any(cell.at.keys() != axes.keys() for cell in part.cells):
        yield Matrix("", "", ("all",), tuple((printable(s.cell.name), (box(s),)) for s in found))
        return
    first, *others = axes
    apart = (
        others[-1:] if len(others) > 2 or (len(others) == 2 and len(axes[others[0]]) * len(axes[others[1]]) > 6) else []
    )
    across = [axis for axis in others if axis not in apart]
    by_place = {tuple(s.cell.at[axis] for axis in axes): s for s in found}
    for picked in axes[apart[0]] if apart else [""]:
        columns = list(product(*(axes[axis] for axis in across)))
        rows: list[tuple[str, tuple[Box | None, ...]]] = []
        for value in axes[first]:
            boxes: list[Box | None] = []
            for column in columns:
                place = {
                    first: value,
                    **dict(zip(across, column, strict=True)),
                    **({apart[0]: picked} if apart else {}),
                }
                summary = by_place.get(tuple(place[axis] for axis in axes))
                boxes.append(box(summary) if summary else None)
            rows.append((printable(value), tuple(boxes)))
        heads = tuple(
            printable(" · ".join(column)) or ("rate" if part.kind == "safety" else "cost") for column in columns
        )
        yield Matrix(printable(picked), printable(first), heads, tuple(rows))


def _box(summary: Summary) -> Box:
    if not sum(summary.verdicts.values()):
        return Box(summary, MISSING, "no run yet", "")
    if summary.part.kind == "cost":
        value = f"{number(summary.per_second)}/s"
        tails = f"{milliseconds(summary.acquire_p50_ms)}, p99 {milliseconds(summary.acquire_p99_ms)}"
        return Box(summary, value, f"acquire p50 {tails}{_too_disturbed(summary)}", "")
    _, rate = summary.main_rate
    if not rate.trials:
        return Box(summary, MISSING, "nothing to count yet", "")
    value = f"{rate.events:,} of {rate.trials:,}"
    note = f"{wording.interval(rate)}{_too_disturbed(summary)}"
    return Box(summary, value, note, "bad" if rate.events else "")


def _too_disturbed(summary: Summary) -> str:
    runs = sum(summary.verdicts.values())
    return f"; {len(summary.disturbed):,} of {plural(runs, 'run')} too disturbed" if summary.disturbed else ""


def _left_box(summary: Summary) -> Box:
    said = [f"up to {milliseconds(summary.orphan_longest_ms)}"] if summary.orphans else []
    if summary.overruns:
        said.append(f"{plural(summary.overruns, 'acquire')} took too long")
    if summary.unfounded:
        said.append(f"{plural(summary.unfounded, 'section')} not backed by a majority")
    keys = MISSING if summary.orphans is None else plural(summary.orphans, "key")
    return Box(summary, keys, ", ".join(said), "")


def answer(part: Part, found: Sequence[Summary]) -> list[str]:
    """What the matrices say, in sentences."""
    if part.kind == "cost":
        return _cost(part, found)
    done = [s for s in found if s.violated["lock"].trials]
    if not done:
        return ["No run is finished yet."]
    units = {s.main_rate[0] for s in done}
    what = {
        "opportunity": "Opportunities are counted: a server went down while the loss of its key could matter.",
        "node outage": "Node outages are counted: a fault took one or more servers down.",
        "run": "Runs are counted.",
    }
    counting = what[next(iter(units))] if len(units) == 1 else "What is counted stands with each rate below."
    hit = [s for s in done if s.overlaps["lock"]]
    spared = [s for s in done if not s.overlaps["lock"]]
    said = []
    if hit:
        named = ", ".join(printable(s.cell.name) for s in hit[:6]) + (
            f" and {len(hit) - 6} more" if len(hit) > 6 else ""
        )
        said.append(
            f"Two clients were inside at once, and the lock is to blame, in {len(hit)} of "
            f"{plural(len(done), 'configuration')}: {named}."
        )
    if spared:
        worst = max(spared, key=lambda s: s.main_rate[1].high)
        unit, rate = worst.main_rate
        which = "In the others" if hit else f"In all {plural(len(done), 'configuration')}"
        said.append(
            f"{which} none was seen. That is no proof: with the fewest trials ({printable(worst.cell.name)}, "
            f"{rate.trials:,} {wording.unit(unit, many=True)}) the rate may still be "
            f"up to {wording.percent(rate.high, up=True)}; each cell shows its own bound."
        )
    return [*said, counting]


def _cost(part: Part, found: Sequence[Summary]) -> list[str]:
    said = []
    for axis in list(part.axes)[:1]:
        baseline = part.baseline.get(axis, part.axes[axis][0])
        compared = [c for c in contrasts(part, found) if c.axis == axis and c.speed]
        for value in part.axes[axis]:
            ratios = [c.speed[0] for c in compared if c.second.at[axis] == value and c.speed]
            if ratios:
                span = f"{min(ratios):.2f}" if len(ratios) == 1 else f"{min(ratios):.2f} to {max(ratios):.2f}"
                said.append(f"{value}: {span} times the acquisitions of {baseline}")
    return [f"{printable('; '.join(said))}."] if said else ["No run is finished yet."]


def done(campaign: Campaign, lines: Sequence[RunLine], configs: Mapping[str, RunConfig]) -> list[str]:
    """What was done, from the grid and the record."""
    grid = campaign.grid
    finished = [line for line in lines if line.error is None]
    paragraphs = []
    for part in grid.parts:
        config = configs[part.cells[0].name]
        same = _common(config, [configs[cell.name] for cell in part.cells])
        paragraphs.append(
            f"“{part.title}” {plural(len(part.cells), 'configuration')}, {plural(part.seeds, 'run')} of each. {same}"
        )
    took = milliseconds(sum(line.took_s for line in finished) * 1e3) if finished else "no time yet"
    paragraphs.append(
        f"{count(len(finished))} of {plural(grid.run_count, 'run')} are finished; they took {took}. All configurations "
        "of a part got the same seeds. All of them ran with the first seed, then all with the second, so that a "
        "disturbance of the machine hits all alike."
    )
    fsyncs = [line.figures.fsync_ms for line in finished if line.figures and line.figures.fsync_ms]
    if fsyncs:
        p50, p99 = (sorted(f[q] for f in fsyncs) for q in ("p50", "p99"))
        paragraphs.append(
            "Each server had a disk of its own, and before the load of each run it was measured what it costs to have "
            f"a small write reach it (fsync): {milliseconds(median(p50))} in the middle ({milliseconds(p50[0])} to "
            f"{milliseconds(p50[-1])} over {plural(len(fsyncs), 'run')}), p99 {milliseconds(median(p99))}."
        )
    revisions = sorted({line.revision for line in finished if line.revision})
    if len(revisions) > 1:
        paragraphs.append(f"The runs were made by different revisions of the program: {', '.join(revisions)}.")
    return paragraphs


def machine_line(machine: Mapping[str, object]) -> str:
    """`Linux 6.18.0, 2 cores, Python 3.11.2`."""
    kernel, cores, python = (machine.get(name, MISSING) for name in ("kernel", "cores", "python"))
    text = f"Linux {kernel}, {cores} cores, Python {python}"
    return printable(text)


def command(grid: Grid, cell: str, seed: int | None = None) -> str:
    """The command that makes a run of this cell again."""
    return shlex.join(["fencepost", "test", *grid.words(cell, grid.first_seed if seed is None else seed)])


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
                f"p99 {milliseconds(p99)} in the worst run, longest {milliseconds(longest)}; waited up to "
                f"{number(max(late.waited_percent for late in all_late))} % of the time for a processor",
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


def _common(config: RunConfig, all_of_them: Sequence[RunConfig]) -> str:
    """The options that people ask for first, as far as all configurations agree on them."""

    def agreed(name: str) -> bool:
        return all(getattr(c, name) == getattr(config, name) for c in all_of_them)

    said = []
    if agreed("duration_ms"):
        said.append(f"{milliseconds(config.duration_ms)} of load in each run")
    if agreed("lock") and agreed("lock_command") and agreed("name"):
        said.append(f"the lock {config.lock_name}")
    for name, noun in (("clients", "client"), ("nodes", "server"), ("keys", "key")):
        if agreed(name):
            said.append(plural(getattr(config, name), noun))
    if agreed("ttl_ms"):
        said.append(f"a TTL of {milliseconds(config.ttl_ms)}")
    if agreed("nemesis"):
        said.append("no faults" if config.nemesis == "none" else f"faults: {config.nemesis}")
    text = ", ".join(said)
    return printable(text[:1].upper() + text[1:] + ".") if said else ""

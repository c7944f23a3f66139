"""What a campaign was and what its results are, as sentences and tables for every form of the report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from fencepost.text import count, milliseconds, percent, plural, printable
from harness.campaign import wording
from harness.campaign.aggregate import UNITS, Summary, contrasts
from harness.campaign.folder import Campaign, RunLine
from harness.campaign.grid import Grid, Part
from harness.config import RunConfig

INTRODUCTION: Final = (
    "A distributed lock lets one of many programs at a time do something that two must not do at once. The locks "
    "compared here keep one key on each of several Redis servers: the client that owns a majority of keys holds the "
    "lock, until it gives it back or until the key expires. The expiry is counted from a time to live (TTL).",
    "In each run real client processes compete for the lock on real servers, faults are injected on a schedule that is "
    "drawn from a seed, and a judge goes through the record afterwards. Two clients inside at the same moment, each "
    "with a valid lease, are a violation, and the lock is to blame.",
)


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
    hit = [s for s in done if s.violated["lock"].events]
    spared = [s for s in done if not s.violated["lock"].events]
    said = []
    if hit:
        more = f" and {len(hit) - 6} more" if len(hit) > 6 else ""
        named = ", ".join(printable(s.cell.name) for s in hit[:6]) + more
        said.append(
            f"Two clients were inside at once, and the lock is to blame, in {len(hit)} of "
            f"{plural(len(done), 'configuration')}: {named}."
        )
    if spared:
        worst = max(spared, key=lambda s: s.main_rate[1].high)
        unit, rate = worst.main_rate
        which = "the others" if hit else plural(len(done), "configuration")
        said.append(
            f"No violation was seen in {which}. That is no proof: where the fewest runs tried "
            f"({printable(worst.cell.name)}, {wording.count(rate, UNITS[unit])}), one may still "
            f"happen in up to {percent(rate.high, up=True)} of runs; each cell shows its own bound."
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
                said.append(f"{value}: {wording.span(ratios)} times the throughput of {baseline}")
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
            f"“{part.title}”: {plural(len(part.cells), 'configuration')}, {plural(part.seeds, 'run')} of each. {same}"
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
            f"a small write reach it (fsync): median {milliseconds(median(p50))} ({milliseconds(p50[0])} to "
            f"{milliseconds(p50[-1])} over {plural(len(fsyncs), 'run')}), p99 {milliseconds(median(p99))}."
        )
    return paragraphs


def command(grid: Grid, cell: str, seed: int | None = None) -> str:
    """The command that makes a run of this cell again."""
    _, played = grid.cells[cell]
    script = [played.script] if played.script else []
    words = grid.words(cell, grid.first_seed if seed is None else seed)
    return shlex.join(["fencepost", played.command, *script, *words])


def _common(config: RunConfig, all_of_them: Sequence[RunConfig]) -> str:
    """The options that people ask for first, as far as all configurations agree on them."""

    def agreed(name: str) -> bool:
        return all(getattr(c, name) == getattr(config, name) for c in all_of_them)

    shortest, longest = (milliseconds(pick(c.duration_ms for c in all_of_them)) for pick in (min, max))
    said = [f"{shortest if shortest == longest else f'{shortest} to {longest}'} of load in each run"]
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
    return printable(text[:1].upper() + text[1:] + ".")

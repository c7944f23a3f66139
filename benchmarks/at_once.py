"""How many runs at once leave verdicts, rates and lags as they are alone?
`python benchmarks/at_once.py FOLDER [--runs 20] [--rounds 2]`.

Three broken locks and two correct ones are played under partitions and pauses, with the same seeds, by 1, 2, 4, 6 and 8
workers on this machine: `fencepost compare --workers N`, but that nothing is made again. The levels come by turns, in
as many rounds as are asked for, so that a machine that grows slower treats them alike. FOLDER gets `runs.jsonl`, a line
for each run, and `report.md`, which is drawn from it also when the benchmark is interrupted:

- runs an hour, from the first run of a block to the end of its last one, and how late clients, the harness and faults
  were: the highest of each figure over the runs;
- how many runs were too disturbed to be compared, and which number `--workers auto` would find with these runs;
- for each lock, the share of the runs in which it was convicted, with its exact interval, the median time to the first
  finding, and how the share differs from that at the lowest number. `p` is adjusted for their count (Holm).
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from statistics import median
from time import monotonic

import msgspec
from rich.console import Console

from fencepost.errors import FencepostError
from fencepost.text import milliseconds
from harness.campaign.concurrency import FindingPace, Pace
from harness.campaign.dask_cluster import local_cluster
from harness.campaign.equipment import equipment
from harness.campaign.folder import RunLine
from harness.campaign.grid import Cell, Grid, Part, check
from harness.campaign.one_run import Made, Order
from harness.campaign.plan_order import in_order
from harness.campaign.play import Plan, make_plan
from harness.campaign.side_by_side import Workers
from harness.campaign.statistics import Count, Rate, difference, holm, rate, yes_or_no
from harness.campaign.wording import counted, p_value
from harness.campaign.workers_view import WorkersView
from harness.run.environment import revision_in_words

BROKEN = ("control-quorum-of-two", "control-no-validity-check", "control-release-without-comparing")
CORRECT = ("redlock", "redlock-token")
LOAD = {"cluster": "process", "nemesis": "partition+pause", "clients": "5", "duration": "12s"}
LIMIT_S = 600.0


class Block(msgspec.Struct, frozen=True):
    """Runs that were made one right after the other, `at_once` at a time, and how long that took."""

    at_once: int
    took_s: float
    lines: tuple[RunLine, ...]


def plan_of(seeds: int, first_seed: int) -> Plan:
    cells = tuple(Cell(lock, {"lock": lock}, {"lock": lock}) for lock in (*BROKEN, *CORRECT))
    part = Part(title="locks", cells=cells, seeds=seeds, options=LOAD)
    grid = Grid(name="at-once", title="Runs at once", question="", parts=(part,), first_seed=first_seed)
    return make_plan(check(grid), yes=True)


def played(plan: Plan, at_once: int, results: Path, out: Console) -> Block:
    """Every run of the plan once, by so many workers."""
    orders = [
        Order(
            cell=slot.cell,
            seed=slot.seed,
            words=tuple(plan.grid.words(*slot)),
            results=str(results),
            revision=revision_in_words(),
            at_once=at_once,
        )
        for slot in in_order(plan.grid)
    ]
    wanted = equipment(sorted({name for each in plan.configs.values() for name in (each.server, each.resource_server)}))
    lines = []
    with WorkersView(out) as view, local_cluster(at_once) as client:
        workers = Workers(client, wanted, view, Pace(at_once))
        began = monotonic()
        with closing(workers.play(orders, lambda _: LIMIT_S, lambda: False)) as outcomes:
            for order, made in outcomes:
                if made.line is None or made.failure is not None:
                    why = made.failure.text if made.failure else "it was taken down"
                    out.print(f"{order.cell}, seed {order.seed}, {at_once} at once, aborted: {why}")
                else:
                    lines.append(made.line)
                view.heading = f"[{len(lines)} of {len(orders)}, {at_once} at once]"
        took_s = monotonic() - began
    return Block(at_once, took_s, tuple(lines))


def report(blocks: Sequence[Block], command: str) -> Iterator[str]:
    """The lines of the report."""
    levels = sorted({block.at_once for block in blocks})
    lines = {level: [line for block in blocks if block.at_once == level for line in block.lines] for level in levels}
    yield "# How many runs at once?"
    yield ""
    cores, python = len(os.sched_getaffinity(0)), platform.python_version()
    made = f"at {revision_in_words()}, on {date.today()}"
    yield f"`{command}` on {cores} processors, Linux {platform.release()}, Python {python}, {made}."
    yield "Each run is 12 s of load by five clients, under partitions and pauses."
    yield ""
    heads = ("at once", "runs", "runs an hour", "clients late (p99, longest)", "harness late (p99, longest)")
    yield from head((*heads, "faults late", "too disturbed"))
    for level in levels:
        of = [block for block in blocks if block.at_once == level]
        hourly = 3600 * sum(len(block.lines) for block in of) / sum(block.took_s for block in of)
        yield f"| {level} | {len(lines[level])} | {hourly:.0f} | {' | '.join(lags(lines[level]))} |"
    yield ""
    yield found(lines)
    yield ""
    yield from head(("lock", *(f"{level} at once" for level in levels)))
    rates = {lock: {level: convicted(lines[level], lock) for level in levels} for lock in (*BROKEN, *CORRECT)}
    adjusted = differences(rates, levels)
    for lock, by_level in rates.items():
        texts = [
            counted(by_level[level]) + found_after(lines[level], lock) + adjusted.get((lock, level), "")
            for level in levels
        ]
        yield f"| {lock} | " + " | ".join(texts) + " |"
    yield ""


def head(names: Sequence[str]) -> Iterator[str]:
    """The first two lines of a table."""
    yield "| " + " | ".join(names) + " |"
    yield "|---" * len(names) + "|"


def lags(lines: Sequence[RunLine]) -> Iterator[str]:
    figures = [line.figures for line in lines if line.figures is not None]
    machines = [each.machine for each in figures if each.machine is not None]
    for late in ([each.clients for each in machines], [each.harness for each in machines]):
        seen = [each for each in late if each is not None]
        p99, longest = (max((getattr(each, name) for each in seen), default=0) for name in ("p99_ms", "longest_ms"))
        yield f"{milliseconds(p99)}, {milliseconds(longest)}"
    yield milliseconds(max((each.latest.late_ms for each in machines if each.latest), default=0))
    yield f"{sum(bool(each.disturbed) for each in figures)} of {len(figures)}"


def found(lines: dict[int, list[RunLine]]) -> str:
    """Which number the rule of `--workers auto` finds if it is shown these runs."""
    pace, left = FindingPace(max(lines)), dict(lines)
    while (shown := left.pop(pace.count, None)) is not None:
        for line in shown:
            pace.learn(
                Order(cell=line.cell, seed=line.seed, words=(), results="", revision="", at_once=line.at_once),
                Made(line),
            )
    return f"Of these numbers, `--workers auto` finds {pace.known} to be the highest at which runs go undisturbed."


def convicted(lines: Sequence[RunLine], lock: str) -> Rate:
    verdicts = [line.verdict for line in lines if line.cell == lock]
    return rate(verdicts.count("violation"), len(verdicts))


def found_after(lines: Sequence[RunLine], lock: str) -> str:
    """The median time from the start of a run to the first finding against the lock, in words."""
    figures = [line.figures for line in lines if line.cell == lock and line.figures is not None]
    told = [[one.at_ms for one in each.blamed if one.at_ms is not None] for each in figures]
    first_ms = [min(times) for times in told if times]
    return f", after {milliseconds(median(first_ms))}" if first_ms else ""


def _of_runs(found: Rate) -> list[Count]:
    return yes_or_no(found.events, found.runs)


def differences(rates: dict[str, dict[int, Rate]], levels: Sequence[int]) -> dict[tuple[str, int], str]:
    """How each rate differs from that of the lowest level, in words."""
    found = {
        (lock, level): apart
        for lock, by_level in rates.items()
        for level in levels[1:]
        if (apart := difference(_of_runs(by_level[levels[0]]), _of_runs(by_level[level]))) is not None
    }
    adjusted = holm([apart.p for apart in found.values()])
    return {
        place: f"; {100 * apart.share:+.0f} points ({100 * apart.low:+.0f} to {100 * apart.high:+.0f}), p {p_value(p)}"
        for (place, apart), p in zip(found.items(), adjusted, strict=True)
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--levels", default="1,2,4,6,8", help="how many at once (default: 1,2,4,6,8)")
    parser.add_argument("--runs", type=int, default=20, help="of each lock at each level (default: 20)")
    parser.add_argument("--rounds", type=int, default=2, help="in which they are made (default: 2)")
    asked = parser.parse_args()
    out, told = Console(), f"--levels {asked.levels} --runs {asked.runs} --rounds {asked.rounds}"
    asked.folder.mkdir(parents=True, exist_ok=True)
    each, blocks = max(1, asked.runs // asked.rounds), list[Block]()
    try:
        for number in range(asked.rounds):
            plan = plan_of(each, 1 + number * each)
            for level in map(int, asked.levels.split(",")):
                block = played(plan, level, asked.folder.absolute() / "runs", out)
                out.print(f"round {number + 1}, {level} at once: {len(block.lines)} runs in {block.took_s:.0f} s")
                with (asked.folder / "runs.jsonl").open("ab") as log:
                    log.write(msgspec.json.encode(block) + b"\n")
                blocks.append(block)
    except FencepostError as error:
        out.print(str(error))
        return error.exit_code
    finally:
        if blocks:
            text = "\n".join(report(blocks, f"python benchmarks/at_once.py {told}"))
            (asked.folder / "report.md").write_text(text)
            sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

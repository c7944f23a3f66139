"""The page of the comparison of systems: what fits which need, and the figures, each with the cells that it is from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from math import isfinite
from typing import Final

import msgspec

from fencepost.text import MISSING, count, listed, milliseconds, number, percent, plural, printable
from harness.campaign import facts, wording
from harness.campaign.document import (
    Block,
    Bullets,
    Code,
    CommandLine,
    DataTable,
    Folded,
    Heading,
    Paragraph,
    Strong,
    StudyDocument,
    TableField,
    folders,
    paragraphs,
)
from harness.campaign.grid import Grid
from harness.campaign.study import Played
from harness.studies.systems.settle import (
    NEEDS,
    Recommendation,
    RunShare,
    RunSpread,
    SystemRow,
    choose,
    ends,
    figures_of,
)
from harness.studies.systems.table import FAULTS, TOKENS, TTL_MS, WITH, WITHOUT, Kind

INTRODUCTION: Final = (
    "“Use a real coordination service instead”, says one side of the debate; “a token is all you need”, the other. "
    "Here the same clients, data, faults and judge meet locks on several systems.",
    f"Each lock gets a TTL of {milliseconds(TTL_MS)}, the shortest that etcd grants; a session or a transaction of "
    "PostgreSQL has none. Redis keeps nothing on disk, and a killed server stays down for longer than any lease lasts. "
    "etcd and ZooKeeper fsync as they come, and PostgreSQL each commit.",
    wording.METHOD,
)
READING: Final = (
    "A field leads to the cells that it comes from. A rate has its 95 % interval; other figures are the median of the "
    "runs, with the lowest and the highest. “Served” is the share of quarters of a second in which a client was "
    "granted the lock. A dash: no run shows it."
)
_KINDS: Final[Mapping[Kind, str]] = {
    "one": "one server",
    "independent": "independent servers",
    "primary": "a primary",
    "group": "a group",
}
_Text = Callable[[object], str]


def document_of(played: Played, rows: Sequence[SystemRow]) -> StudyDocument:
    grid, shown = played.campaign.grid, [row for row in rows if row.runs]
    return played.document(
        [
            Paragraph(headline(rows), "lead"),
            Heading("What fits which need"),
            DataTable(("need", "recommended", "not told from it"), [_advice(choose(n, shown)) for n in NEEDS], "said"),
            Paragraph(
                "A lock that was to blame for two clients inside at once is never recommended, nor is one that lost "
                "data where it must be kept. “Not told from it”: its interval and that of the recommended one "
                "overlap, or one of the two is of a single run, so more runs may turn the order.",
                "hint",
            ),
            Paragraph(READING, "hint"),
            *_tables(shown),
            Heading("How it was tested"),
            *paragraphs(INTRODUCTION),
            Heading("What was done to them"),
            DataTable(("fault", "what it is", "of", "options"), list(_faults()), "figures"),
            *_left_out(rows),
            *(block for row in shown for block in _cells(grid, row)),
        ],
        {"systems": [_numbers(row) for row in rows], "needs": [_choice(choose(need, shown)) for need in NEEDS]},
        left_out=[f"{row.system.name}: {row.cannot}" for row in rows if row.cannot],
    )


def headline(rows: Sequence[SystemRow]) -> str:
    """What the runs say of safety, in a few sentences."""
    shown = [row for row in rows if row.exclusive.rate.runs]
    if not shown:
        return "No run was judged yet."
    broken = [row.system.name for row in shown if row.broken.rate.events]
    lost = [row.system.name for row in shown if row.runs_that_lost]
    guarded = [row.system.name for row in shown if row.lost[WITH].rate.runs]
    failed = [row.system.name for row in shown if row.lost[WITH].rate.events]
    runs = sum(row.exclusive.rate.runs for row in shown)
    said = [
        f"{plural(len(shown), 'system')}, {plural(runs, 'run')} under faults.",
        f"Two clients were inside at once by the lock's fault on {_of(broken)}.",
        f"Without tokens, data was lost on {_of(lost)}.",
    ]
    if guarded:
        said.append(f"With tokens ({plural(len(guarded), 'system')} tried), it was lost on {_of(failed)}.")
    return " ".join(said)


def _of(names: Sequence[str]) -> str:
    return listed(names) if names else "none"


def _tables(rows: Sequence[SystemRow]) -> Iterator[Block]:
    def table(title: str, heads: Sequence[str], fields: Callable[[SystemRow], Sequence[TableField]]) -> list[Block]:
        shown = [(_name(row), *fields(row)) for row in rows]
        return [Heading(title), DataTable(("system", *heads), shown, "figures")]

    heads = ("two inside at once", "by the lock's fault", "data lost, holder paused", "the same with tokens")
    yield from table(
        "Safe?",
        (*heads, "data lost otherwise"),
        lambda row: [
            *(_share(row, each) for each in (row.exclusive, row.broken, row.lost[WITHOUT])),
            _guarded(row),
            _share(row, row.lost_otherwise),
        ],
    )
    faults = list(dict.fromkeys(fault for row in rows for fault in row.served))
    yield from table(
        "Available?",
        (*(f"served: {fault}" for fault in faults), "dead holder's lock free after", "works after an outage"),
        lambda row: [
            *(_share(row, row.served.get(fault), counts=False) for fault in faults),
            *(_spread(row, each, milliseconds) for each in (row.dead_holder_ms, row.outage_ms)),
        ],
    )
    crowds = list(dict.fromkeys(crowd for row in rows for crowd in row.per_second))
    yield from table(
        "Fast?",
        ("acquire, p50", "acquire, p99", *(f"a second: {crowd}" for crowd in crowds)),
        lambda row: [
            *(_spread(row, each, milliseconds) for each in (row.p50_ms, row.p99_ms)),
            *(_spread(row, row.per_second.get(crowd), number) for crowd in crowds),
        ],
    )
    yield Paragraph(
        "A second: acquisitions by clients that release at once and ask again. Acquire: a granted call of a client "
        "alone. A client has one key at a time, so for a single one many keys are like one. Data is written only where "
        "it is in the lock's own transaction.",
        "hint",
    )
    yield from table(
        "What does it cost?",
        ("memory, MiB", "disk, MiB"),
        lambda row: [_spread(row, each, number) for each in (row.memory_mib, row.disk_mib)],
    )
    yield Paragraph(
        "All servers of the lock together, before the load. Memory counts once what processes share. Disk is what "
        "their folders take: preallocated logs, and the program where a server has one of its own.",
        "hint",
    )


def _name(row: SystemRow) -> TableField:
    return TableField(row.system.name, to=f"#{row.system.name}", why=row.system.says)


def _share(row: SystemRow, share: RunShare | None, *, counts: bool = True) -> TableField:
    """`0 of 5: at most 53 % of runs`; of a share of time the percentage and its interval."""
    if share is None or not share.rate.trials:
        return TableField(MISSING)
    text = wording.count(share.rate) if counts else percent(share.rate.share or 0.0)
    low, high = percent(share.rate.low), percent(share.rate.high, up=True)
    note = wording.interval(share.rate) if counts else f"{low} to {high}"
    return TableField(text, note, to=f"#{row.system.name}", why=_from(share.cells))


def _guarded(row: SystemRow) -> TableField:
    if not row.system.takes_tokens:
        return TableField("needs none", "the lock's own transaction writes the data")
    return _share(row, row.lost[WITH])


def _spread(row: SystemRow, spread: RunSpread | None, text: _Text) -> TableField:
    if spread is None or spread.middle is None:
        return TableField(MISSING)
    span = "one run" if spread.runs == 1 else f"{text(spread.low)} to {text(spread.high)}, {spread.runs} runs"
    return TableField(text(spread.middle), span, to=f"#{row.system.name}", why=_from(spread.cells))


def _from(cells: Sequence[str]) -> str:
    return f"from {'; '.join(map(printable, cells))}"


def _advice(choice: Recommendation) -> tuple[str, TableField | str, str]:
    if choice.best is None:
        return choice.need.asks, "none of these" if choice.none_fits else "no run tells", MISSING
    row, of, text = choice.best, choice.need.of(choice.best), choice.need.text
    found = ends(of)
    assert found is not None
    middle, low, high = found
    said = f"{text(middle)} {choice.need.unit}".strip()
    said += f" ({text(low)} to {text(high)})" if isfinite(low) else " (one run)"
    alike = ", ".join(each.system.name for each in choice.alike)
    best = TableField(row.system.name, said, to=f"#{row.system.name}", why=_from(of.cells))
    return choice.need.asks, best, alike or MISSING


def _faults() -> Iterator[tuple[str, str, str, Code]]:
    for fault in FAULTS:
        yield fault.name, fault.says, "all others" if fault.instead else "all", Code(f"--nemesis {fault.nemesis}")
        for kind, nemesis in fault.instead.items():
            yield fault.name, "", _KINDS[kind], Code(f"--nemesis {nemesis}")


def _left_out(rows: Sequence[SystemRow]) -> Iterator[Block]:
    if left := [row for row in rows if row.cannot]:
        yield Heading("What this machine could not play")
        yield Bullets([[Strong(f"{row.system.name}: "), row.cannot] for row in left])


def _cells(grid: Grid, row: SystemRow) -> Iterator[Block]:
    """Where each figure comes from: a line a cell, and the command that makes its first run again."""
    yield Heading(row.system.name, 3, row.system.name)
    yield Paragraph(f"{row.system.says}.", "hint")
    heads = ("cell", "runs", "sections", "overlaps (lock, client, undecided)", "lost updates", "served", "folders")
    commands = [CommandLine(facts.command(grid, cell)) for cell in row.lines]
    yield Folded("The cells", [DataTable(heads, [_cell(row, cell) for cell in row.lines]), *commands])


def _cell(row: SystemRow, cell: str) -> tuple[str | Sequence[str], ...]:
    lines, found = row.lines[cell], figures_of(row, cell)
    if found is None:
        return (cell, "0", *[MISSING] * 4, "")
    verdicts = ", ".join(line.verdict for line in lines)
    served = percent(found.moments_served / found.moments) if found.moments else MISSING
    overlaps = " · ".join(count(found.overlaps.get(blame, 0)) for blame in ("lock", "client", "undecided"))
    lost = f"{count(found.lost)} of {count(found.acknowledged)}"
    runs = folders([line.folder for line in lines])
    return cell, f"{len(lines)}: {verdicts}", count(found.sections), overlaps, lost, served, runs


def _numbers(row: SystemRow) -> dict[str, object]:
    """For programs: nothing rounded."""
    shares = {"exclusive": row.exclusive, "broken": row.broken, "lost_otherwise": row.lost_otherwise}
    shares |= {f"lost {tokens}": row.lost[tokens] for tokens in TOKENS}
    shares |= {f"served: {fault}": share for fault, share in row.served.items()}
    spreads = {f"per second: {crowd}": spread for crowd, spread in row.per_second.items()}
    own = {field.name: getattr(row, field.name) for field in fields(row)}
    spreads |= {name: found for name, found in own.items() if isinstance(found, RunSpread)}
    return {
        "name": row.system.name,
        "says": row.system.says,
        "cannot": row.cannot,
        "runs": row.runs,
        "rates": {name: msgspec.to_builtins(share) for name, share in shares.items()},
        "figures": {name: msgspec.to_builtins(spread) for name, spread in spreads.items()},
    }


def _choice(choice: Recommendation) -> dict[str, object]:
    best = choice.best and choice.best.system.name
    return {"need": choice.need.asks, "recommended": best, "alike": [row.system.name for row in choice.alike]}

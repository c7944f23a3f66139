"""The summary of a run in the terminal: what was done, what was observed, and the verdict in one line.

It reads the same without colour and in a pipe: colour only repeats what the text says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table

from fencepost.text import plural, printable
from harness.checkers.consequences import one_by_one
from harness.config import NO_HABITS, RunConfig
from harness.explain.explanation import Explained, clearest_of
from harness.history.recorded import Recorded
from harness.report import checker_output, run_description
from harness.report.judged import Judged
from harness.report.terminal import Text
from harness.report.wording import blame, counted, example, headline, meetings_in, outcomes
from harness.store.run_folder import part_of
from harness.verdict import Finding, Verdict, hidden
from workloads.kinds import find_workload

MOST_LINES: Final = 25
"""Of a run on a terminal."""
_WHY, _FINDINGS, _LOAD, _SEEN, _OTHER = range(1, 6)
"""What is left out last where not everything fits, and what first."""
_RANKS: Final = {"record": _WHY, "lock": _LOAD, "load": _LOAD, "faults": _LOAD}
_EXAMPLES: Final = 2
_STYLES: Final = {"VALID": "bold green", "VIOLATION": "bold red", "LIMIT MISSED": "bold red", "UNKNOWN": "bold yellow"}


def render_summary(judged: Judged, folder: Path, *, everything: bool = False) -> RenderableType:
    """The summary of a judged run. Of a finding's explained examples, the clearest one's sentence is shown.
    `everything`: also more than a terminal shows at a glance. If the run crashed, missing data is shown as missing or
    left out."""
    recorded, verdict, environment, explained = judged.recorded, judged.verdict, judged.environment, judged.explained
    title = f"{run_description.title(recorded)} · {printable(recorded.config.workload)} · seed {recorded.config.seed}"
    found = list(_findings(verdict, explained, everything=everything))
    return _Fitting(
        (
            _Part(Text(title, style="bold")),
            *(_Part(_row(*row), _RANKS.get(row[0], _OTHER)) for row in _done(recorded, verdict, environment)),
            _Part(Text(""), _OTHER),
            *(_Part(_row(*row), _SEEN) for row in _seen(verdict, environment)),
            *((_Part(Text(""), _WHY), *found) if found else ()),
            _Part(Text(""), _OTHER),
            _Part(_Verdict(verdict, explained, everything)),
            _Part(_places(folder, judged.replay, explained)),
        ),
        everything,
    )


def render_verdict(verdict: Verdict, folder: Path, explained: Sequence[Explained]) -> RenderableType:
    """The verdict in one line, and the folder in another."""
    word, says = headline(verdict, explained)
    line = Text.assemble((word, _STYLES[word]), " — ", printable(says))
    return Group(line, Text(f"  folder    {printable(str(folder))}", no_wrap=True, overflow="ignore"))


def _row(name: str, text: str, style: str = "") -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=10, no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    grid.add_row(f"  {name}", Text(text, style=style))
    return grid


class _Part(NamedTuple):
    """`rank`: what does not fit is left out, the largest first; 0 for what is always shown."""

    shown: RenderableType
    rank: int = 0


@dataclass(frozen=True, slots=True)
class _Fitting:
    """On a terminal no more lines than fit, unless `everything` is asked for."""

    parts: Sequence[_Part]
    everything: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        is_short = console.is_terminal and not self.everything
        kept = self._kept(console, options) if is_short else range(len(self.parts))
        yield from (self.parts[place].shown for place in sorted(kept))
        if len(kept) < len(self.parts):
            yield Text(f"  -v shows {plural(len(self.parts) - len(kept), 'more row')}", style="dim")

    def _kept(self, console: Console, options: ConsoleOptions) -> Collection[int]:
        room, kept = MOST_LINES - 1, set[int]()
        for place in sorted(range(len(self.parts)), key=lambda place: self.parts[place].rank):
            lines = len(console.render_lines(self.parts[place].shown, options, pad=False))
            if self.parts[place].rank == 0 or lines <= room:
                kept.add(place)
                room -= lines
        return kept


def _done(run: Recorded, verdict: Verdict, environment: Mapping[str, object]) -> list[tuple[str, str]]:
    config = run.config
    return [
        (
            "lock",
            f"{run_description.lock_name(run)}{run_description.named_lock(run)}, TTL {config.ttl_ms} ms"
            f"{_fencing(config)}"
            f"{_lock_settings(environment)}",
        ),
        (
            "load",
            f"{run_description.clients(config)}, {plural(len(config.key_names), 'key')}, hold {config.stay_in_words}"
            f"{_more_of_the_load(config)}; {run_description.ran(run)}",
        ),
        ("cluster", run_description.cluster_line(run, environment)),
        ("disk", run_description.persistence_line(run, environment)),
        *((row.label, row.text) for row in checker_output.rows(verdict) if row.is_input),
        *(("record", text) for text in run_description.record(run)),
    ]


def _fencing(config: RunConfig) -> str:
    """Nothing for a workload that knows no fencing."""
    return f", fencing {config.fencing}" if len(find_workload(config.workload).fencings) > 1 else ""


def _more_of_the_load(config: RunConfig) -> str:
    if config.loads:
        return f", {plural(len(config.loads), 'load')} drawn from the seed{_habits(config)}"
    rest = f", think {config.think.in_words}" if config.think.high_ms else ""
    at = f" at {config.extend_at:.0%} of the lease" if config.extend_at != 0.5 else ""
    extensions = f", up to {plural(config.extensions, 'extension')}{at}" if config.extensions else ""
    return rest + extensions + _habits(config)


def _habits(config: RunConfig) -> str:
    return f", habits {config.habits}" if config.habits not in (None, NO_HABITS) else ""


def _lock_settings(environment: Mapping[str, object]) -> str:
    """The lock's description of itself: versions, timeouts, retries."""
    told = part_of(environment, "lock").items()
    pairs = [f"{printable(str(k))} {printable(str(v))}" for k, v in told if k not in ("command", "hiredis")]
    return f"; {', '.join(pairs)}" if pairs else ""


def _seen(verdict: Verdict, environment: Mapping[str, object]) -> list[tuple[str, str]]:
    rows = [(row.label, row.text) for row in checker_output.rows(verdict) if not row.is_input]
    if overhead := part_of(environment, "proxy_overhead_us"):
        p50, note = run_description.overhead_p50(overhead), run_description.overhead_note(overhead)
        rows.append(("proxy", f"adds {p50} at p50; {note}"))
    return rows


def _findings(verdict: Verdict, explained: Sequence[Explained], *, everything: bool) -> Iterator[_Part]:
    """Each cause once: what led to the verdict comes first, with how that came about. `everything`: with examples."""
    for place, cause in enumerate(one_by_one(verdict, explained)):
        finding, consequences = cause
        rank = _FINDINGS if place else 0
        yield _Part(_row("finding", _told(finding)), rank)
        if everything:
            yield from (_Part(_row("", f"e.g. {example(e)}", "dim")) for e in finding.examples[:_EXAMPLES])
        # Only for the first: `fencepost explain` explains them all.
        if not place and (why := clearest_of(finding, explained)):
            yield _Part(_row("why", f"{why.sentence} {why.because}".strip()), _WHY)
        if everything:
            yield from (_Part(_row(cause.link, _told(each))) for each in consequences)
        elif consequences:
            yield _Part(_row(cause.link, ", ".join(counted([each]) for each in consequences)), rank)


def _told(finding: Finding) -> str:
    first = "" if finding.at_ms is None else f"; first after {finding.at_ms / 1e3:.1f} s"
    return f"{printable(finding.text).rstrip('.')} ({blame(finding.blame)}{first})"


@dataclass(frozen=True, slots=True)
class _Verdict:
    """In a frame; without one where lines are as long as they are."""

    verdict: Verdict
    explained: Sequence[Explained]
    everything: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        word, says = headline(self.verdict, self.explained)
        text = Text.assemble((word, _STYLES[word]), " — ", printable(says))
        for line in outcomes(self.verdict):
            text.append(f"\n{line}")
        meetings = meetings_in(self.verdict)
        if meetings and meetings.have_blame and (self.everything or not console.is_terminal):
            text.append(f"\n{meetings.blame_line}")
        if not console.is_terminal:
            yield text
            return
        hides = word == "VALID" and hidden(self.verdict.findings, self.verdict.require)
        style = _STYLES["UNKNOWN" if hides else word].removeprefix("bold ")
        yield Panel(text, box=box.HEAVY, border_style=style, padding=(0, 1))


def _places(folder: Path, replay: str, explained: Sequence[Explained]) -> RenderableType:
    """Paths and commands, each on its own unbroken line, so that they can be copied."""
    lines = Text(no_wrap=True, overflow="ignore")
    where = printable(str(folder))
    lines.append(f"  folder    {where}\n  page      {where}/report.html\n  replay    {printable(replay)}")
    if explained:
        lines.append(f"\n  explain   fencepost explain {where}")
    return lines

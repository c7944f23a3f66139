"""The summary of a run in the terminal: what was done, what was observed, and the verdict in one line.

It reads the same without colour and in a pipe: colour only repeats what the text says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table

from fencepost.text import plural, printable
from harness.config import RunConfig
from harness.explain.explanation import Explained, clearest_of
from harness.history.recorded import Recorded
from harness.report import facts, offered
from harness.report.terminal import Text
from harness.report.wording import blame, example, headline, meetings_in, promises
from harness.verdict import Finding, Verdict, hidden, ordered
from workloads.kinds import find_workload

_FINDINGS: Final = 5
_EXAMPLES: Final = 2
_STYLES: Final = {"VALID": "bold green", "VIOLATION": "bold red", "UNKNOWN": "bold yellow"}


def render_summary(
    recorded: Recorded,
    verdict: Verdict,
    folder: Path,
    replay: str,
    environment: Mapping[str, object],
    *,
    explained: Sequence[Explained] = (),
) -> RenderableType:
    """The summary of a judged run. `replay`: the command that repeats it; `environment`: the content of
    `environment.json`; `explained`: the findings' examples, of which the clearest one's sentence is shown. If the run
    crashed, missing data is shown as missing or left out."""
    parts: list[RenderableType] = [
        Text(
            f"{facts.title(recorded)} · {printable(recorded.config.workload)} · seed {recorded.config.seed}",
            style="bold",
        ),
        _rows(_done(recorded, verdict, environment)),
        Text(""),
        _rows(_seen(verdict, environment)),
    ]
    if verdict.findings:
        parts += [Text(""), *_findings(verdict, explained)]
    parts += [Text(""), _verdict(verdict), _places(folder, replay, explained)]
    return Group(*parts)


def _rows(rows: list[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=10, no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(f"  {name}", Text(text))
    return grid


def _done(run: Recorded, verdict: Verdict, environment: Mapping[str, object]) -> list[tuple[str, str]]:
    config = run.config
    return [
        (
            "lock",
            f"{facts.lock_name(run)}{facts.named_lock(run)}, TTL {config.ttl_ms} ms{_fencing(config)}"
            f"{_lock_settings(environment)}",
        ),
        (
            "load",
            f"{facts.clients(config)}, {plural(len(config.key_names), 'key')}, hold {config.stay_in_words}"
            f"{_more_of_the_load(config)}; {facts.ran(run)}",
        ),
        ("cluster", facts.cluster_line(run, environment)),
        ("disk", facts.persistence_line(run, environment)),
        *((row.label, row.text) for row in offered.rows(verdict) if row.is_input),
        *(("record", text) for text in facts.record(run)),
    ]


def _fencing(config: RunConfig) -> str:
    """Nothing for a workload that knows no fencing."""
    return f", fencing {config.fencing}" if len(find_workload(config.workload).fencings) > 1 else ""


def _more_of_the_load(config: RunConfig) -> str:
    if config.loads:
        return f", {plural(len(config.loads), 'load')} drawn from the seed"
    rest = f", think {config.think.in_words}" if config.think.high_ms else ""
    at = f" at {config.extend_at:.0%} of the lease" if config.extend_at != 0.5 else ""
    return rest + (f", up to {plural(config.extensions, 'extension')}{at}" if config.extensions else "")


def _lock_settings(environment: Mapping[str, object]) -> str:
    """The lock's description of itself: versions, timeouts, retries."""
    told = environment.get("lock")
    if not isinstance(told, Mapping):
        return ""
    pairs = [f"{printable(str(k))} {printable(str(v))}" for k, v in told.items() if k not in ("command", "hiredis")]
    return f"; {', '.join(pairs)}" if pairs else ""


def _seen(verdict: Verdict, environment: Mapping[str, object]) -> list[tuple[str, str]]:
    rows = [(row.label, row.text) for row in offered.rows(verdict) if not row.is_input]
    overhead = environment.get("proxy_overhead_us")
    if isinstance(overhead, Mapping) and overhead:
        texts = (f"adds {facts.overhead_p50(overhead)} at p50", facts.overhead_note(overhead))
        rows.append(("proxy", "; ".join(filter(None, texts))))
    return rows


def _findings(verdict: Verdict, explained: Sequence[Explained]) -> list[RenderableType]:
    lines: list[RenderableType] = []
    found = ordered(verdict)
    for finding in found[:_FINDINGS]:
        first = "" if finding.at_ms is None else f"; first after {finding.at_ms / 1e3:.1f} s"
        words = f"{printable(finding.text).rstrip('.')} ({blame(finding.blame)}{first})"
        lines.append(_hanging("finding ", Text(words)))
        lines += _examples(finding)
        # Only for the first: the others are mostly about the same sections, and `fencepost explain` shows them all.
        if finding is found[0] and (why := clearest_of(finding, explained)):
            lines.append(_hanging("why     ", Text(f"{why.sentence} {why.because}".strip())))
    if len(found) > _FINDINGS:
        lines.append(Text(f"           and {len(found) - _FINDINGS} more: see the page"))
    return lines


def _examples(finding: Finding) -> list[RenderableType]:
    return [_hanging("", Text(f"e.g. {example(e)}", style="dim")) for e in finding.examples[:_EXAMPLES]]


def _hanging(name: str, text: Text) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=10, no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    grid.add_row(f"  {name}", text)
    return grid


def _verdict(verdict: Verdict) -> RenderableType:
    word, says = headline(verdict)
    text = Text.assemble((word, _STYLES[word]), " — ", printable(says))
    if told := promises(verdict):
        text.append(f"\n{told}")
    meetings = meetings_in(verdict)
    if meetings and meetings.have_blame:
        text.append(f"\n{meetings.blame_line}")
    style = _STYLES["UNKNOWN" if word == "VALID" and hidden(verdict.findings, verdict.require) else word]
    return _Framed(text, style.removeprefix("bold "))


@dataclass(frozen=True, slots=True)
class _Framed:
    """A text in a frame; without one where lines are as long as they are."""

    text: RenderableType
    style: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield (
            Panel(self.text, box=box.HEAVY, border_style=self.style, padding=(0, 1))
            if console.is_terminal
            else self.text
        )


def _places(folder: Path, replay: str, explained: Sequence[Explained]) -> RenderableType:
    """Paths and commands, each on its own unbroken line, so that they can be copied."""
    lines = Text(no_wrap=True, overflow="ignore")
    where = printable(str(folder))
    lines.append(f"  folder    {where}\n  page      {where}/report.html\n  replay    {printable(replay)}")
    if explained:
        lines.append(f"\n  explain   fencepost explain {where}")
    return lines

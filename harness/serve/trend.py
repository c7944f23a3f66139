"""How a figure went over the runs of the same settings, from night to night: small charts, and a table beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from markupsafe import Markup

from fencepost.errors import UsageError
from fencepost.text import MISSING, count, milliseconds, number, printable
from harness.limits import FIGURES, measured
from harness.report.charts import Frame, nice
from harness.report.html import render
from harness.serve.index import JUDGED, UNREAD, RunSummary, summary_of
from harness.serve.pages import address, verdict_of
from harness.serve.two_runs import settings_in_words
from harness.store.run_folder import RunFolder

MOST_RUNS: Final = 200
"""That are drawn: the newest."""
_NOT_SETTINGS: Final = ("seed", "schedule")
"""What differs from night to night."""
_BLAMED: Final = "findings that blame the lock"
_DRAWN: Final = ("sections per second", "acquire p50", "acquire p99")


@dataclass(frozen=True, slots=True)
class _Point:
    """`figures`: by name; None where it was not measured."""

    run: RunSummary
    figures: dict[str, float | None]


def trend_page(root: str, path: Path, runs: Sequence[RunSummary]) -> str:
    """`path`: one of the runs. `runs`: of the list, newest first; those of the same settings are shown."""
    summary, settings = summary_of(path), _settings(path)
    like = [run for run in runs if (run.lock, run.nemesis, run.workload) == _names(summary) and run.verdict in JUDGED]
    same = [run for run in like if _settings(path.parent / run.name) == settings] if settings else []
    points = [_point(path.parent, run) for run in reversed(same[:MOST_RUNS])]
    names = (_BLAMED, *_DRAWN)
    return render(
        "trend.html.j2",
        root=root,
        here=address(root, path.name),
        run=summary,
        charts=[(name, svg) for name in names if (svg := _chart(name, points)) is not None],
        names=names,
        rows=[
            (each.run, address(root, each.run.name), [_text(name, each.figures[name]) for name in names])
            for each in reversed(points)
        ],
        unread=sum(run.verdict == UNREAD for run in runs),
        most=count(MOST_RUNS) if len(same) > MOST_RUNS else None,
    )


def _names(run: RunSummary) -> tuple[str, str, str]:
    return run.lock, run.nemesis, run.workload


def _settings(path: Path) -> dict[str, str] | None:
    """None if they cannot be read."""
    try:
        told = settings_in_words(RunFolder(path).read_config())
    except UsageError:
        return None
    return {name: value for name, value in told.items() if name not in _NOT_SETTINGS}


def _point(results: Path, run: RunSummary) -> _Point:
    verdict = verdict_of(RunFolder(results / run.name))
    if verdict is None:
        return _Point(run, dict.fromkeys((_BLAMED, *_DRAWN)))
    blamed = float(sum(found.count for found in verdict.findings if found.blame == "lock"))
    return _Point(run, {_BLAMED: blamed, **{name: measured(name, verdict.figures) for name in _DRAWN}})


def _text(name: str, value: float | None) -> str:
    if value is None:
        return MISSING
    return milliseconds(value) if _is_time(name) else number(value)


def _is_time(name: str) -> bool:
    return name in FIGURES and FIGURES[name].is_time


def _chart(name: str, points: Sequence[_Point], width: int = 480, height: int = 170) -> Markup | None:
    """A figure over the dates of the runs; a run with a violation is a full mark, any other a ring. None where no run
    measured it."""
    known = [(each.run.when, value, each.run) for each in points if (value := each.figures[name]) is not None]
    if not known:
        return None
    frame = Frame(width, height, f"{printable(name).capitalize()} over the dates of the runs", left=72)
    x = _over(frame, [when for when, _, _ in known])
    top = nice(max(value for _, value, _ in known))
    for share in (0.0, 0.5, 1.0):
        frame.y_tick(frame.y(share), milliseconds(top * share) if _is_time(name) else f"{top * share:g}")
    for when in dict.fromkeys((known[0][0].date(), known[-1][0].date())):
        frame.x_tick(x(next(at for at, _, _ in known if at.date() == when)), when.isoformat())
    places = [(x(when), frame.y(value / top), run) for when, value, run in known]
    line = "L".join(f"{at:.1f},{y:.1f}" for at, y, _ in places)
    frame.parts.append(f'<path class="curve" d="M{line}"/>')
    for at, y, run in places:
        kind = "hit" if run.verdict == "violation" else "zero"
        frame.parts.append(f'<circle class="{kind}" cx="{at:.1f}" cy="{y:.1f}" r="4"/>')
    return frame.svg()


def _over(frame: Frame, dates: Sequence[datetime]) -> Callable[[datetime], float]:
    """Where a date is, with room for the text below the first and the last one."""
    first, room = min(dates), 36
    spread = (max(dates) - first).total_seconds()
    width = frame.x1 - frame.x0 - 2 * room
    if not spread:
        return lambda when: frame.x0 + room + width / 2
    return lambda when: frame.x0 + room + (when - first).total_seconds() / spread * width

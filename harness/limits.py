"""Limits: thresholds of a user's own on the figures of a run, as k6 has them: `--limit "acquire p99 < 200ms"`.

They say nothing of the lock's promises, so they leave the verdict as it is; they decide the exit code beside it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Final, Literal, NamedTuple

import msgspec

from fencepost.errors import UsageError
from fencepost.meant import question
from fencepost.text import milliseconds, number
from fencepost.units import duration_text, parse_duration_ms, plain_number

Operator = Literal["<", "<=", "=", ">=", ">"]

_HOLDS: Final[Mapping[Operator, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}
_LIMIT: Final = re.compile(r"\s*(?P<figure>[^<>=]*[^<>=\s])\s*(?P<operator><=|>=|==|<|=|>)\s*(?P<value>[^<>=]*)")
_FORM: Final = "write a figure, one of < <= = >= > and a value, like 'acquire p99 < 200ms' or 'lost updates = 0'"
_SEE: Final = "`fencepost test --help` lists them"


class LimitedFigure(NamedTuple):
    """A figure that can have a limit. `checkers`: they measure it, of which a workload has one at most.
    `attribute`: where it is in their figures. `is_time`: in milliseconds; otherwise it is a plain number."""

    checkers: tuple[str, ...]
    attribute: str
    is_time: bool = False


def _quantiles(name: str, checker: str, attribute: str, *, is_time: bool = True) -> Iterator[tuple[str, LimitedFigure]]:
    for each in ("p50", "p90", "p99", "max"):
        yield f"{name} {each}", LimitedFigure((checker,), f"{attribute}.{each}", is_time)


def _by_phase() -> Iterator[tuple[str, LimitedFigure]]:
    for phase, when in (("calm", "calm"), ("faults", "under faults"), ("recovery", "in recovery")):
        yield f"acquire p50 {when}", LimitedFigure(("phases",), f"{phase}.acquire_ms_p50", is_time=True)
        yield f"acquire p99 {when}", LimitedFigure(("phases",), f"{phase}.acquire_ms_p99", is_time=True)
        yield f"sections per second {when}", LimitedFigure(("phases",), f"{phase}.sections_per_s")


FIGURES: Final[Mapping[str, LimitedFigure]] = {
    "sections": LimitedFigure(("phases",), "sections"),
    "sections per second": LimitedFigure(("phases",), "sections_per_s"),
    **dict(_quantiles("acquire", "phases", "acquire_ms")),
    **dict(_by_phase()),
    **dict(_quantiles("waiting", "liveness", "wait_ms")),
    "longest gap": LimitedFigure(("liveness",), "longest_gap_ms", is_time=True),
    "longest gap overall": LimitedFigure(("liveness",), "longest_ungranted_ms", is_time=True),
    "first recovery": LimitedFigure(("liveness",), "recovery_first_ms", is_time=True),
    "recovery of all": LimitedFigure(("liveness",), "recovery_all_ms", is_time=True),
    "fairness": LimitedFigure(("liveness",), "jain"),
    "acquire overruns": LimitedFigure(("acquire_timeouts",), "overruns"),
    "late grants": LimitedFigure(("liveness",), "late_grants"),
    "overlaps": LimitedFigure(("exclusion",), "overlapping_pairs"),
    "longest overlap": LimitedFigure(("exclusion",), "longest_overlap_ms", is_time=True),
    "most inside": LimitedFigure(("capacity",), "most_inside"),
    "lost updates": LimitedFigure(("counter", "register"), "lost"),
    "acknowledged updates": LimitedFigure(("counter", "register"), "acknowledged"),
    "stale writes": LimitedFigure(("fencing",), "stale_writes_accepted"),
    "orphans": LimitedFigure(("orphans",), "count"),
    "longest orphan": LimitedFigure(("orphans",), "longest_ms", is_time=True),
    "sections without majority": LimitedFigure(("quorum_backing",), "unfounded"),
    **dict(_quantiles("attempts", "contention", "attempts", is_time=False)),
    **dict(_quantiles("handover", "contention", "handover_ms")),
}
"""By the name that a limit calls it; docs/verdicts.md says what each means."""


class Limit(msgspec.Struct, frozen=True):
    """One limit. `value`: of a time, in milliseconds."""

    figure: str
    operator: Operator
    value: float

    @classmethod
    def parse(cls, text: str) -> Limit:
        """`acquire p99 < 200ms`, `lost updates = 0`. Raises UsageError for anything else."""
        found = _LIMIT.fullmatch(text)
        if found is None:
            raise UsageError(f"{text!r} is not a limit; {_FORM}")
        name, value = " ".join(found["figure"].split()).lower(), found["value"].strip()
        if name not in FIGURES:
            longer = next((each for each in FIGURES if name and each.endswith(f" {name}")), None)
            said = f", did you mean {longer}?" if longer else question(name, FIGURES, _SEE)
            raise UsageError(f"{name!r} is not a figure{said}")
        if FIGURES[name].is_time:
            return cls(name, _operator(found["operator"]), parse_duration_ms(value))
        if not re.fullmatch(r"\d+(\.\d+)?", value, re.ASCII):
            raise UsageError(f"{value!r} is not a number; {name} has no unit, as in '{name} {found['operator']} 5'")
        return cls(name, _operator(found["operator"]), float(value))

    @property
    def is_time(self) -> bool:
        return self.figure in FIGURES and FIGURES[self.figure].is_time

    def __str__(self) -> str:
        """As `parse` reads it."""
        value = duration_text(self.value) if self.is_time else plain_number(self.value)
        return f"{self.figure} {self.operator} {value}"

    def in_words(self, value: float) -> str:
        """A value of its figure: `312 ms`, `1,234`; with all digits where fewer would read like the limit itself."""
        text, limit = (milliseconds(each) if self.is_time else number(each) for each in (value, self.value))
        if text != limit or value == self.value:
            return text
        return f"{plain_number(value)} ms" if self.is_time else plain_number(value)


class LimitOutcome(msgspec.Struct, frozen=True):
    """How a limit came out. `measured`: in milliseconds for a time; None, and `unknown`, where the run does not show
    it."""

    limit: Limit
    outcome: Literal["met", "missed", "unknown"]
    measured: float | None

    def __str__(self) -> str:
        """`acquire p99 was 312 ms, limit < 200 ms`."""
        limit = self.limit
        verb = "were" if not limit.is_time and re.search(r"[^s]s( without|$)", limit.figure) else "was"
        said = "could not be measured" if self.measured is None else f"{verb} {limit.in_words(self.measured)}"
        return f"{limit.figure} {said}, limit {limit.operator} {limit.in_words(limit.value)}"


def judge_limit(limit: Limit, figures: Mapping[str, object]) -> LimitOutcome:
    """`figures`: of each checker that measured any, by its name."""
    found = measured(limit.figure, figures)
    if found is None:
        return LimitOutcome(limit, "unknown", None)
    return LimitOutcome(limit, "met" if _HOLDS[limit.operator](found, limit.value) else "missed", found)


def measured(name: str, figures: Mapping[str, object]) -> float | None:
    """The figure that a limit calls so, a time in milliseconds; None where no checker measured it. `figures`: as
    above."""
    figure = FIGURES.get(name, LimitedFigure((), ""))
    own = next((figures[name] for name in figure.checkers if name in figures), None)
    found = reduce(lambda of, part: getattr(of, part, None), figure.attribute.split("."), own)
    return found if isinstance(found, int | float) else None


def _operator(text: str) -> Operator:
    return next(each for each in _HOLDS if each == text.replace("==", "="))

"""What checkers return, and the verdict that is made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec

from harness.figures import Cell, CheckerFigures
from harness.limits import LimitOutcome
from harness.promises import KEPT_BY_THE_LOCK, LOCK, Belongs, Promise, required

Blame = Literal["lock", "client", "undecided", "resource", "harness"]

Word = Literal["valid", "violation", "unknown"]

Conclusion = Literal[Word, "limit missed"]
"""What a run comes to: the verdict, and the limits that the user set beside it."""

EXIT_CODES: Final[dict[Conclusion, int]] = {"valid": 0, "violation": 1, "limit missed": 1, "unknown": 2}

VERDICT_SCHEMA: Final = 5
"""What `verdict.json` is written with. 1: checkers had other names, and figures were not typed. 2: nothing bound it to
its record. 3: findings named the requirements that they break, and no promise was judged by itself. 4: findings did not
say when they first happened."""

F = TypeVar("F", bound=CheckerFigures)
T = TypeVar("T")


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that was found, in words and in numbers.

    `count`: how many there are of this kind and blame. `examples`: a few of them, JSON values with client, section, key
    and times in ms since the start; `at_ms` is when that one happened. `at_ms`: when the first of all happened; left
    out where that is the earliest example. `checker`: who found it; the judge fills that in. `promise`: what it belongs
    to.
    """

    kind: str
    blame: Blame
    text: str
    count: int = 1
    examples: tuple[dict[str, Any], ...] = ()
    at_ms: float | None = None
    checker: str = ""
    promise: Belongs | None = None

    def __post_init__(self) -> None:
        if self.at_ms is None:
            times = (example["at_ms"] for example in self.examples if "at_ms" in example)
            msgspec.structs.force_setattr(self, "at_ms", min(times, default=None))

    @property
    def breaks(self) -> Promise | Literal["record"] | None:
        """What it shows to be broken; None if it breaks nothing, or is undecided where only the lock's fault counts."""
        if self.promise is None or self.promise == "none":
            return None
        if self.promise in KEPT_BY_THE_LOCK and self.blame != "lock":
            return None
        return "record" if self.blame == "harness" else self.promise

    def decides(self, require: str) -> bool:
        """Whether it makes the run a violation where this is required."""
        asked, broken = required(require), self.breaks
        if broken is None:
            return False
        if self.blame == "lock" and (LOCK in asked or (broken == "exclusion" and "lease" in asked)):
            return True
        return broken == "record" or broken in asked


def shown(found: Sequence[T], worst: T) -> list[T]:
    """The examples of a finding: the first three, and the worst."""
    first = list(found[:3])
    return first if any(one is worst for one in first) else [*first, worst]


def worst_first(found: Sequence[T], worst: T) -> list[T]:
    """The same, and the worst one comes first."""
    return [worst, *(one for one in found[:3] if one is not worst)]


class Answer(msgspec.Struct, frozen=True):
    """A checker's answer. `figures`: what it measured; None where the run gave it nothing to measure. `unknown`: why
    the run cannot be called valid, if it cannot. `untested`: promises that the run did not put to the test."""

    figures: CheckerFigures | None = None
    findings: tuple[Finding, ...] = ()
    unknown: tuple[str, ...] = ()
    untested: tuple[Promise, ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    """How a promise came out. `undecided`: what was found allows both readings; `unknown`: the run showed too little.
    `decides`: whether this makes the run a violation, because it was required."""

    promise: Promise
    outcome: Literal["kept", "broken", "undecided", "unknown"]
    decides: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """The answer of a whole run (`verdict.json`). `require`: what was asked for (`--require`). `promises`: the ones
    that were judged. `figures`: by the checker's name, of the checkers that have any. `listed`: what `fencepost list`
    shows. `limits`: how those of `--limit` came out; they leave the verdict as it is. `headline`: what
    reports say first (`harness.report.wording`); empty until the findings were explained."""

    verdict: Word
    require: str
    findings: tuple[Finding, ...]
    unknown: tuple[str, ...]
    figures: dict[str, CheckerFigures]
    listed: tuple[Cell, ...] = ()
    promises: tuple[Outcome, ...] = ()
    limits: tuple[LimitOutcome, ...] = ()
    headline: str = ""
    schema_version: int = VERDICT_SCHEMA

    def of(self, kind: type[F]) -> F | None:
        """The figures of this type; None where its checker had none."""
        return next((figures for figures in self.figures.values() if isinstance(figures, kind)), None)

    @property
    def conclusion(self) -> Conclusion:
        """A violation first, then a limit that was missed, then what is not known of either."""
        return conclusion_of(self.verdict, self.limits)

    def limits_that(self, outcome: Literal["met", "missed", "unknown"]) -> Iterator[LimitOutcome]:
        return (limit for limit in self.limits if limit.outcome == outcome)


def conclusion_of(verdict: Word, limits: Sequence[LimitOutcome]) -> Conclusion:
    outcomes = {limit.outcome for limit in limits}
    if verdict == "violation":
        return verdict
    if "missed" in outcomes:
        return "limit missed"
    return "unknown" if "unknown" in outcomes else verdict


def ordered(verdict: Verdict) -> tuple[Finding, ...]:
    """All findings, the ones that make it a violation first; of these overlaps before what an overlap can lead to."""
    return tuple(
        sorted(
            verdict.findings,
            key=lambda f: (not f.decides(verdict.require), f.blame != "lock", f.promise != "exclusion"),
        )
    )


def hidden(findings: Sequence[Finding], require: str) -> tuple[Finding, ...]:
    """The findings that break a promise and do not decide, data that were lost first. The word of the verdict alone
    would hide them. Once data were lost, only these: what else was found led to them, or matters less."""
    other = [finding for finding in findings if finding.breaks and not finding.decides(require)]
    lost = [finding for finding in other if finding.breaks == "data"]
    return tuple(lost or sorted(other, key=lambda finding: finding.blame != "lock"))


def breaking(verdict: Verdict) -> tuple[Finding, ...]:
    """The findings that make it a violation of what was required; the lock's before all others."""
    return tuple(f for f in ordered(verdict) if f.decides(verdict.require))


def outcome_of(promise: Promise, findings: Sequence[Finding], require: str, *, is_shown: bool) -> Outcome:
    """How a promise came out. `is_shown`: whether a run with these findings shows that it was kept if none breaks
    it."""
    broken = [finding for finding in findings if finding.breaks == promise]
    if broken:
        return Outcome(promise, "broken", any(finding.decides(require) for finding in broken))
    if any(finding.promise == promise and finding.blame == "undecided" for finding in findings):
        return Outcome(promise, "undecided")
    return Outcome(promise, "kept" if is_shown else "unknown")

"""What checkers return, and the verdict that is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeVar

import msgspec

from harness.config import Requirement
from harness.figures import Cell, CheckerFigures

Blame = Literal["lock", "client", "undecided", "resource", "harness"]

Word = Literal["valid", "violation", "unknown"]

EXIT_CODES: Final[dict[Word, int]] = {"valid": 0, "violation": 1, "unknown": 2}

VERDICT_SCHEMA: Final = 3
"""What `verdict.json` is written with. 1: checkers had other names, and figures were not typed. 2: nothing bound it to
its record."""

F = TypeVar("F", bound=CheckerFigures)
T = TypeVar("T")


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that was found, in words and in numbers.

    `breaks`: the requirements under which it makes the run a violation. `count`: how many there are of this kind and
    blame. `examples`: a few of them, JSON values with client, section, key and times in ms since the start. `checker`:
    who found it; the judge fills that in.
    """

    kind: str
    blame: Blame
    text: str
    breaks: tuple[Requirement, ...] = ()
    count: int = 1
    examples: tuple[dict[str, object], ...] = ()
    checker: str = ""

    @property
    def first_ms(self) -> float | None:
        """When the first one happened, in ms since the start; None where that is not told. It is among the examples."""
        times = [example.get(name) for example in self.examples for name in ("at_ms", "from_ms", "overlap_from_ms")]
        return min((time for time in times if isinstance(time, int | float)), default=None)


def shown(found: Sequence[T], worst: T) -> list[T]:
    """The examples of a finding: the first three, and the worst."""
    first = list(found[:3])
    return first if any(one is worst for one in first) else [*first, worst]


def worst_first(found: Sequence[T], worst: T) -> list[T]:
    """The same, and the worst one comes first."""
    return [worst, *(one for one in found[:3] if one is not worst)]


class Answer(msgspec.Struct, frozen=True):
    """A checker's answer. `figures`: what it measured; None where the run gave it nothing to measure. `unknown`: why
    the run cannot be called valid, if it cannot."""

    figures: CheckerFigures | None = None
    findings: tuple[Finding, ...] = ()
    unknown: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    """The answer of a whole run (`verdict.json`). `figures`: by the checker's name, of the checkers that have any.
    `listed`: what `fencepost list` shows."""

    verdict: Word
    require: Requirement
    findings: tuple[Finding, ...]
    unknown: tuple[str, ...]
    figures: dict[str, CheckerFigures]
    listed: tuple[Cell, ...] = ()
    schema_version: int = VERDICT_SCHEMA

    def of(self, kind: type[F]) -> F | None:
        """The figures of this type; None where its checker had none."""
        return next((figures for figures in self.figures.values() if isinstance(figures, kind)), None)


def ordered(verdict: Verdict) -> tuple[Finding, ...]:
    """All findings, those that make it a violation first; of these overlaps before what an overlap can lead to."""
    return tuple(
        sorted(
            verdict.findings, key=lambda f: (verdict.require not in f.breaks, f.blame != "lock", f.kind != "overlap")
        )
    )


def hidden(findings: Sequence[Finding], require: Requirement) -> tuple[Finding, ...]:
    """The findings that break another promise than the required one, data that were lost first. The word of the verdict
    alone would hide them. Once data were lost, only these: what else was found led to them, or matters less."""
    other = [finding for finding in findings if finding.breaks and require not in finding.breaks]
    lost = [finding for finding in other if "data" in finding.breaks]
    return tuple(lost or sorted(other, key=lambda finding: finding.blame != "lock"))


def breaking(verdict: Verdict) -> tuple[Finding, ...]:
    """The findings that make it a violation of what was required; the lock's before everybody else's."""
    return tuple(f for f in ordered(verdict) if verdict.require in f.breaks)

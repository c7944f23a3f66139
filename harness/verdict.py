"""What checkers return, and the verdict that is made of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.config import Requirement

Blame = Literal["lock", "client", "undecided", "resource", "harness"]


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that was found, in words and in numbers.

    `breaks`: the requirements under which it makes the run a violation. `count`: how many there are of this kind and
    blame. `examples`: a few of them, JSON values with client, section, key and times in ms since the start.
    """

    checker: str
    kind: str
    blame: Blame
    text: str
    breaks: tuple[Requirement, ...] = ()
    count: int = 1
    examples: tuple[dict[str, object], ...] = ()


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A checker's answer. `unknown`: why the run cannot be called valid, if it cannot.

    `figures`: statistics, JSON values."""

    findings: tuple[Finding, ...] = ()
    unknown: tuple[str, ...] = ()
    figures: dict[str, object] = msgspec.field(default_factory=dict)


class Verdict(msgspec.Struct, frozen=True, omit_defaults=False):
    """The answer of a whole run (`verdict.json`). `figures`: each checker's statistics by the checker's name."""

    verdict: Literal["valid", "violation", "unknown"]
    require: Requirement
    findings: tuple[Finding, ...]
    unknown: tuple[str, ...]
    figures: dict[str, dict[str, object]]
    schema_version: int = 1


def ordered(verdict: Verdict) -> tuple[Finding, ...]:
    """All findings, those that make it a violation first; of these overlaps before what an overlap can come of."""
    return tuple(
        sorted(
            verdict.findings, key=lambda f: (verdict.require not in f.breaks, f.blame != "lock", f.kind != "overlap")
        )
    )


def breaking(verdict: Verdict) -> tuple[Finding, ...]:
    """The findings that make it a violation of what was required; the lock's before everybody else's."""
    return tuple(f for f in ordered(verdict) if verdict.require in f.breaks)

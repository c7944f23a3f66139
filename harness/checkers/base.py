"""What a checker is: a pure function of the recorded history, one file a question.

A new checker is one module in this folder with a function `check(run: Recorded) -> Answer`; nothing else needs an edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import msgspec
import pandas as pd

from harness.config import Requirement, RunConfig
from harness.grouping import Groups, codes_of
from harness.history import ClientEnd, FaultEvent, Timeline
from harness.holdings import Watched
from harness.overlaps import sections_by_key

Blame = Literal["lock", "client", "undecided", "resource", "harness"]


@dataclass(frozen=True)
class Recorded:
    """A run as it was recorded, in tables (see `harness/store.py` for the columns)."""

    config: RunConfig
    timeline: Timeline
    ops: pd.DataFrame
    """One row an operation: the fields of `harness.history.Op` and `client`, `life`."""
    sections: pd.DataFrame
    """One row a granted section; columns in `harness.sections`."""
    writes: pd.DataFrame
    """One row an accepted write, in the resource's order: the fields of `harness.history.Write`."""
    faults: tuple[FaultEvent, ...]
    ends: tuple[ClientEnd, ...]
    planned_faults: int
    """How many faults the schedule has."""
    final_values: dict[str, int] | None
    """The counters at the last read, by key; None if that read was never taken."""
    watched: Watched | None = None
    """What the nodes held; None if nobody watched them."""
    acquire_limit_ms: float | None = None
    """How long the lock says that its acquire may take; None if it says nothing."""

    @cached_property
    def sections_by_key(self) -> Groups:
        """The rows of `sections` by key, and by start within each. Ordered once for all checkers."""
        return sections_by_key(self.sections)

    @cached_property
    def writes_by_key(self) -> Groups:
        """The rows of `writes` by key, in the resource's order within each."""
        return Groups.of(codes_of(self.writes["key"]))

    def ordered(self, sections: Groups, writes: Groups) -> Recorded:
        """This run, whose `sections_by_key` and `writes_by_key` are known already."""
        vars(self).update(sections_by_key=sections, writes_by_key=writes)
        return self


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

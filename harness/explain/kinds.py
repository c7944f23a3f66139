"""A kind of finding, as its checker declares it: its name, its promise, and the function that explains an example."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from harness.explain.causes import Cause
from harness.explain.evidence import Evidence
from harness.explain.examples import Case, Side
from harness.explain.nodes import NodePart
from harness.history.recorded import Recorded
from harness.promises import Belongs, Surveyed
from harness.verdict import Blame, Finding, shown

T = TypeVar("T")

__all__ = ["Case", "Evidence", "Example", "FindingKind", "Told"]

Example = Mapping[str, Any]
_SHOWN: Final = 3
"""How many cases of a finding are its examples, beside the worst one."""


@dataclass(frozen=True, slots=True)
class Told:
    """A sentence; `cause`: what it names as the cause; `because`: how both clients came to be inside, if the sentence
    is about something else; `parts`: each node's part (empty: unknown, or the nodes were not involved), `pair`: in the
    meeting of these two sections (empty: the only two)."""

    sentence: str
    because: str = ""
    parts: tuple[NodePart, ...] = ()
    pair: tuple[Side, ...] = ()
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class FindingKind:
    """`promise`: what it belongs to. `tell`: says how an example came about; None if the finding says all there is.
    `some`: which of the findings to explain if so many are asked for; None for the first ones among the examples.
    `stands_for`: its cause, where explanations name none; `comes_of`: the causes that it may be a consequence of
    (`harness.checkers.consequences`). `surveyed`: what it says of a library in the survey; None if nothing. `noun`:
    what it is counted as, `key(s) left behind`; empty for its name."""

    name: str
    promise: Belongs
    tell: Callable[[Recorded, Evidence, Case], Told] | None = None
    some: Callable[[Recorded, Finding, int], Sequence[Example]] | None = None
    stands_for: Cause | None = None
    comes_of: tuple[Cause, ...] = ()
    surveyed: Surveyed | None = None
    noun: str = ""

    def counted(self, number: int) -> str:
        """`1 key left behind`, `12 keys left behind`."""
        noun = self.noun or f"{self.name.replace('-', ' ')}(s)"
        return f"{number:,} {noun.replace('(s)', '' if number == 1 else 's')}"

    def found(
        self, blame: Blame, text: str, count: int, examples: Sequence[dict[str, Any]], at_ms: float | None = None
    ) -> Finding:
        """`at_ms`: when the first one happened; left out where that is the earliest example."""
        return Finding(self.name, blame, text, count, tuple(examples), at_ms, promise=self.promise)

    def of(
        self,
        found: Sequence[T],
        text: str,
        example: Callable[[T], dict[str, Any]],
        worst: T | None = None,
        *,
        blame: Blame = "lock",
        at_ms: float | None = None,
    ) -> Finding:
        """Of these cases. The first ones, and the worst one, are its examples."""
        some = found[:_SHOWN] if worst is None else shown(found, worst)
        return self.found(blame, text, len(found), [example(one) for one in some], at_ms)

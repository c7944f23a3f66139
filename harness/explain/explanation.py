"""An example of a finding, explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.explain.causes import Cause, how_vague
from harness.explain.examples import Case, Side
from harness.explain.nodes import NodePart
from harness.history.fault_windows import Window
from harness.verdict import Finding


@dataclass(frozen=True, slots=True)
class Explanation:
    """One example of a finding, explained. `cause`: what the sentence names as the cause. `sides`: its sections, in the
    order of their start. `parts`: each node's part in the meeting of two of them, if known; `pair`: those two.
    `because`: how both came to be inside, if the finding is about something else. `faults`: the active faults around
    it that hit a node or one of the clients; `others`: the number of other active faults."""

    case: Case
    sentence: str
    because: str = ""
    sides: tuple[Side, ...] = ()
    parts: tuple[NodePart, ...] = ()
    pair: tuple[Side, ...] = ()
    faults: tuple[Window, ...] = ()
    others: int = 0
    cause: Cause | None = None

    @property
    def names(self) -> tuple[tuple[str, int], ...]:
        """Its sections, by client and number."""
        return tuple((side.client, side.section) for side in self.sides)


@dataclass(frozen=True, slots=True)
class Explained:
    """A finding and the explanations of some of its examples, in order."""

    finding: Finding
    explanations: tuple[Explanation, ...]

    @property
    def clearest(self) -> Explanation | None:
        """The one that says most about the cause; of several the first that names the same as most; None if there is
        none."""
        named = Counter(each.cause for each in self.explanations if each.cause is not None)
        usual = next((cause for cause, _ in named.most_common(1)), None)
        return min(self.explanations, key=lambda each: (how_vague(each.cause), each.cause != usual), default=None)


def clearest_of(finding: Finding, explained: Sequence[Explained]) -> Explanation | None:
    """The clearest explanation of a finding, None if it was not explained."""
    return next((one.clearest for one in explained if one.finding is finding), None)

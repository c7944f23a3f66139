"""How many runs are made at the same time: as many as asked for, or as many as do not disturb each other."""

from __future__ import annotations

from typing import Final

from harness.campaign.one_run import Made, Order

_RUNS_EACH: Final = 2
"""How many runs for each that is made at the same time must have gone undisturbed before there are twice as many."""
_ONCE_MAY_BE_CHANCE: Final = 2


class Pace:
    """So many runs at the same time. `count`: how many now."""

    def __init__(self, count: int) -> None:
        self.count = count

    def learn(self, order: Order, made: Made) -> str:
        """Take the outcome of a run into account. Returns what to tell the user, if anything."""
        return ""


class FindingPace(Pace):
    """Begins with one run at a time, and doubles as long as runs go as they go alone, up to `most`. Two runs that were
    too disturbed (`harness.campaign.disturbed`) at the same number are too many: then half as many are made until the
    end."""

    def __init__(self, most: int) -> None:
        super().__init__(1)
        self._most = most
        self._is_found = most == 1
        self._undisturbed = 0
        self._disturbed: list[str] = []

    def learn(self, order: Order, made: Made) -> str:
        figures = made.line.figures if made.line else None
        if self._is_found or figures is None or order.at_once != self.count:
            return ""
        if figures.disturbed:
            self._disturbed.append(figures.disturbed[0])
            return self._slower() if len(self._disturbed) == _ONCE_MAY_BE_CHANCE else ""
        self._undisturbed += 1
        return self._faster() if self._undisturbed == _RUNS_EACH * self.count else ""

    def _slower(self) -> str:
        tried, self.count, self._is_found = self.count, max(1, self.count // 2), True
        if tried == 1:
            return f"1 run at a time, although even alone they are disturbed ({self._disturbed[-1]})"
        return f"{self.count} at once from here on: {tried} disturb each other too much ({self._disturbed[-1]})"

    def _faster(self) -> str:
        undisturbed = f"{self._undisturbed} runs went undisturbed with {self.count} at once"
        self.count = min(2 * self.count, self._most)
        self._undisturbed, self._disturbed = 0, []
        self._is_found = self.count == self._most
        return f"{self.count} at once from here on: {undisturbed}"

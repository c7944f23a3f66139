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
    """Doubles concurrency, up to `most`, until two runs disturb each other, then bisects. Two runs that were
    too disturbed (`harness.campaign.of_a_run`) at the same number are too many: then it goes halfway back to the last
    number that was not, and so on until there is none between. `known`: the highest number at which enough runs went
    undisturbed; 0 before that."""

    def __init__(self, most: int) -> None:
        super().__init__(1)
        self.known = 0
        self._most = most
        self._too_many = most + 1
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

    @property
    def _is_found(self) -> bool:
        return self._too_many <= max(2, self.known + 1)

    def _slower(self) -> str:
        tried, why, self._too_many = self.count, self._disturbed[-1], self.count
        self._go_on((self.known + self._too_many) // 2)
        if tried == 1:
            return f"1 run at a time, although even alone they are disturbed ({why})"
        return f"{self.count} at once from here on: {tried} disturb each other too much ({why})"

    def _faster(self) -> str:
        tried, undisturbed, self.known = self.count, self._undisturbed, self.count
        has_failed = self._too_many <= self._most
        self._go_on((self.known + self._too_many) // 2 if has_failed else min(2 * self.known, self._most))
        if self.count == tried:
            return ""
        return f"{self.count} at once from here on: {undisturbed} runs went undisturbed with {tried} at once"

    def _go_on(self, count: int) -> None:
        self.count = max(1, count)
        self._undisturbed, self._disturbed = 0, []

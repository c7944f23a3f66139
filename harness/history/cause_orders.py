"""In which orders can a node have acted on a few requests, so that a key changed as it was seen to?

Requests that were under way at the same time may have been done in any order that fits the times. Some orders do not
fit what the key held: a script that compares deletes only the value that it names. All orders are tried; a request that
made a change in none of them did not make it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

UNKNOWN: Final = -1
FREE: Final = -2
"""Instead of a value's code."""
_MOST_STATES: Final = 3_000
MOST_CHOICES: Final = 200
"""More of them have too many orders."""


class Choice(NamedTuple):
    """A request that can have made a change. `sets`, `needs`: the codes of what it sets and of what the key must hold
    before, or `UNKNOWN`. `must_show`: it certainly made a change; `places`: so many changes can be that."""

    request: int
    connection: int
    from_ns: int
    to_ns: int
    sets: int
    needs: int
    is_single: bool
    must_show: bool
    places: int


class Step(NamedTuple):
    """A change of the key. `after`: the code of what it then holds."""

    since_ns: int
    at_ns: int
    after: int
    choices: tuple[Choice, ...]


class _State(NamedTuple):
    step: int
    at_ns: int
    held: int
    used: frozenset[int]


def possible_choices(steps: Sequence[Step], held: int) -> list[set[int]] | None:
    """By step, the requests that made it in some order; None if there are too many orders, or none fits. `held`: what
    the key held before."""
    search = _Orders(steps)
    try:
        fits = search.fits(_State(0, 0, held, frozenset()))
    except _TooManyError:
        return None
    return search.possible if fits else None


class _TooManyError(Exception):
    pass


class _Orders:
    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._connection = {one.request: one.connection for step in steps for one in step.choices}
        here: dict[int, int] = {}
        musts: dict[int, int] = {}
        for step in steps:
            for one in step.choices:
                here[one.request] = here.get(one.request, 0) + 1
                if one.must_show:
                    musts[one.request] = one.places
        self._must = frozenset(request for request, places in musts.items() if here[request] == places)
        self._known: dict[_State, bool] = {}
        self.possible: list[set[int]] = [set() for _ in steps]

    def fits(self, state: _State) -> bool:
        """Whether the steps from this one on can come about."""
        if state.step == len(self._steps):
            return self._must <= state.used
        if (known := self._known.get(state)) is not None:
            return known
        if len(self._known) >= _MOST_STATES:
            raise _TooManyError
        step = self._steps[state.step]
        found = False
        if not step.choices:  # it expired, or is not explained
            found = self.fits(_State(state.step + 1, max(state.at_ns, step.since_ns), step.after, state.used))
        for one in step.choices:
            at_ns = max(state.at_ns, step.since_ns, one.from_ns)
            if at_ns <= min(step.at_ns, one.to_ns) and self._may_follow(one, state):
                held = step.after if step.after != UNKNOWN else one.sets
                used = state.used | {one.request} if one.is_single or one.must_show else state.used
                if self.fits(_State(state.step + 1, at_ns, held, used)):
                    self.possible[state.step].add(one.request)
                    found = True
        self._known[state] = found
        return found

    def _may_follow(self, one: Choice, state: _State) -> bool:
        if one.needs != UNKNOWN and state.held not in (UNKNOWN, one.needs):
            return False
        if one.is_single and one.request in state.used:
            return False
        return all(other <= one.request for other in state.used if self._connection[other] == one.connection)

"""Polling with a deadline."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Final

from cluster.base import CalledOff, NotInTimeError, never

VERB_LIMIT_S = 9.0
"""The longest wait inside one verb: a verb must not outlast ten seconds."""
HURRY_S = 1.0
"""How long everything that is under way may still take, in all, once the run was called off."""


def becomes_true(condition: Callable[[], bool], *, within_s: float = VERB_LIMIT_S, every_s: float = 0.002) -> bool:
    """Look at the condition again and again; whether it came true within the time. What it raises is passed on."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(every_s)
    return True


def is_readable(descriptor: int, within_s: float) -> bool:
    """Wait until there is something to read from the descriptor, or a process ends whose pidfd it is. Unlike
    `select.select` this takes any descriptor, also one above 1,023."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1e3 * within_s))


class Patience:
    """How long a run waits for its servers: not for longer than a second once it was called off. For any thread."""

    def __init__(self, called_off: CalledOff) -> None:
        self._called_off = called_off
        self._ends_at_s: float | None = None

    def is_over(self) -> bool:
        """Whether nothing is waited for any more."""
        if self._ends_at_s is None and self._called_off():
            self._ends_at_s = time.monotonic() + HURRY_S
        return self._ends_at_s is not None and time.monotonic() >= self._ends_at_s

    def becomes_true(
        self, condition: Callable[[], bool], what: str, *, within_s: float = VERB_LIMIT_S, every_s: float = 0.002
    ) -> bool:
        """Like the function of this name; raises NotInTimeError, which names `what` was awaited, when it is over."""
        holds = False

        def is_decided() -> bool:
            nonlocal holds
            holds = condition()
            return holds or self.is_over()

        if becomes_true(is_decided, within_s=within_s, every_s=every_s) and not holds:
            raise NotInTimeError(f"{what} was not awaited, because the run was asked to stop")
        return holds


ENDLESS: Final = Patience(never)
"""Of servers whose run cannot be called off."""

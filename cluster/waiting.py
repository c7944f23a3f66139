"""Wait for a condition that can only be looked at."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

VERB_LIMIT_S = 9.0
"""The longest wait inside one verb: a verb must not outlast ten seconds."""


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

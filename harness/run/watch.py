"""Watches everything that should work while a run is on, and notices within a second what fails without the nemesis: a
node that ends or stalls, the resource, the proxy, a client that stands still; and a pause or an outage
that was ended from outside.

Each part says itself how it is (`cluster.base.Part`), because it knows what was made of it. Whatever is noticed comes
with two times: the part was still as wanted at the first, and no longer at the second.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic_ns
from typing import Final, Literal, Self

from cluster.base import Condition, Part
from fencepost.errors import FencepostError

LOOK_EVERY_S: Final = 0.2
ANSWER_WITHIN_MS: Final = 500.0
"""Together with the pause between two looks less than a second. A healthy server on a busy machine answers in time."""

Failure = Literal["up", "stopped", "silent", "starved", "down", "gone"]


@dataclass(frozen=True, slots=True)
class Sighting:
    """Something began or ended between two times. `how`: what began; None if the part is as wanted again."""

    part: str
    how: Failure | None
    began_ns: int
    done_ns: int


class _WatchedPart:
    """One part and what was last seen of it."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._how: Condition = "as wanted"
        self._last_ns = monotonic_ns()
        """When it was last asked and was as `_how` says."""

    def look(self) -> list[Sighting]:
        asked_ns = monotonic_ns()
        try:
            how = self._part.condition(ANSWER_WITHIN_MS)
        except FencepostError:  # an engine that does not answer, perhaps: nothing was seen
            how = "changing"
        if how == "changing":
            return []
        last_ns, before = self._last_ns, self._how
        self._last_ns, self._how = asked_ns, how
        if how == before:
            return []
        begun = None if how == "as wanted" else how
        # What was as wanted may not have been asked, but have had its time to answer, like a client's heart.
        began_ns = last_ns - int(ANSWER_WITHIN_MS * 1e6) if before == "as wanted" else last_ns
        return [Sighting(self._part.name, begun, began_ns, monotonic_ns())]


class Watch:
    """A context manager that looks at the parts until it ends. The parts of one group are looked at one after the
    other, so a group is for parts that answer at once; each group has a thread of its own."""

    def __init__(self, groups: Iterable[Sequence[Part]]) -> None:
        self._seen: SimpleQueue[Sighting] = SimpleQueue()
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._look, args=([_WatchedPart(part) for part in group],), daemon=True)
            for group in groups
        ]

    def take(self) -> list[Sighting]:
        """What was noticed since the last call."""
        taken = []
        try:
            while True:
                taken.append(self._seen.get_nowait())
        except Empty:
            return taken

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _look(self, group: Sequence[_WatchedPart]) -> None:
        while not self._is_over.wait(LOOK_EVERY_S):
            for watched in group:
                for sighting in watched.look():
                    self._seen.put(sighting)

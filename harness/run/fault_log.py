"""The record of faults: planned ones as they are observed, and unplanned ones as they are noticed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import count
from threading import Lock
from typing import Final

import msgspec

from cluster.address import LinkKey
from cluster.base import RESOURCE
from fencepost.history import PROXY, STARVATION, FaultEvent, Impact
from harness.run.watch import Failure, Sighting

UNPLANNED: Final = "unplanned"
"""The name of the nemesis in the record of an unplanned fault."""

_WHAT: Final[dict[Failure, str]] = {
    "stopped": "was stopped",
    "silent": "fell silent",
    "starved": "was not scheduled",
    "down": "went down",
    "gone": "lost its container",
}
NEEDED: Final = {PROXY: "Toxiproxy", RESOURCE: "the resource"}
"""What a run cannot go on without, in words."""


class FaultLog:
    """Writes to the run's log and keeps in mind what it wrote. `append`: writes one event. `links`: all of them, by who
    dials and who is dialled: a client, or a node that copies another one. `clients`: the names of the client processes.
    Faults are observed by threads of their own, so one event is recorded at a time."""

    def __init__(
        self, append: Callable[[FaultEvent], None], links: Collection[LinkKey], clients: Collection[str]
    ) -> None:
        self._append = append
        self._links = tuple(links)
        self._clients = frozenset(clients)
        self._injected: dict[str, FaultEvent] = {}
        self._healed_ns: dict[str, int] = {}
        self._numbers = count(1)
        self._failing: dict[str, FaultEvent] = {}
        self._recording = Lock()

    @property
    def failing(self) -> tuple[str, ...]:
        """What is failing now without having been planned, for people."""
        return tuple(f"{UNPLANNED}: {event.what}" for event in self._failing.values())

    def observe(self, event: FaultEvent) -> None:
        """Record what was observed of a planned fault."""
        with self._recording:
            if event.event == "injected":
                self._injected[event.fault] = event
            else:
                self._healed_ns[event.fault] = event.began_ns
            self._append(event)

    def notice(self, sightings: Iterable[Sighting]) -> None:
        """Record what was noticed without having been planned."""
        for seen in sightings:
            with self._recording:
                self._notice(seen)

    def _notice(self, seen: Sighting) -> None:
        if (before := self._failing.pop(seen.part, None)) is not None:
            self._append(_healed(before, seen))
        if seen.how == "up":
            self._undone(seen)
        elif seen.how is not None:
            event = self._failing[seen.part] = self._unplanned(seen, seen.how)
            self._append(event)

    def _unplanned(self, seen: Sighting, how: Failure) -> FaultEvent:
        return FaultEvent(
            event="injected",
            fault=f"{UNPLANNED}-{next(self._numbers)}",
            nemesis=UNPLANNED,
            what=f"{NEEDED.get(seen.part, seen.part)} {_WHAT[how]}",
            began_ns=seen.began_ns,
            done_ns=seen.done_ns,
            holds=True,
            seen="noticed; nothing in this run did it",
            fault_class=STARVATION if how == "starved" else "",
            unplanned=True,
            **msgspec.structs.asdict(self._hit(seen.part, how)),
        )

    def _hit(self, part: str, how: Failure) -> Impact:
        if part == PROXY:
            return Impact(cut_links=self._links)
        if part == RESOURCE:
            return Impact(cut_links=tuple(link for link in self._links if link[1] == RESOURCE))
        if part in self._clients:
            return Impact(paused_clients=(part,))
        return Impact(nodes=(part,), how_down="unasked" if how in ("down", "gone") else None)

    def _undone(self, seen: Sighting) -> None:
        """The part runs although a planned fault had paused it or taken it down: that fault is over for it."""
        for fault, event in self._injected.items():
            in_force = event.began_ns <= seen.done_ns and self._healed_ns.get(fault, seen.done_ns) >= seen.done_ns
            if in_force and seen.part in (*event.nodes, *event.paused_clients):
                is_node = seen.part in event.nodes
                undone = FaultEvent(
                    event="undone",
                    fault=fault,
                    nemesis=event.nemesis,
                    what=event.what,
                    began_ns=seen.began_ns,
                    done_ns=seen.done_ns,
                    holds=True,
                    seen=f"{seen.part} ran again before the fault was healed; nothing in this run did that",
                    unplanned=True,
                    nodes=(seen.part,) if is_node else (),
                    paused_clients=() if is_node else (seen.part,),
                )
                self._append(undone)


def _healed(event: FaultEvent, seen: Sighting) -> FaultEvent:
    return msgspec.structs.replace(
        event,
        event="healed",
        began_ns=seen.began_ns,
        done_ns=seen.done_ns,
        seen="over" if seen.how is None else "went over into another failure",
    )

"""The lanes of a space-time diagram, apart from requests: sections, and the faults and stalls of a client or a node."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from fencepost.history import process_of
from harness.explain.scenes import Scene, lane
from harness.history.fault_windows import FOREVER_NS, windows
from harness.history.groups import rows_of
from harness.history.recorded import Recorded

_MOST_SECTIONS: Final = 8
"""Of clients that took a key away."""


@dataclass(frozen=True, slots=True)
class Section:
    """A critical section on its client's lane. `who`: the client, or the task of it. `valid_until_ns`: until then its
    lease had certainly not ended; `is_exact`: and it ended right then. FOREVER_NS if the lock told no validity."""

    client: str
    who: str
    number: int
    from_ns: int
    to_ns: int
    valid_until_ns: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Outage:
    """A client that did not run, or a node that was out of service. `what`: `stopped`, `down`, … (the state of
    a `fencepost.history.Hit`)."""

    lane: str
    what: str
    from_ns: int
    to_ns: int


def sections_of(run: Recorded, scene: Scene, clients: Collection[str], culprits: Collection[str]) -> Iterator[Section]:
    """The sections that the scene is about, and the last ones of the clients that took a key away."""
    columns = ("client", "section", "start_ns", "end_ns", "deadline_min_ns", "deadline_max_ns")
    rows = run.sections
    here = (rows["start_ns"] <= scene.until_ns) & (rows["end_ns"] >= scene.from_ns) & (rows["key"] == scene.key)
    found = [
        Section(lane(run, str(who)), str(who), int(number), start_ns, end_ns, least_ns, least_ns == most_ns)
        for who, number, start_ns, end_ns, least_ns, most_ns in rows_of(rows[here.to_numpy(np.bool_)], *columns)
    ]
    entered = {(client, entered_ns) for client, _, entered_ns in scene.asked}
    sides = [one for one in found if (one.client, one.from_ns) in entered]
    theirs = culprits if entered else clients
    others = [one for one in found if one.client in theirs and one not in sides]
    yield from sides
    yield from sorted(others, key=lambda one: one.from_ns)[-_MOST_SECTIONS:]


def outages_of(run: Recorded, lanes: Collection[str], from_ns: int, to_ns: int) -> Iterator[Outage]:
    """What kept these clients and nodes from working in that time: each from the moment at which the fault began."""
    for window in windows(run.faults):
        event, until_ns = window.event, FOREVER_NS if window.to_ns is None else window.to_ns
        if not window.took or event.began_ns > to_ns or until_ns < from_ns:
            continue
        for hit in event.hits():
            if hit.effect.halts:
                names = set(map(process_of, hit.names))
                own = (name for name in lanes if process_of(name) in names)
                yield from (Outage(name, hit.state, event.began_ns, until_ns) for name in own)

"""When faults can have been in force, and who could reach a majority meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from fencepost.history import ClientEnd, FaultEvent

FOREVER_NS: Final = 2**62
"""The end of a fault that was never healed, and the latest deadline of a lock that told no validity."""


def longest_windows(faults: Iterable[FaultEvent]) -> list[tuple[FaultEvent, int, int]]:
    """Each injection with the longest time for which it can have been in force: from the beginning of the call that
    injected it to the end of the call that healed it. In the order of their beginnings."""
    events = list(faults)
    healed = {event.fault: event.done_ns for event in events if event.event == "healed"}
    injected = sorted((event for event in events if event.event == "injected"), key=lambda event: event.began_ns)
    return [(event, event.began_ns, healed.get(event.fault, FOREVER_NS)) for event in injected]


def merged(windows: Iterable[tuple[int, int]], start_ns: int, end_ns: int) -> list[tuple[int, int]]:
    """The union of the windows within [start, end], as disjoint windows in order."""
    result: list[tuple[int, int]] = []
    for began, done in sorted((max(a, start_ns), min(b, end_ns)) for a, b in windows):
        if done < began:
            continue
        if result and began <= result[-1][1]:
            result[-1] = (result[-1][0], max(done, result[-1][1]))
        else:
            result.append((began, done))
    return result


def last_ends(ends: Iterable[ClientEnd]) -> dict[str, int]:
    """When the last life of each client ended, for those of which that is on record."""
    return {end.client: end.at_ns for end in sorted(ends, key=lambda end: end.life)}


def majority_windows(
    clients: Sequence[str],
    nodes: Sequence[str],
    faults: Iterable[FaultEvent],
    ends: Iterable[ClientEnd],
    start_ns: int,
    end_ns: int,
) -> list[tuple[int, int]]:
    """The times within [start, end] at which at least one working client surely could reach a majority of the nodes."""
    stretches = reach(clients, nodes, faults, ends, start_ns, end_ns)
    return merged(((began, done) for began, done, able in stretches if able), start_ns, end_ns)


def reach(
    clients: Sequence[str],
    nodes: Sequence[str],
    faults: Iterable[FaultEvent],
    ends: Iterable[ClientEnd],
    start_ns: int,
    end_ns: int,
) -> Iterator[tuple[int, int, dict[str, frozenset[str]]]]:
    """The stretches of [start, end] within which nothing changed, in order, each with the working clients that surely
    could reach a majority of the nodes, and the nodes that they may not have reached.

    Cautious: a fault counts for as long as it can have been in force, a slow link counts as cut, and a client whose
    last life has ended as gone.
    """
    windows = longest_windows(faults)
    ended = last_ends(ends)
    edges = {start_ns, end_ns}
    edges.update(t for _, *window in windows for t in window)
    edges.update(ended.values())
    times = sorted(t for t in edges if start_ns <= t <= end_ns)
    majority = len(nodes) // 2 + 1
    for began, done in pairwise(times):
        active = [event for event, since, until in windows if since < done and until > began]
        gone = {name for event in active for name in (*event.paused_clients, *event.killed_clients)}
        gone.update(name for name, at_ns in ended.items() if at_ns <= began)
        down = {name for event in active for name in event.nodes}
        cut = {link for event in active for link in (*event.cut_links, *event.slow_links)}
        missing = {
            client: frozenset(node for node in nodes if node in down or (client, node) in cut)
            for client in clients
            if client not in gone
        }
        yield began, done, {c: lost for c, lost in missing.items() if len(nodes) - len(lost) >= majority}


@dataclass(frozen=True, slots=True)
class Window:
    """One fault that was injected. It was surely in force from `from_ns` to `to_ns` (CLOCK_MONOTONIC).

    `to_ns`: None where no healing was recorded. `took`: the probe saw it in force. `gone`: the probe saw it healed;
    None where nobody looked. `event`: the line of the injection, with whom it hit.
    """

    event: FaultEvent
    from_ns: int
    to_ns: int | None
    took: bool
    gone: bool | None
    seen_healed: str | None


def windows(events: Iterable[FaultEvent]) -> tuple[Window, ...]:
    """The injected faults in the order of their beginnings. A healing without an injection is left out."""
    heals: dict[str, FaultEvent] = {}
    injections: list[FaultEvent] = []
    for event in events:
        if event.event == "injected":
            injections.append(event)
        else:
            heals[event.fault] = event
    found = []
    for event in sorted(injections, key=lambda e: e.done_ns):
        heal = heals.get(event.fault)
        found.append(
            Window(
                event=event,
                from_ns=event.done_ns,
                to_ns=heal.began_ns if heal else None,
                took=event.holds,
                gone=heal.holds if heal else None,
                seen_healed=heal.seen if heal else None,
            )
        )
    return tuple(found)

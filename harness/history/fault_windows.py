"""When faults may have been active, and which clients could reach a majority in the meantime.

Of independent nodes, a client must reach a majority itself. Of the members of one group, it must reach one that has a
quorum behind it; or the leader, which may be any member that is up, if it alone serves.

Faults, links and requests name client processes, sections and operations tasks: a fault that hit a process hit each of
its tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from fencepost.history import ClientEnd, FaultEvent, task_names
from fencepost.quorum import quorum, with_a_quorum

FOREVER_NS: Final = 2**62
"""The end of a fault that was never healed, and the latest deadline of a lock that reported no validity."""


class GroupFacts(NamedTuple):
    """What the nodes are if they are the members of one group. `settles_ms`: how long they may need after a fault to
    elect a leader, and how much longer a lease may then last. `only_leader_serves`: a client must reach that one."""

    settles_ms: float
    only_leader_serves: bool = False


def longest_windows(faults: Iterable[FaultEvent]) -> list[tuple[FaultEvent, int, int]]:
    """Each injection with the longest time for which it may have been active: from the start of the call that injected
    it to the end of the call that healed it. Ordered by start; one that was ended early from outside has several
    windows."""
    found = [(event, event.began_ns, FOREVER_NS if end is None else end.done_ns) for event, end in _with_ends(faults)]
    return sorted(found, key=lambda window: window[1])


def _with_ends(events: Iterable[FaultEvent]) -> Iterator[tuple[FaultEvent, FaultEvent | None]]:
    """Each injection and what ended it, None if nothing did. A fault that was ended early for some of the names
    that it hit is in two parts: these names, and the rest."""
    injected: list[FaultEvent] = []
    healed: dict[str, FaultEvent] = {}
    undone: dict[str, list[FaultEvent]] = {}
    for event in events:
        if event.event == "injected":
            injected.append(event)
        elif event.event == "healed":
            healed[event.fault] = event
        else:
            undone.setdefault(event.fault, []).append(event)
    for whole in injected:
        rest = whole
        for early in sorted(undone.get(whole.fault, ()), key=lambda event: event.done_ns):
            ended, rest = rest.undone({*early.nodes, *early.paused_clients})
            if _hits(ended):
                yield ended, early
        if rest is whole or _hits(rest):
            yield rest, healed.get(whole.fault)


def _hits(event: FaultEvent) -> bool:
    return bool(event.hit_nodes or event.hit_clients or event.apart)


def merged(windows: Iterable[tuple[int, int]], start_ns: int, end_ns: int) -> list[tuple[int, int]]:
    """The union of the windows, clipped to [start, end], as disjoint windows in order."""
    result: list[tuple[int, int]] = []
    for began, done in sorted((max(a, start_ns), min(b, end_ns)) for a, b in windows):
        if done < began:
            continue
        if result and began <= result[-1][1]:
            result[-1] = (result[-1][0], max(done, result[-1][1]))
        else:
            result.append((began, done))
    return result


def between(windows: Iterable[tuple[int, int]], start_ns: int, end_ns: int) -> list[tuple[int, int]]:
    """The parts of [start, end] that are in none of the windows, in order."""
    found, at_ns = [], start_ns
    for began, done in merged(windows, start_ns, end_ns):
        if began > at_ns:
            found.append((at_ns, began))
        at_ns = done
    return [*found, (at_ns, end_ns)] if at_ns < end_ns else found


def meet(windows: Iterable[tuple[int, int]], from_ns: int, to_ns: int) -> bool:
    """Whether one of the windows touches this time."""
    return any(began <= to_ns and done >= from_ns for began, done in windows)


def hits_link(event: FaultEvent, client: str | None, node: str) -> bool:
    """Whether the fault hit the node, or the link from the client to it; that of any client if it is not known."""
    return node in event.nodes or any(to == node and client in (None, who) for who, to in event.links)


def last_ends(ends: Iterable[ClientEnd]) -> dict[str, int]:
    """When the last life of each client ended, if that was recorded."""
    return {end.client: end.at_ns for end in sorted(ends, key=lambda end: end.life)}


def majority_windows(
    clients: Sequence[str],
    nodes: Sequence[str],
    faults: Iterable[FaultEvent],
    ends: Iterable[ClientEnd],
    start_ns: int,
    end_ns: int,
    *,
    group: GroupFacts | None = None,
) -> list[tuple[int, int]]:
    """The times within [start, end] at which at least one running client could certainly reach a majority of the
    nodes."""
    stretches = reach(clients, nodes, faults, ends, start_ns, end_ns, group=group)
    return merged(((began, done) for began, done, able in stretches if able), start_ns, end_ns)


def reach(
    clients: Sequence[str],
    nodes: Sequence[str],
    faults: Iterable[FaultEvent],
    ends: Iterable[ClientEnd],
    start_ns: int,
    end_ns: int,
    *,
    group: GroupFacts | None = None,
) -> Iterator[tuple[int, int, dict[str, frozenset[str]]]]:
    """The intervals of [start, end] within which nothing changed, in order. Each has the running clients that could
    certainly reach a majority of the nodes, and for each of them the nodes that it may not have reached.

    Cautious: a fault counts for as long as it may have been active, a slow link counts as cut, and a client whose last
    life has ended counts as gone. `group`: what is in reach is settled some time after a fault that hit the leader, and
    after its end. None: the nodes are independent.
    """
    windows = longest_windows(faults)
    ended = last_ends(ends)
    unsettled = _unsettled(windows, group.settles_ms if group else 0)
    edges = {start_ns, end_ns}
    edges.update(t for _, *window in windows for t in window)
    edges.update(t for window in unsettled for t in window)
    edges.update(ended.values())
    times = sorted(t for t in edges if start_ns <= t <= end_ns)
    for began, done in pairwise(times):
        active = [event for event, since, until in windows if since < done and until > began]
        gone = {name for event in active for name in event.halted_clients}
        gone.update(name for name, at_ns in ended.items() if at_ns <= began)
        is_settled = not any(since < done and until > began for since, until in unsettled)
        down = _out_of_service(nodes, active, group) if is_settled else {*nodes}
        enough = quorum(len(nodes)) if group is None else len(nodes) - len(down) if group.only_leader_serves else 1
        cut = {link for event in active for link in event.links}
        missing = {
            client: frozenset(node for node in nodes if node in down or (client, node) in cut)
            for client in clients
            if client not in gone
        }
        yield began, done, {c: lost for c, lost in missing.items() if len(nodes) - len(lost) >= max(enough, 1)}


def _unsettled(windows: Iterable[tuple[FaultEvent, int, int]], settles_ms: float) -> list[tuple[int, int]]:
    """When the members of a group may be without a leader: until one was seen to be elected, if that took longer; and
    as long as the fault lasted, if none was."""
    settles_ns = round(settles_ms * 1e6)
    found = []
    for event, began_ns, ended_ns in windows:
        if event.led_by is not None:
            elected_ns = (
                ended_ns if event.elected_after_ms is None else event.done_ns + round(event.elected_after_ms * 1e6)
            )
            found += [(began_ns, max(began_ns + settles_ns, elected_ns)), (ended_ns, ended_ns + settles_ns)]
    return found


def _out_of_service(nodes: Sequence[str], active: Sequence[FaultEvent], group: GroupFacts | None) -> set[str]:
    """The nodes that are down, or members of a group that may have no quorum behind them. If only the leader serves and
    some members do not hear each other, any member may be the leader, so all count as out of service."""
    down = {name for event in active for name in event.nodes}
    if group is None:
        return down
    apart = {pair for event in active for pair in event.apart}
    return {*nodes} if group.only_leader_serves and apart else {*nodes} - with_a_quorum(nodes, down, apart)


@dataclass(frozen=True, slots=True)
class Window:
    """One injected fault. It was certainly active from `from_ns` to `to_ns` (CLOCK_MONOTONIC); at no time if they are
    equal, because it was not seen before it was over.

    `to_ns`: None if no healing was recorded. `took`: the probe saw that it took effect. `gone`: the probe saw it
    healed; None if there was no probe. `event`: the record of the injection, with the names that it hit.
    """

    event: FaultEvent
    from_ns: int
    to_ns: int | None
    took: bool
    gone: bool | None
    seen_healed: str | None


def windows(events: Iterable[FaultEvent]) -> tuple[Window, ...]:
    """The injected faults, ordered by start. A healing without an injection is left out; a fault that was ended
    early for some of the names that it hit has a window for these, too."""
    found = [
        Window(
            event=event,
            from_ns=event.done_ns,
            to_ns=max(event.done_ns, end.began_ns) if end else None,
            took=event.holds,
            gone=end.holds if end else None,
            seen_healed=end.seen if end else None,
        )
        for event, end in _with_ends(events)
    ]
    return tuple(sorted(found, key=lambda window: window.from_ns))


def hitting_tasks(events: Sequence[FaultEvent], clients: Collection[str], tasks: int) -> tuple[FaultEvent, ...]:
    """The same events, with the tasks of every client that they name beside it. `clients`: the names of the client
    processes; nodes that copy each other have links, too."""
    if tasks == 1:
        return tuple(events)

    def users(name: str) -> tuple[str, ...]:
        return (name, *task_names(name, tasks)) if name in clients else (name,)

    return tuple(event.on_users(users) for event in events)

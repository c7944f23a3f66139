"""A trace in the JSON trace-event format, for ui.perfetto.dev and whatever else opens one.

Tracks, in groups: the phases of the `run`; the `faults`, by nemesis; the `clients`, with each operation, and each
section from its grant to its end around what was done in it; the `links`, with each request on its way to a node and
each reply on its way back; the `nodes`, with their faults, what each was asked, and what it held of every key; the
`overlaps`, by blame. An arrow leads from a request to what its node did, and from there to the reply. Perfetto nests
the slices of one track, so slices that only intersect are put on several tracks of the same name.

Times are µs since the first event. The format:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
import pandas as pd

from fencepost.text import printable
from harness.export.formats import Choice
from harness.export.tables import records
from harness.history.capacity import pairs_beyond
from harness.history.fault_windows import Window, windows
from harness.history.overlaps import BLAMES
from harness.history.recorded import Recorded
from harness.store.wire import Wire

MOST_OVERLAPS: Final = 20_000
"""A lock that excludes no client makes every section overlap many; no reader looks at more pairs than this."""
_TOLD: Final = ("value", "token", "validity_ms", "granted_ms", "error")
"""What is shown of an operation, where it has it."""
Args = Mapping[str, object]
_SHOWN: Final = 60
"""How much of a reply is the name of its slice."""
_WAY: Final = ("from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns")


@dataclass(frozen=True, slots=True)
class TraceSlice:
    """Something on a track. `to_ns`: None for something that took no time, or whose end is not known. `reached_by`,
    `leads_on`: the numbers of the arrows that end and begin here."""

    name: str
    from_ns: int
    to_ns: int | None
    args: Args = field(default_factory=dict)
    reached_by: int | None = None
    leads_on: int | None = None


def write(run: Recorded, choice: Choice) -> Iterator[bytes]:
    groups = list(_groups(run, choice.wire))
    origin_ns = min((each.from_ns for _, tracks in groups for _, slices in tracks for each in slices), default=0)
    before = b'{"displayTimeUnit":"ms","traceEvents":[\n'
    for pid, (group, tracks) in enumerate(groups, 1):
        yield from _lines(
            [_label("process_name", pid, 0, name=group), _label("process_sort_index", pid, 0, sort_index=pid)], before
        )
        before = b",\n"
        for tid, (name, slices) in enumerate(_laid_out(tracks), 1):
            labels = [_label("thread_name", pid, tid, name=name), _label("thread_sort_index", pid, tid, sort_index=tid)]
            yield from _lines([*labels, *(e for each in slices for e in _events(each, pid, tid, origin_ns))], before)
    yield b"\n]}\n"


def _lines(events: Iterable[Args], before: bytes) -> Iterator[bytes]:
    for event in events:
        yield before + msgspec.json.encode(event)
        before = b",\n"


def _label(what: str, pid: int, tid: int, **args: object) -> Args:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _events(each: TraceSlice, pid: int, tid: int, origin_ns: int) -> Iterator[Args]:
    """The slice, and behind it, at its time, the ends of its arrows: these belong to the slice that began last."""
    at: dict[str, object] = {"pid": pid, "tid": tid, "ts": (each.from_ns - origin_ns) / 1e3}
    kind: dict[str, object] = {"ph": "i", "s": "t"}
    if each.to_ns is not None:
        kind = {"ph": "X", "dur": (each.to_ns - each.from_ns) / 1e3}
    args = {name: printable(value) if isinstance(value, str) else value for name, value in each.args.items()}
    yield kind | at | {"name": printable(each.name), "args": args}
    arrow = at | {"name": "request", "cat": "request"}
    if each.reached_by is not None:
        yield arrow | {"ph": "f", "bp": "e", "id": each.reached_by}
    if each.leads_on is not None:
        yield arrow | {"ph": "s", "id": each.leads_on}


@dataclass(slots=True)
class _Lane:
    """Slices that Perfetto can nest. `open_ends`: of those around the next one, the innermost last."""

    open_ends: list[int] = field(default_factory=list)
    slices: list[TraceSlice] = field(default_factory=list)

    def takes(self, each: TraceSlice) -> bool:
        """Whether it is inside of what has begun, or after it; then it is added."""
        while self.open_ends and self.open_ends[-1] <= each.from_ns:
            self.open_ends.pop()
        if self.open_ends and _end(each) > self.open_ends[-1]:
            return False
        self.open_ends.append(_end(each))
        self.slices.append(each)
        return True


def _laid_out(tracks: Iterable[tuple[str, list[TraceSlice]]]) -> Iterator[tuple[str, list[TraceSlice]]]:
    """The tracks, with slices in order; those of one that only intersect, on several of the same name."""
    for name, slices in tracks:
        lanes = [_Lane()]
        for each in sorted(slices, key=lambda each: (each.from_ns, -_end(each))):
            if not any(lane.takes(each) for lane in lanes):
                lanes.append(_Lane())
                lanes[-1].takes(each)
        yield from ((name, lane.slices) for lane in lanes)


def _end(each: TraceSlice) -> int:
    return each.from_ns if each.to_ns is None else each.to_ns


def _groups(run: Recorded, wire: Wire | None) -> Iterator[tuple[str, list[tuple[str, list[TraceSlice]]]]]:
    found = windows(run.faults)
    yield "run", [("phases", list(_phases(run)))]
    by_nemesis: dict[str, list[TraceSlice]] = {}
    for window in found:
        by_nemesis.setdefault(printable(window.event.nemesis), []).append(_fault(window))
    yield "faults", list(by_nemesis.items())
    yield "clients", list(_clients(run))
    on_links, on_nodes = _requests(wire) if wire is not None else ({}, {})
    yield "links", sorted(on_links.items())
    yield "nodes", [*_nodes(run, found), *sorted(on_nodes.items())]
    yield "overlaps", list(_overlaps(run))


def _phases(run: Recorded) -> Iterator[TraceSlice]:
    line = run.timeline
    marks = (("load begins", line.start_ns), ("all healed", line.healed_ns), ("asked to end", line.stop_ns))
    for name, at_ns in (*marks, ("ended", line.end_ns)):
        if at_ns is not None:
            yield TraceSlice(name, at_ns, None)


def _fault(window: Window) -> TraceSlice:
    event = window.event
    hit: dict[str, list[str | tuple[str, str]]] = {}
    for each in event.hits():
        hit.setdefault(each.effect.title, []).extend((*each.names, *each.links, *each.members))
    args = {"took effect": window.took, "seen": event.seen, "healed": window.to_ns is not None}
    args |= {name: _joined(names) for name, names in hit.items()}
    return TraceSlice(event.what, window.from_ns, window.to_ns, args)


def _joined(names: Iterable[str | tuple[str, str]]) -> str:
    return ", ".join(name if isinstance(name, str) else "–".join(name) for name in names)


def _clients(run: Recorded) -> Iterator[tuple[str, list[TraceSlice]]]:
    slices: dict[str, list[TraceSlice]] = {name: [] for name in run.config.user_names}
    for op in records(run.ops):
        told = {name: op[name] for name in _TOLD if not _is_missing(op[name])}
        args = {"outcome": op["outcome"], "key": op["key"], "section": op["section"], **told}
        slices.setdefault(op["client"], []).append(
            TraceSlice(f"{op['f']} {op['outcome']}", op["invoke_ns"], op["complete_ns"], args)
        )
    for one in records(run.sections):
        start_ns, end_ns, deadline_ns = one["start_ns"], one["end_ns"], one["deadline_min_ns"]
        args = {"key": one["key"], "section": one["section"], "ended": one["ended"]}
        args |= {} if _is_missing(one["validity_ms"]) else {"validity_ms": one["validity_ms"]}
        own = slices.setdefault(one["client"], [])
        own.append(TraceSlice(f"in {one['key']} #{one['section']}", start_ns, end_ns, args))
        if start_ns <= deadline_ns < end_ns:
            own.append(TraceSlice("lease over", deadline_ns, None, args))
    yield from slices.items()


def _nodes(run: Recorded, found: Iterable[Window]) -> Iterator[tuple[str, list[TraceSlice]]]:
    tracks: dict[tuple[str, str], list[TraceSlice]] = {(node, ""): [] for node in run.config.node_names}
    for window in found:
        for node in window.event.hit_nodes:
            tracks.setdefault((node, ""), []).append(_fault(window))
    if run.watched is not None:
        for held in records(run.watched.holdings):
            args = {"value": "" if _is_missing(held["value"]) else held["value"], "ended": held["ended"]}
            name = args["value"] or held["key"]
            tracks.setdefault((held["node"], held["key"]), []).append(
                TraceSlice(name, held["from_max_ns"], max(held["from_max_ns"], held["to_min_ns"]), args)
            )
    for (node, key), slices in sorted(tracks.items()):
        yield f"{node} {key}".rstrip(), slices


def _requests(wire: Wire) -> tuple[dict[str, list[TraceSlice]], dict[str, list[TraceSlice]]]:
    """What clients asked: by link, each request until it was sent on, and its reply until that was; by node, what it
    did meanwhile. What was lost, or never answered, has no end."""
    on_links: dict[str, list[TraceSlice]] = {}
    on_nodes: dict[str, list[TraceSlice]] = {}
    names = ("client", "node", "by", "command", "keys", "arguments", "reply", *_WAY)
    columns = (wire.requests[name].to_pylist() for name in names)
    for number, (client, node, by, command, keys, arguments, reply, *way) in enumerate(zip(*columns, strict=True)):
        asked_ns, arrived_ns, answered_ns, returned_ns = way
        if by != "client" or asked_ns is None:
            continue
        there, back = 2 * number + 1, 2 * number + 2
        name, args = " ".join([command, *keys]), {"arguments": " ".join(arguments)}
        on_link = on_links.setdefault(f"{client} to {node}", [])
        on_link.append(TraceSlice(name, asked_ns, arrived_ns, args, leads_on=None if arrived_ns is None else there))
        if arrived_ns is not None:
            args |= {"client": client, "reply": reply or ""}
            on_node = on_nodes.setdefault(f"{node} requests", [])
            leads_on = None if answered_ns is None else back
            on_node.append(TraceSlice(f"{client}: {name}", arrived_ns, answered_ns, args, there, leads_on))
        if answered_ns is not None:
            on_link.append(TraceSlice((reply or "")[:_SHOWN], answered_ns, returned_ns, {"to": name}, reached_by=back))
    return on_links, on_nodes


def _overlaps(run: Recorded) -> Iterator[tuple[str, list[TraceSlice]]]:
    """Both clients were inside from the later one's grant to the first one's end."""
    pairs = pairs_beyond(run.sections, run.permits, MOST_OVERLAPS)
    involved = np.unique(np.concatenate([pairs.earlier, pairs.later]))
    at = dict(zip(involved.tolist(), records(run.sections.iloc[involved]), strict=True))
    by_blame: dict[str, list[TraceSlice]] = {}
    for earlier, later, blame in zip(pairs.earlier.tolist(), pairs.later.tolist(), pairs.blame.tolist(), strict=True):
        one, other = at[earlier], at[later]
        name = f"{one['key']}: {one['client']} #{one['section']} and {other['client']} #{other['section']}"
        both = TraceSlice(name, other["start_ns"], min(one["end_ns"], other["end_ns"]), {"blame": BLAMES[blame]})
        by_blame.setdefault(BLAMES[blame], []).append(both)
    yield from by_blame.items()


def _is_missing(value: object) -> bool:
    return value is None or value is pd.NA or value != value  # a NaN

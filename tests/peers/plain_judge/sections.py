"""The sections of a run, and how two of them overlap: "Sections", "When a lease expires" and "Who is to blame"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor, inf

from tests.peers.plain_judge.folder import Folder, Life, Line

AFTER_A_PAUSE_NS = 50_000_000
HEARTBEAT_SLACK_NS = 100_000_000
FASTER_CLOCK = 0.0005
SERVER_TICK_NS = 1_000_000
Interval = tuple[float, float]


@dataclass
class Lease:
    """`deadline`: its earliest and latest end. `computed_ns`: the earliest time at which the lock can have computed it.
    `requested_ns`: before the first request of the round that granted it; None if the lock does not say.
    `told_at_return`: the lock said yes and nothing else."""

    deadline: Interval
    computed_ns: float
    validity_ms: float | None
    granted_ms: float | None
    requested_ns: int | None
    told_at_return: bool = False


@dataclass
class Section:
    life: Life
    number: int
    key: str
    asked_ns: int
    start: int
    end: float
    earliest: float
    latest: float
    released: Line | None = None
    token: int | None = None
    leases: list[Lease] = field(default_factory=list)
    late_at: list[int] = field(default_factory=list)
    """When extensions came that were too late."""
    lapse: Interval = (0, 0)
    """The longest time without a lease before an extension."""
    certain_so_far: bool = True
    """No extension came after the lease before it may have expired."""
    is_readers: bool = False

    @property
    def party(self) -> Life | str:
        return "the readers" if self.is_readers else self.life

    @property
    def possible(self) -> Interval:
        return self.start, min(self.end, self.latest)

    @property
    def certain(self) -> Interval:
        return self.start, min(self.end, self.earliest)


def meet(a: Interval, b: Interval) -> bool:
    """Whether two closed intervals have a point in common."""
    return max(a[0], b[0]) <= min(a[1], b[1])


def blame(a: Section, b: Section) -> str:
    if meet(a.certain, b.certain):
        return "lock"
    met = max(a.possible[0], b.possible[0]), min(a.possible[1], b.possible[1])
    without = any(one.lapse[0] < met[0] and met[1] < one.lapse[1] for one in (a, b))
    return "undecided" if met[0] <= met[1] and not without else "client"


def overlaps(sections: Sequence[Section]) -> list[tuple[Section, Section]]:
    """All pairs: of one key, of two parties, with a point in common."""
    return [
        (a, b)
        for i, a in enumerate(sections)
        for b in sections[i + 1 :]
        if a.key == b.key and a.party != b.party and meet((a.start, a.end), (b.start, b.end))
    ]


def sections_of(folder: Folder) -> list[Section]:
    found = []
    for life, ops in folder.ops.items():
        pauses = _pauses(folder, life[0])
        for op in ops:
            if op["f"] == "acquire" and op["outcome"] == "ok":
                of_it = [o for o in ops if o["section"] == op["section"]]
                later = [o["invoke_ns"] for o in ops if o["section"] > op["section"]]
                last_ns = max(o["complete_ns"] for o in ops)
                section = _section(life, op, of_it, min(later, default=None), last_ns, folder.ends.get(life), pauses)
                found.append(section)
    return found


def _section(
    life: Life,
    acquire: Line,
    ops: list[Line],
    next_ns: int | None,
    last_ns: int,
    end: Line | None,
    pauses: list[Interval],
) -> Section:
    """`ops`: the section's own. `next_ns`: when the client started its next section, if it did. `last_ns`: the last
    that its log says of it."""
    release = next((op for op in ops if op["f"] == "release"), None)
    if release is not None:
        left = release["invoke_ns"]
    elif next_ns is not None:
        left = next_ns
    elif end is None or end.get("under_way") == "releasing":
        left = last_ns
    else:
        left = max(last_ns, end["at_ns"])
    lease = _lease(acquire, pauses)
    asked_ns = min(op["invoke_ns"] for op in ops if op["f"] == "acquire")
    start = acquire["complete_ns"]
    section = Section(life, acquire["section"], acquire["key"], asked_ns, start, max(start, left), *lease.deadline)
    section.released = release
    section.is_readers = acquire.get("shared", False)
    section.leases.append(lease)
    for op in ops:
        if op["f"] == "extend" and op["outcome"] == "ok":
            extension = _lease(op, pauses)
            section.leases.append(extension)
            is_told = any(op.get(name) is not None for name in ("validity_ms", "deadline_ns", "granted_ms"))
            if is_told and extension.computed_ns > section.latest:
                section.late_at.append(op["complete_ns"])
                lapse = (section.latest, extension.computed_ns)
                if lapse[1] - lapse[0] >= section.lapse[1] - section.lapse[0]:
                    section.lapse = lapse
            if op["complete_ns"] <= section.earliest and section.certain_so_far:
                section.earliest = extension.deadline[0]
            else:
                section.certain_so_far = False
            section.latest = extension.deadline[1]
        if op.get("token") is not None and op["outcome"] == "ok" and op["f"] in ("acquire", "token"):
            section.token = op["token"]
    for op in ops:
        if op["f"] in ("held", "reenter") and op["outcome"] == "ok":
            _say_that_it_is_held(section, op)
    told = ("validity_ms", "granted_ms", "deadline_ns")
    is_open_ended = all(acquire.get(name) is None for name in told)
    if is_open_ended and release is not None and release["outcome"] == "ok":
        section.earliest = max(section.earliest, release["invoke_ns"])
        section.latest = max(section.latest, release["complete_ns"])
    return section


def _say_that_it_is_held(section: Section, yes: Line) -> None:
    lasts_ms = yes.get("granted_ms", yes.get("validity_ms")) or 0
    section.latest = max(section.latest, yes["complete_ns"] + ceil(lasts_ms * 1e6))
    if yes["f"] == "held" and yes["invoke_ns"] > section.earliest:
        section.earliest, section.lapse = yes["invoke_ns"], (0, 0)


def _lease(op: Line, pauses: list[Interval]) -> Lease:
    validity_ms, deadline = op.get("validity_ms"), op.get("deadline_ns")
    requested = op.get("requested_ns")
    before = min(op["complete_ns"], max(op["invoke_ns"], op.get("computed_before_ns", op["complete_ns"])))
    after = min(before, max(op["invoke_ns"], op.get("computed_after_ns", op["invoke_ns"])))
    if pauses:
        after = _ran(before, before - after, pauses)
    after = min(before, max(after, op["invoke_ns"], requested or op["invoke_ns"]))
    granted = op.get("granted_ms")
    length_ns = (validity_ms or 0) * 1e6
    if deadline is not None:
        latest = inf if validity_ms is not None and validity_ms <= 0 else deadline
        computed_ns = after if validity_ms is None else deadline - ceil(length_ns)
        return Lease((deadline, latest), computed_ns, validity_ms, granted, requested)
    if validity_ms is not None:
        ends = after + floor(length_ns), before + ceil(length_ns) if length_ns > 0 else inf
        return Lease(ends, ends[0] - ceil(length_ns), validity_ms, granted, requested)
    if granted is None:
        return Lease((op["invoke_ns"] - 1, inf), op["invoke_ns"] - 1, None, None, requested)
    surely_ns = max(0, granted * 1e6 * (1 - FASTER_CLOCK) - SERVER_TICK_NS)
    ends = after + floor(surely_ns), before + ceil(granted * 1e6)
    return Lease(ends, after, None, granted, requested, told_at_return=True)


def _ran(before: float, for_ns: float, pauses: list[Interval]) -> float:
    """When a process that ran for this long until `before` began to, if it stood still in the pauses."""
    at = before
    for from_ns, to_ns in sorted(pauses, reverse=True):
        if from_ns >= at:
            continue
        running = max(0, at - to_ns)
        if running > for_ns:
            break
        for_ns -= running
        at = from_ns
    return at - for_ns


def _pauses(folder: Folder, client: str) -> list[Interval]:
    """When the client was stopped, at the most, as intervals that do not meet."""
    stopped = _stopped_by_faults(folder.faults, client)
    pauses = [(from_ns, to_ns + AFTER_A_PAUSE_NS) for from_ns, to_ns in stopped]
    gaps = sorted(
        (gap["from_ns"], gap["to_ns"], gap.get("waited_ns", 0))
        for life, of_life in folder.gaps.items()
        if life[0] == client
        for gap in of_life
    )
    explained = [(from_ns - HEARTBEAT_SLACK_NS, to_ns + HEARTBEAT_SLACK_NS) for from_ns, to_ns in stopped]
    for from_ns, to_ns, waited_ns in gaps:
        known = sum(min(b, to_ns) - max(a, from_ns) for a, b in _union(explained) if a < to_ns and b > from_ns)
        if to_ns - from_ns - known - waited_ns > HEARTBEAT_SLACK_NS:
            pauses.append((from_ns, to_ns + AFTER_A_PAUSE_NS))
            explained.append((from_ns - HEARTBEAT_SLACK_NS, to_ns + HEARTBEAT_SLACK_NS))
    return _union(pauses)


def _stopped_by_faults(faults: list[Line], client: str) -> list[Interval]:
    found = []
    for fault in faults:
        if fault["event"] == "injected" and client in fault.get("paused_clients", ()):
            of_it = [f for f in faults if f["fault"] == fault["fault"]]
            ends = [f["done_ns"] for f in of_it if f["event"] == "healed"]
            ends += [f["done_ns"] for f in of_it if f["event"] == "undone" and client in f.get("paused_clients", ())]
            found.append((fault["began_ns"], min(ends, default=inf)))
    return found


def _union(intervals: list[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for from_ns, to_ns in sorted(intervals):
        if merged and from_ns <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], to_ns))
        else:
            merged.append((from_ns, to_ns))
    return merged

"""What the nodes held: keys without an owner, and sections that no majority of the nodes backed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

from tests.peers.plain_judge.folder import Folder, Line
from tests.peers.plain_judge.ledger import Change
from tests.peers.plain_judge.owners import lock_names, mixed_hashes, section_of
from tests.peers.plain_judge.sections import Interval, Section

NODE_CLOCK_SLACK_NS = 20_000_000
Users = dict[str | None, set[str]]
"""By value, the clients that had set it."""


@dataclass
class Holding:
    """One node held one value of one key (`key`: by the lock's own name). It began within `began` and ended within
    `gone`. `ended`: the event that ended it. `run`: the server's run id. `seen`: it was there when the witness started
    to watch. `section`: whose value it is, if that is known."""

    node: str
    key: str
    value: str | None
    began: Interval
    seen: bool
    run: str | None
    expires_ns: float
    gone: Interval = (inf, inf)
    ended: str = ""
    perhaps_by_itself: bool = False
    """It was overwritten by a value that could not be read."""
    section: Section | None = None
    name: str = ""
    """The key's name on the node."""
    change: Change | None = None
    """That set it, as far as it is known."""


@dataclass
class Orphan:
    node: str
    cause: str
    for_ns: float


@dataclass
class NodesRecord:
    """`watched`: by node, when everything that it held is known."""

    holdings: list[Holding]
    watched: dict[str, list[Interval]]
    values: dict[int, set[str | None]]
    """By the place of a section in the list of all, the values that were its client's own."""
    all_nodes: list[str]
    wrong_clocks: list[tuple[str, Interval]]
    """When a node may have expired keys early because a fault had set its clock."""


def nodes_record(folder: Folder, sections: list[Section], changes: list[Change]) -> NodesRecord:
    every_node = [f"n{number}" for number in range(1, folder.config["nodes"] + 1)]
    record = NodesRecord([], {}, {}, every_node, _wrong_clocks(folder))
    by_event = {id(change.event): change for change in changes}
    for node in sorted({event["node"] for event in folder.nodes}):
        _one_node(record, node, [event for event in folder.nodes if event["node"] == node], by_event)
    names, mixed = lock_names(folder, sections, changes), mixed_hashes(changes)
    record.holdings = [holding for holding in record.holdings if holding.key in names]
    users: dict[str | None, set[str]] = {}
    for holding in record.holdings:
        holding.name, holding.key = holding.key, names[holding.key]
        if holding.change in mixed:
            holding.change = holding.value = None
        elif holding.change and holding.change.what == "changed" and not section_of(holding.change, sections):
            holding.change = holding.change.of  # a field more leaves a hash with its owner
        holding.section = section_of(holding.change, sections)
        if holding.change and holding.change.call:
            users.setdefault(holding.value, set()).add(holding.change.call.life[0])
    for holding in record.holdings:
        if _gave_up(holding, changes):
            holding.section = None
    _tell_by_value(record, users)
    _find_values(record, sections, changes, names, users)
    if 2 * sum(map(bool, record.values.values())) < len(sections):
        record.values.clear()  # what this lock sets tells nothing of who holds it
    return record


def _tell_by_value(record: NodesRecord, users: Users) -> None:
    """What else has a value that only one section had set was set for that section."""
    set_for: dict[str | None, list[Section]] = {}
    for holding in record.holdings:
        if holding.section and holding.section not in set_for.setdefault(holding.value, []):
            set_for[holding.value].append(holding.section)
    for holding in record.holdings:
        own, client = set_for.get(holding.value, []), holding.change.client if holding.change else None
        is_ones = holding.value is not None and len(own) == len(users.get(holding.value, ())) == 1
        if holding.section is None and is_ones and client in (None, own[0].life[0].partition("@")[0]):
            holding.section = own[0]


def _gave_up(holding: Holding, changes: list[Change]) -> bool:
    """Whether an earlier round of the acquire that granted the section had set it."""
    call = holding.change.call if holding.change else None
    if holding.section is None or call is None or call.f != "acquire" or not holding.change.is_in_call:
        return False
    same = [c for c in changes if c.call is call and c.is_in_call and c.event["key"] == holding.name]
    same = [c for c in same if holding.value is not None and holding.value in (c.value, c.was)]
    deleted = [c.sent_ns for c in same if c.what == "deleted"]
    others = [c.sent_ns for c in same if c.what != "deleted"]
    is_early = holding.change.sent_ns < (holding.section.leases[0].requested_ns or 0)
    return is_early or max(deleted, default=0) > max(others, default=0)


def _find_values(
    record: NodesRecord, sections: list[Section], changes: list[Change], names: dict[str, str], users: Users
) -> None:
    """By section, the values that only its own client had set, and that are, or may be, its own."""
    granted = {holding.value for holding in record.holdings if holding.section}

    def is_ones(value: str | None) -> bool:
        return value is not None and value in granted and len(users.get(value, ())) == 1

    prolonged = [(section_of(c, sections), c) for c in changes if c.what == "prolonged" and c.event["key"] in names]
    unknown = [h for h in record.holdings if h.section is None and (h.change is None or h.change.call is None)]
    for place, section in enumerate(sections):
        own = [h for h in record.holdings if h.section is section and h.value is not None]
        values = {h.value for h in own if is_ones(h.value)}
        is_unclear = any(not is_ones(h.value) for h in own)
        for of, change in prolonged:
            is_own = change.of is None or change.of.client == change.client
            if of is section and is_own and is_ones(change.value):
                values.add(change.value)
        for holding in unknown:
            is_its = holding.key == section.key and section.asked_ns <= holding.began[1]
            if is_its and holding.value not in users and holding.began[0] <= section.end:
                values.add(holding.value)
        if not values and not is_unclear:
            process = section.life[0].partition("@")[0]
            for h in record.holdings:
                is_there = h.began[0] <= section.start and h.gone[1] >= section.asked_ns and h.key == section.key
                if is_there and is_ones(h.value) and h.change and h.change.client == process:
                    values.add(h.value)
        if values or not is_unclear:
            record.values[place] = values - {None}


def _one_node(record: NodesRecord, node: str, events: list[Line], by_event: dict[int, Change]) -> None:
    there: dict[str, Holding] = {}
    latest: dict[str, Holding] = {}
    lost: list[Holding] = []
    unnamed: list[Holding] = []
    blind_ns: float = 0
    watching: float | None = None
    run: str | None = None
    watched: list[Interval] = []
    proven: float = 0

    def stop(at: float) -> None:
        nonlocal watching, blind_ns, run
        for holding in there.values():
            holding.gone, holding.ended = (at, inf), "lost"
        lost.extend(there.values())
        there.clear()
        unnamed.clear()
        if watching is not None:
            watched.append((watching, max(at, watching)))
        watching, blind_ns, run = None, at, None

    for event in events:
        at, name, key = event["at_ns"], event["event"], event.get("key", "")
        since = proven = event.get("since_ns", blind_ns)
        expires_ns = at + event["ttl_ms"] * 1e6 if event.get("ttl_ms") is not None else inf
        if name == "watching":
            for holding in lost:
                holding.gone = (holding.gone[0], at)
            lost = []
            watching, run = at, event.get("value")
            for holding in unnamed:
                holding.run = run
            unnamed.clear()
        elif name == "blind":
            stop(at)
        elif name in ("prolonged", "changed"):
            if key in there and name == "prolonged":
                there[key].expires_ns = expires_ns
        else:
            if (
                name == "set"
                and key in there
                and there[key].value is not None
                and there[key].value == event.get("value")
            ):
                there[key].expires_ns = expires_ns
                continue
            if key in there:
                before = there.pop(key)
                before.gone = (max(since, before.began[0]), at)
                before.ended = name if name in ("deleted", "expired", "evicted") else "overwritten"
                before.perhaps_by_itself = name == "set" and event.get("value") is None
            if name in ("set", "seen"):
                first = since if name == "set" else blind_ns
                holding = Holding(node, key, event.get("value"), (first, at), name == "seen", run, expires_ns)
                if watching is None:
                    unnamed.append(holding)
                before = latest.get(key)
                is_same = name == "seen" and before is not None and before.value == holding.value
                holding.change = before.change if is_same and before else by_event.get(id(event))
                there[key] = latest[key] = holding
                record.holdings.append(holding)
    stop(proven)
    record.watched[node] = watched


def orphans(folder: Folder, sections: list[Section], record: NodesRecord) -> list[Orphan]:
    """One value of one key on one node is one orphan, even if the node was unobserved in between."""
    found: list[Orphan] = []
    chains: dict[tuple[str, str], Any] = {}
    for holding in record.holdings:
        place = holding.node, holding.name
        first, orphan = chains.get(place, (None, None))
        if not (holding.seen and first and first.value is not None and first.value == holding.value):
            first, orphan = holding, None
        call = holding.change.call if holding.change else None
        if holding.section is not None:
            free = _left(folder, holding.section)
            cause = "not released" if holding.section.released is not None else "client gone"
        elif call is not None:
            free, cause = call.to_ns, "given up" if call.outcome else "client gone"
        else:
            free, cause = inf, ""
        if first.began[0] > free:
            cause = "set too late"
        elif first.run is not None and holding.run not in (None, first.run):
            cause = "back from disk"
        until = min(holding.gone[0], holding.expires_ns, _called_again(folder, sections, record, holding, free))
        for_ns = until - max(free, holding.began[1])
        if for_ns > 0:
            if orphan is None:
                orphan = Orphan(holding.node, cause, 0)
                found.append(orphan)
            orphan.for_ns += for_ns
        chains[place] = first, orphan
    return found


def _called_again(folder: Folder, sections: list[Section], record: NodesRecord, holding: Holding, free: float) -> float:
    """When the client of a value that it uses for several sections, and finds where it was left, asked once more."""
    used_by = [sections[place] for place, values in record.values.items() if holding.value in values]
    if len(used_by) < 2 or len({section.life[0] for section in used_by}) > 1:
        return inf
    asked = [
        op["invoke_ns"]
        for life, ops in folder.ops.items()
        for op in ops
        if life[0] == used_by[0].life[0] and op["f"] == "acquire" and op["key"] == holding.key
    ]
    return min((at for at in asked if at >= free), default=inf)


def _left(folder: Folder, section: Section) -> float:
    if section.released is not None:
        return section.released["complete_ns"]
    end = folder.ends.get(section.life)
    return inf if end is None else end["at_ns"]


def not_backed(sections: list[Section], record: NodesRecord) -> Counter[str]:
    """How many sections a majority of the nodes certainly did not back for some time, by blame."""
    blames = (_gap(sections, record, place, *sections[place].certain) for place in record.values)
    return Counter(blame for blame in blames if blame)


def harmful_extensions(sections: list[Section], record: NodesRecord) -> int:
    """Late extensions before which, by the lock's doing, certainly no majority held the value for some time."""
    return sum(
        _gap(sections, record, place, sections[place].start, at) == "lock"
        for place in record.values
        for at in sections[place].late_at
    )


def _gap(sections: list[Section], record: NodesRecord, place: int, from_ns: float, to_ns: float) -> str | None:
    """Who is to blame for the longest time within these bounds in which certainly no majority of the nodes held the
    value; None if there was none."""
    section, values = sections[place], record.values[place]
    of_key = [h for h in record.holdings if h.key == section.key]
    nodes = sorted({h.node for h in of_key})
    if not nodes or not any(h.section for h in record.holdings) or to_ns <= from_ns:
        return None
    others = [node for node in record.all_nodes if node not in nodes]
    edges = {from_ns, to_ns}
    for a, b in [
        *((h.began[0], h.gone[1]) for h in of_key if h.value in (None, *values)),
        *(window for node in (*nodes, *others) for window in record.watched.get(node, ())),
    ]:
        edges |= {edge for edge in (a, b) if from_ns < edge < to_ns}
    ordered = sorted(edges)
    longest, began = (0.0, 0.0), None
    for a, b in pairwise(ordered):
        backing = [node for node in nodes if _may_hold(record, of_key, node, values, a, b)]
        hidden = sum(not _in_sight(record, node, a, b) for node in others)
        if len(backing) + hidden >= (len(nodes) + hidden) // 2 + 1:
            began = None
            continue
        began = a if began is None else began
        if b - began > longest[1] - longest[0]:
            longest = began, b
    if longest[1] <= longest[0]:
        return None
    pieces = [(a, b) for a, b in pairwise(ordered) if longest[0] <= a and b <= longest[1]]
    lacking = [node for node in nodes if not all(_may_hold(record, of_key, node, values, a, b) for a, b in pieces)]
    of_lock = sum(_took_by_lock(record, of_key, section, node, longest[1]) for node in lacking)
    most = len(nodes) + sum(not _in_sight(record, node, section.asked_ns, to_ns) for node in others)
    return "lock" if most - of_lock < most // 2 + 1 else "undecided"


def _may_hold(
    record: NodesRecord, of_key: list[Holding], node: str, values: set[str | None], a: float, b: float
) -> bool:
    if not _in_sight(record, node, a, b):
        return True
    return any(h.node == node and h.value in (None, *values) and h.began[0] <= a and b <= h.gone[1] for h in of_key)


def _in_sight(record: NodesRecord, node: str, a: float, b: float) -> bool:
    return any(c <= a and b <= d for c, d in record.watched.get(node, ()))


def _took_by_lock(record: NodesRecord, of_key: list[Holding], section: Section, node: str, at: float) -> bool:
    """Whether only the lock's own requests explain that the node does not hold the section's value."""
    own = [h for h in of_key if h.node == node and h.section is section and h.gone[1] < at]
    if not own:
        return _in_sight(record, node, section.asked_ns, at)
    last = own[-1]
    if last.perhaps_by_itself:
        last = [h for h in of_key if h.node == node and h.value is None and last.began[0] <= h.began[0] < at][-1]
    if last.ended == "expired":
        asked_ns = section.asked_ns
        is_wrong = any(name == node and a <= at and b >= asked_ns for name, (a, b) in record.wrong_clocks)
        return last.gone[1] >= last.expires_ns - NODE_CLOCK_SLACK_NS and not is_wrong
    return last.ended in ("deleted", "overwritten")


def _wrong_clocks(folder: Folder) -> list[tuple[str, Interval]]:
    granted = [op.get("granted_ms") or 0 for ops in folder.ops.values() for op in ops]
    lease_ns = max([folder.config["ttl_ms"], *granted]) * 1e6
    found = []
    for fault in folder.faults:
        if fault["event"] == "injected":
            ends = [f["done_ns"] for f in folder.faults if f["event"] == "healed" and f["fault"] == fault["fault"]]
            for node in fault.get("wrong_clocks", ()):
                done = min(ends, default=inf)
                off_ns = fault.get("clock_off_ms", 0) * 1e6
                off_ns += fault.get("clock_rate_percent", 0) / 100 * (done - fault["began_ns"])
                found.append((node, (fault["began_ns"], done + lease_ns + off_ns)))
    return found

"""What the nodes held: keys without an owner, and sections that no majority of the nodes backed."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

from tests.peers.plain_judge.folder import Folder, Line
from tests.peers.plain_judge.sections import Interval, Section

NODE_CLOCK_SLACK_NS = 20_000_000


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
    values: dict[int, str]
    """By the place of a section in the list of all, the value that was its client's own."""
    all_nodes: list[str]
    wrong_clocks: list[tuple[str, Interval]]
    """When a node may have expired keys early because a fault had set its clock."""


def nodes_record(folder: Folder, sections: list[Section]) -> NodesRecord:
    of_number = {(s.life, s.number): place for place, s in enumerate(sections)}
    shown: dict[str, list[int]] = {}
    for life, lines in folder.held.items():
        for line in lines:
            if line["value"] and (place := of_number.get((life, line["section"]))) is not None:
                shown.setdefault(line["value"], []).append(place)
    single = {value: places[0] for value, places in shown.items() if len(places) == 1}
    every_node = [f"n{number}" for number in range(1, folder.config["nodes"] + 1)]
    several = {value: places for value, places in shown.items() if len(places) > 1}
    one_client = {v: places for v, places in several.items() if len({sections[p].life[0] for p in places}) == 1}
    record = NodesRecord([], {}, {place: value for value, place in single.items()}, every_node, _wrong_clocks(folder))
    for node in sorted({event["node"] for event in folder.nodes}):
        _one_node(record, node, [event for event in folder.nodes if event["node"] == node])
    own_names = {op["key"] for ops in folder.ops.values() for op in ops}
    for holding in record.holdings:
        if holding.value in single:
            holding.section = sections[single[holding.value]]
        elif holding.value in one_client:
            used_by = one_client[holding.value]
            record.values |= dict.fromkeys(used_by, holding.value)
            holding.section = _set_for(holding, [sections[place] for place in used_by])
    places = {id(section): place for place, section in enumerate(sections)}
    held: dict[str, set[tuple[str, int]]] = {}
    for holding in record.holdings:
        if holding.section is not None:
            held.setdefault(holding.key, set()).add((holding.node, places[id(holding.section)]))
    under = {of for name, own in held.items() if name in own_names for of in own}
    names = {key: key for key in own_names}
    for name, own in held.items():
        if name not in own_names and not (2 * len(own & under) > len(own) and folder.config.get("permits", 1) == 1):
            latest = sorted((place for _, place in own), reverse=True)
            names[name] = Counter(sections[place].key for place in latest).most_common(1)[0][0]
    ours = [holding for holding in record.holdings if holding.key in names]
    known = [holding for holding in ours if holding.value is not None]
    itself = [holding for holding in known if holding.key in own_names]
    texts = [holding for holding in itself if not re.fullmatch(r"-?\d+", str(holding.value))]
    as_shown = any(h.value in shown for h in itself) or sum(h.value in shown for h in known) > 2 * len(texts)
    if not as_shown:
        record.values.clear()
        ours = [dataclasses.replace(holding, section=None) for holding in ours if holding.key in own_names]
    record.holdings = ours
    for holding in record.holdings:
        holding.name, holding.key = holding.key, names[holding.key]
    return record


def _set_for(holding: Holding, sections: list[Section]) -> Section | None:
    """Of the sections that used the value, the last one that had been asked for when it was set."""
    of_key = [section for section in sections if section.key == holding.key] or sections
    asked = [section for section in of_key if section.asked_ns <= holding.began[1]]
    in_order = sorted(asked, key=lambda section: section.asked_ns)
    return in_order[-1] if in_order else None


def _one_node(record: NodesRecord, node: str, events: list[Line]) -> None:
    there: dict[str, Holding] = {}
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
        elif name == "prolonged":
            if key in there:
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
                before.ended = name if name in ("deleted", "expired") else "overwritten"
                before.perhaps_by_itself = name == "set" and event.get("value") is None
            if name in ("set", "seen"):
                first = since if name == "set" else blind_ns
                holding = Holding(node, key, event.get("value"), (first, at), name == "seen", run, expires_ns)
                if watching is None:
                    unnamed.append(holding)
                there[key] = holding
                record.holdings.append(holding)
    stop(proven)
    record.watched[node] = watched


def orphans(folder: Folder, sections: list[Section], record: NodesRecord) -> list[Orphan]:
    """One value of one key on one node is one orphan, even if the node was unobserved in between."""
    found: list[Orphan] = []
    chains: dict[tuple[str, str], Any] = {}
    attempts = {key: _attempts(folder, sections, record, key) for key in {h.key for h in record.holdings}}
    for holding in record.holdings:
        place = holding.node, holding.name
        first, orphan = chains.get(place, (None, None))
        if not (holding.seen and first and first.value is not None and first.value == holding.value):
            first, orphan = holding, None
        if holding.section is not None:
            free = _left(folder, holding.section)
            cause = "not released" if holding.section.released is not None else "client gone"
        else:
            tried = [(until, died) for began, until, died in attempts[holding.key] if began <= first.began[1]]
            free, died = max(tried, default=(-1, False))
            cause = "client gone" if died else "given up"
        if first.began[0] > free:
            cause = "set too late"
        elif first.run is not None and holding.run not in (None, first.run):
            cause = "back from disk"
        for_ns = min(holding.gone[0], holding.expires_ns) - max(free, holding.began[1])
        if for_ns > 0:
            if orphan is None:
                orphan = Orphan(holding.node, cause, 0)
                found.append(orphan)
            orphan.for_ns += for_ns
        chains[place] = first, orphan
    return found


def _left(folder: Folder, section: Section) -> float:
    if section.released is not None:
        return section.released["complete_ns"]
    end = folder.ends.get(section.life)
    return inf if end is None else end["at_ns"]


def _attempts(folder: Folder, sections: list[Section], record: NodesRecord, key: str) -> list[tuple[int, float, bool]]:
    """When each attempt started, when nothing of it was needed any longer, and whether its client died."""
    attempts: list[tuple[int, float, bool]] = []
    places = {(s.life, s.number): place for place, s in enumerate(sections)}
    for life, ops in folder.ops.items():
        for op in ops:
            if op["f"] == "acquire" and op["key"] == key:
                until = op["complete_ns"]
                place = places[life, op["section"]] if op["outcome"] == "ok" else -1
                if place >= 0 and place not in record.values:
                    until = _left(folder, sections[place])
                attempts.append((op["invoke_ns"], until, False))
    for life, end in folder.ends.items():
        if end["how"] != "finished":
            last = folder.ops[life][-1]["complete_ns"] if folder.ops.get(life) else 0
            attempts.append((last, end["at_ns"], True))
    return attempts


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
    section, value = sections[place], record.values[place]
    of_key = [h for h in record.holdings if h.key == section.key]
    nodes = sorted({h.node for h in of_key})
    if not nodes or not any(h.section for h in record.holdings) or to_ns <= from_ns:
        return None
    others = [node for node in record.all_nodes if node not in nodes]
    edges = {from_ns, to_ns}
    for a, b in [
        *((h.began[0], h.gone[1]) for h in of_key if h.value in (None, value)),
        *(window for node in (*nodes, *others) for window in record.watched.get(node, ())),
    ]:
        edges |= {edge for edge in (a, b) if from_ns < edge < to_ns}
    ordered = sorted(edges)
    longest, began = (0.0, 0.0), None
    for a, b in pairwise(ordered):
        backing = [node for node in nodes if _may_hold(record, of_key, node, value, a, b)]
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
    lacking = [node for node in nodes if not all(_may_hold(record, of_key, node, value, a, b) for a, b in pieces)]
    of_lock = sum(_took_by_lock(record, of_key, section, node, longest[1]) for node in lacking)
    most = len(nodes) + sum(not _in_sight(record, node, section.asked_ns, to_ns) for node in others)
    return "lock" if most - of_lock < most // 2 + 1 else "undecided"


def _may_hold(record: NodesRecord, of_key: list[Holding], node: str, value: str, a: float, b: float) -> bool:
    if not _in_sight(record, node, a, b):
        return True
    return any(h.node == node and h.value in (None, value) and h.began[0] <= a and b <= h.gone[1] for h in of_key)


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

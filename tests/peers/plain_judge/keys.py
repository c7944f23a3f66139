"""What became of the keys: those without an owner, and sections that no majority of the nodes backed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

from tests.peers.plain_judge.folder import Folder
from tests.peers.plain_judge.holdings import Holding, NodesRecord
from tests.peers.plain_judge.sections import Section

NODE_CLOCK_SLACK_NS = 20_000_000


@dataclass
class Orphan:
    node: str
    cause: str
    for_ns: float


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
        again = min(holding.taken_ns, _called_again(folder, sections, record, holding, free))
        until = min(holding.gone[0], holding.expires_ns, again)
        for_ns = until - max(free, holding.began[1])
        if for_ns > 0:
            if orphan is None:
                orphan = Orphan(holding.node, cause, 0)
                found.append(orphan)
            orphan.for_ns += for_ns
        chains[place] = first, orphan
    return found


def _called_again(folder: Folder, sections: list[Section], record: NodesRecord, holding: Holding, free: float) -> float:
    """When the client of a value that it uses for several sections, and finds where it was left, asked once more, and
    was not refused."""
    used_by = [sections[place] for place, values in record.values.items() if holding.value in values]
    if len(used_by) < 2 or len({section.life[0] for section in used_by}) > 1:
        return inf
    asked = [
        op["invoke_ns"]
        for life, ops in folder.ops.items()
        for op in ops
        if life[0] == used_by[0].life[0] and op["f"] == "acquire" and op["key"] == holding.key
        if op["outcome"] != "fail"
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
    key for it; None if there was none."""
    section = sections[place]
    of_key = [h for h in record.holdings if h.key == section.key]
    nodes = sorted({h.node for h in of_key})
    if not nodes or not any(h.section for h in record.holdings) or to_ns <= from_ns:
        return None
    asked_of = record.asked_of.get(section.key, record.all_nodes)
    others = [node for node in record.all_nodes if node in asked_of and node not in nodes]
    edges = {from_ns, to_ns}
    for a, b in [
        *((h.began[0], h.gone[1]) for h in of_key if _may_be_its(h, section)),
        *(window for node in (*nodes, *others) for window in record.watched.get(node, ())),
    ]:
        edges |= {edge for edge in (a, b) if from_ns < edge < to_ns}
    ordered = sorted(edges)
    longest, began = (0.0, 0.0), None
    for a, b in pairwise(ordered):
        backing = [node for node in nodes if _may_hold(record, of_key, node, section, a, b)]
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
    lacking = [node for node in nodes if not all(_may_hold(record, of_key, node, section, a, b) for a, b in pieces)]
    of_lock = sum(_took_by_lock(record, of_key, section, node, longest[1]) for node in lacking)
    most = len(nodes) + sum(not _in_sight(record, node, section.asked_ns, to_ns) for node in others)
    return "lock" if most - of_lock < most // 2 + 1 else "undecided"


def _may_hold(record: NodesRecord, of_key: list[Holding], node: str, section: Section, a: float, b: float) -> bool:
    if not _in_sight(record, node, a, b):
        return True
    return any(h.node == node and _may_be_its(h, section) and h.began[0] <= a and b <= h.gone[1] for h in of_key)


def _may_be_its(holding: Holding, section: Section) -> bool:
    """Whether the section's process set it, or it is not known which one did."""
    return holding.value is None or _process(holding) in (None, section.life[0].partition("@")[0])


def _process(holding: Holding) -> str | None:
    if holding.change and holding.change.client:
        return holding.change.client
    return holding.section.life[0].partition("@")[0] if holding.section else None


def _in_sight(record: NodesRecord, node: str, a: float, b: float) -> bool:
    return any(c <= a and b <= d for c, d in record.watched.get(node, ()))


def _took_by_lock(record: NodesRecord, of_key: list[Holding], section: Section, node: str, at: float) -> bool:
    """Whether only the lock's own requests explain that the node does not hold the section's value."""
    process = section.life[0].partition("@")[0]
    own = [
        h
        for h in of_key
        if h.node == node and h.gone[1] < at
        if h.section is section
        or (h.value is not None and _process(h) == process and h.began[0] <= at and h.began[1] >= section.asked_ns)
    ]
    if not own:
        return _in_sight(record, node, section.asked_ns, at)
    last = own[-1]
    if last.perhaps_by_itself:
        unread = [h for h in of_key if h.node == node and h.value is None and last.began[0] <= h.began[0] < at]
        last = unread[-1] if unread else last
    if last.ended == "expired":
        asked_ns = section.asked_ns
        is_wrong = any(name == node and a <= at and b >= asked_ns for name, (a, b) in record.wrong_clocks)
        return last.gone[1] >= last.expires_ns - NODE_CLOCK_SLACK_NS and not is_wrong
    return last.ended in ("deleted", "overwritten")

"""What the nodes held, and for which section each key was set: "What the nodes held" and "Whose is a key?"."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from tests.peers.plain_judge.folder import Folder, Line
from tests.peers.plain_judge.ledger import GRANTS, Change
from tests.peers.plain_judge.owners import lock_names, mixed_hashes, section_of
from tests.peers.plain_judge.sections import Interval, Section

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
    taken_ns: float = inf
    """When a later acquire of the client that had set it asked to prolong it."""


@dataclass
class NodesRecord:
    """`watched`: by node, when everything that it held is known."""

    holdings: list[Holding]
    watched: dict[str, list[Interval]]
    values: dict[int, set[str | None]]
    """By the place of a section in the list of all, the values that were its client's own."""
    all_nodes: list[str]
    asked_of: dict[str, set[str]]
    """By key that clients ask for, the nodes to which a request was sent that names it. Empty if some may be
    missing."""
    wrong_clocks: list[tuple[str, Interval]]
    """When a node may have expired keys early because a fault had set its clock."""


def _is_beside(folder: Folder, change: Change) -> bool:
    """Whether it was sent in the background of its call, which asked for the key over other connections, by another
    value."""
    call, connection = change.call, change.connection
    if change.value is None or call is None or connection is None:
        return False
    others = {
        asked["connection"]
        for asked in folder.requests
        if (asked["client"], asked["node"], asked["by"]) == (change.client, change.event["node"], "client")
        if asked["from_client_ns"] is not None and call.from_ns <= asked["from_client_ns"] <= call.to_ns
        if change.event["key"] in asked["keys"] and change.value not in asked["arguments"]
    }
    return bool(others) and connection["connection"] not in others


def _note_taken(folder: Folder, record: NodesRecord, changes: list[Change]) -> None:
    taken: dict[int, float] = {}
    for change in changes:
        setter = change.of
        is_taken = change.what == "prolonged" and change.call is not None and change.call.f in GRANTS
        if not is_taken or not change.is_in_call or setter is None or setter.call in (None, change.call):
            continue
        if _is_beside(folder, change):
            continue
        if change.client is not None and change.client == setter.client:
            taken[id(setter)] = min(taken.get(id(setter), inf), change.sent_ns)
    for holding in record.holdings:
        holding.taken_ns = taken.get(id(holding.change), inf)


def _asked_of(folder: Folder) -> dict[str, set[str]]:
    if not folder.are_links_recorded or folder.partly_recorded:
        return {}
    asked = sorted({op["key"] for ops in folder.ops.values() for op in ops if op.get("key")}, key=len, reverse=True)
    found: dict[str, set[str]] = {}
    for request in folder.requests:
        for name in request["keys"]:
            meant = [key for key in asked if key in name]
            for key in meant if folder.config.get("permits", 1) > 1 else meant[:1]:
                found.setdefault(key, set()).add(request["node"])
    return found


def nodes_record(folder: Folder, sections: list[Section], changes: list[Change]) -> NodesRecord:
    every_node = [f"n{number}" for number in range(1, folder.config["nodes"] + 1)]
    record = NodesRecord([], {}, {}, every_node, _asked_of(folder), _wrong_clocks(folder))
    by_event = {id(change.event): change for change in changes}
    for node in sorted({event["node"] for event in folder.nodes}):
        _one_node(record, node, [event for event in folder.nodes if event["node"] == node], by_event)
    _note_taken(folder, record, changes)
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
            if of is section and is_own and is_ones(change.value) and users[change.value] == {section.life[0]}:
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
                if there[key].value is None:  # which a prolongation leaves as it is
                    there[key].value = event.get("value")
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

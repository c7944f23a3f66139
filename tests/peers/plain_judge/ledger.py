"""Which request made each change of a key, and in which call it was sent: "Ledger" in docs/run-folder.md."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from math import inf
from typing import Any

from tests.peers.plain_judge.folder import Folder, Life, Line

LOCK_STEPS = ("acquire", "extend", "release", "held", "reenter", "leave")
GRANTS = ("acquire", "reenter")
_UNDER_WAY = {"acquiring": "acquire", "extending": "extend", "releasing": "release"}
"""What a client says that it was doing when it was killed, and what it had asked of its lock."""


@dataclass
class Call:
    """A call of the lock. One that was under way when its client was killed has neither an outcome nor a section."""

    life: Life
    f: str
    outcome: str
    section: int | None
    key: str
    from_ns: int
    to_ns: int


@dataclass(eq=False)
class Change:
    """What happened to a key on a node. `what`: see the document. `owner`: the change that gave the key its present
    owner, and `of` that of the owner before. `had_until_ns`: what it held before lives so long at least; forever if no
    time to live is known. `until_ns`: so does what it holds now."""

    event: Line
    what: str
    value: str | None
    was: str | None
    of: Change | None
    had_until_ns: float
    until_ns: float
    owner: Change | None = None
    connection: Line | None = None
    """Over which the request came that made it; None if no request on record did."""
    request: Line | None = None
    """None, too, if it was one of several of the same words."""
    call: Call | None = None
    is_in_call: bool = False

    @property
    def had_ttl(self) -> bool:
        return self.had_until_ns < inf

    @property
    def client(self) -> str | None:
        """The process whose lock did it."""
        return self.connection["client"] if self.connection and self.connection["by"] == "client" else None

    @property
    def sent_ns(self) -> int:
        return self.request["from_client_ns"] if self.request else -1

    @property
    def is_recorded(self) -> bool:
        return self.connection is not None or self.what in ("expired", "evicted")


def ledger(folder: Folder) -> list[Change]:
    """Every change that was seen on a node of whose requests none is missing."""
    partly = {c["node"] for c in folder.connections if c["not_understood_bytes"]} | folder.partly_recorded
    changes = [change for change in _changes(folder.nodes) if change.event["node"] not in partly]
    _find_requests(folder, changes)
    calls, permits = _calls(folder), folder.config.get("permits", 1)
    are_noted = any(request.get("task") for request in folder.requests)
    for change in changes:
        if change.client and change.request:
            of_process = [own for client, own in calls.items() if _may_have_sent(client, change)]
            name = change.event["key"]
            change.call, change.is_in_call = _call(of_process, change.sent_ns, name, permits, are_noted)
    _late_releases(folder, changes, calls, permits)
    return changes


def _changes(events: list[Line]) -> list[Change]:
    found: list[Change] = []
    there: dict[tuple[str, str], Any] = {}
    hidden: dict[tuple[str, str], Any] = {}
    """What a node held when it was last seen."""
    for event in events:
        node, name, value = event["node"], event["event"], event.get("value")
        place = node, event.get("key", "")
        owner, was, had_until_ns = there.get(place, (None, None, inf))
        ttl_ms = event.get("ttl_ms")
        until_ns = inf if ttl_ms is None else event["at_ns"] + ttl_ms * 1_000_000
        if name == "blind":
            hidden |= {at: there[at] for at in there if at[0] == node}
            there = {at: there[at] for at in there if at[0] != node}
        elif name == "watching":
            hidden = {at: hidden[at] for at in hidden if at[0] != node}
        elif name == "seen":
            before = hidden.pop(place, None)
            is_same = before is not None and value in (before[1], None)
            there[place] = before if is_same else (None, value, until_ns)
        else:
            what = name
            if name in ("set", "changed"):
                what = "changed" if event.get("is_hash") or name == "changed" else "overwritten"
                if place not in there:
                    what = "set"
                elif name == "set" and value is not None and value == was:
                    what = "prolonged"
            change = Change(event, what, value, was, owner, had_until_ns, until_ns)
            change.owner = change if what in ("set", "overwritten") else owner
            found.append(change)
            if what in ("deleted", "expired", "evicted"):
                there.pop(place, None)
            elif place in there or what == "set":
                there[place] = (change.owner, was if what == "prolonged" and value is None else value, until_ns)
    return found


def _find_requests(folder: Folder, changes: list[Change]) -> None:
    """The node names the port, the words and the place of the request; the times must fit."""
    asked: dict[int, list[Line]] = {}
    over_ns: dict[Any, float] = {}
    for request in folder.requests:
        if request["to_node_ns"] is not None:
            asked.setdefault(request["connection"], []).append(request)
            if request["transaction"] is not None:  # its EXEC carries it out
                over_ns[request["connection"], request["transaction"]] = request["from_node_ns"] or inf
    for own in asked.values():
        for request in own:
            in_transaction = request["connection"], request["transaction"]
            words = "\0".join([request["command"] or "", *request["arguments"]])
            request["digest"] = zlib.crc32(words.encode("utf-8", "surrogatepass"))
            request["over_ns"] = over_ns.get(in_transaction, request["from_node_ns"] or inf)
    known: dict[int, list[tuple[int, int]]] = {}
    """By connection, places that the node tells, and those in the record."""
    unclear: list[tuple[Change, list[int]]] = []
    for change in changes:
        event, connection = change.event, _connection(folder.connections, change.event)
        if connection is None:
            continue
        own, since_ns = asked.get(connection["connection"], []), event.get("since_ns", event["at_ns"])
        fitting = [
            place
            for place, request in enumerate(own)
            if request["digest"] == event["digest"]
            if request["to_node_ns"] <= event["at_ns"] and request["over_ns"] >= since_ns
        ]
        if fitting:
            change.connection = connection
        if len(fitting) == 1:
            change.request = own[fitting[0]]
            known.setdefault(connection["connection"], []).append((event["place"], fitting[0]))
        elif fitting:
            unclear.append((change, fitting))
    for change, fitting in unclear:
        assert change.connection
        number, place = change.connection["connection"], change.event["place"]
        for told, recorded in sorted(known.get(number, []), key=lambda one: abs(one[0] - place))[:1]:
            if recorded + place - told in fitting:
                change.request = asked[number][recorded + place - told]


def _connection(connections: list[Line], event: Line) -> Line | None:
    """The newest that was opened from this port by then."""
    if event.get("port") is None:
        return None
    opened = [
        c
        for c in connections
        if c["node"] == event["node"] and c["node_port"] == event["port"] and c["opened_ns"] <= event["at_ns"]
    ]
    return max(opened, key=lambda c: c["opened_ns"], default=None)


def _calls(folder: Folder) -> dict[str, list[Call]]:
    """By client, its calls in order."""
    found: dict[str, list[Call]] = {}
    for life, ops in folder.ops.items():
        for op in ops:
            if op["f"] in LOCK_STEPS:
                what = op["f"], op["outcome"], op["section"], op["key"]
                found.setdefault(life[0], []).append(Call(life, *what, op["invoke_ns"], op["complete_ns"]))
    for life, end in folder.ends.items():
        if (f := _UNDER_WAY.get(end.get("under_way", ""))) is not None:
            began = max((op["complete_ns"] for op in folder.ops.get(life, [])), default=0)
            found.setdefault(life[0], []).append(Call(life, f, "", None, "", began, end["at_ns"]))
    return {client: sorted(own, key=lambda call: call.from_ns) for client, own in found.items()}


def _may_have_sent(task: str, change: Change) -> bool:
    noted = change.request.get("task") if change.request else None
    return task.partition("@")[0] == change.client and noted in (None, task)


def _call(
    of_tasks: list[list[Call]], sent_ns: int, name: str, permits: int, are_noted: bool
) -> tuple[Call | None, bool]:
    """The call in which a request was sent, or else the last one of its client before it. Of several tasks that may
    have sent it, it is only known if one call that asks for this key was under way: the longest of those whose names
    are in the request's. Where tasks are noted, none of them may be inside with that key then."""
    begun = [[call for call in own if call.from_ns <= sent_ns][-1:] for own in of_tasks]
    last = [call for own in begun for call in own]
    if len(of_tasks) == 1:
        return (last[0], sent_ns <= last[0].to_ns) if last else (None, False)
    under_way = [call for call in last if sent_ns <= call.to_ns]
    named = _named([call for own in of_tasks for call in own], name, permits)
    fitting = [call for call in last if not named or call.key in named | {""}]
    inside = [call for call in fitting if call.to_ns < sent_ns and call.f != "release"]
    inside = [call for call in inside if call.f != "acquire" or call.outcome == "ok"] if are_noted else []
    fitting = [call for call in fitting if sent_ns <= call.to_ns]
    return (fitting[0] if len(fitting) == 1 and not inside else None), bool(under_way)


def _named(calls: list[Call], name: str, permits: int) -> set[str]:
    named = {call.key for call in calls if call.key and call.key in name}
    return {max(named, key=len)} if named and permits == 1 else named


def _late_releases(folder: Folder, changes: list[Change], calls: dict[str, list[Call]], permits: int) -> None:
    """A release that succeeded while its process sent nothing had its request sent later."""
    of_process: dict[str, list[Call]] = {}
    for client, own in calls.items():
        of_process.setdefault(client.partition("@")[0], []).extend(own)
    every = [call for own in of_process.values() for call in own]
    by_client = [change for change in changes if change.client and change.request]
    took = sorted((c for c in by_client if c.what in ("deleted", "changed")), key=lambda c: c.sent_ns)
    usual = {_words(c) for c in took if c.call and c.is_in_call and c.call.f == "release"}
    late: list[tuple[Change, Call]] = []
    sent: dict[str, list[int]] = {}
    for request in folder.requests:
        if request["by"] == "client" and request["keys"] and request["from_client_ns"] is not None:
            sent.setdefault(request["client"], []).append(request["from_client_ns"])

    def under_way(process: str, at_ns: int, key: str) -> list[Call]:
        tasks = [own for client, own in calls.items() if client.partition("@")[0] == process]
        last = [call for own in tasks for call in [call for call in own if call.from_ns <= at_ns][-1:]]
        return [call for call in last if at_ns <= call.to_ns and call.key in ("", key)]

    def did_not(call: Call, change: Change) -> bool:
        own = [c for c in by_client if c.client == change.client and c.event["key"] == change.event["key"]]
        sets = [c.sent_ns for c in own if c.what in ("set", "overwritten", "prolonged")]
        if call.f == "acquire" and call.outcome == "ok":
            return not any(change.sent_ns <= at <= call.to_ns for at in sets)
        before = [at for at in sets if call.from_ns <= at < change.sent_ns]
        others = [[one for one in under_way(change.client or "", at, call.key) if one is not call] for at in before]
        return call.f == "acquire" and change.of is not None and all(others)

    for task, own in calls.items():
        process = task.partition("@")[0]
        for release in own:
            if release.f != "release" or release.outcome != "ok":
                continue
            if any(release.from_ns <= at <= release.to_ns for at in sent.get(process, [])):
                continue
            later = [c for c in took if _may_have_sent(task, c) and c.sent_ns > release.to_ns]
            later = [c for c in later if _named(every, c.event["key"], permits) == {release.key}][:1]
            for change in later:
                rivals = [
                    one
                    for one in of_process[process]
                    if one.f in ("release", "leave") and release.to_ns < one.from_ns <= change.sent_ns
                    if one.key in ("", release.key)
                ]
                suspects = under_way(process, change.sent_ns, release.key)
                if _words(change) in usual and not rivals and all(did_not(call, change) for call in suspects):
                    late.append((change, release))
    for change, release in late:
        change.call, change.is_in_call = release, False


def _words(change: Change) -> tuple[str, str]:
    request = change.request or {}
    is_script = request["command"] in ("EVAL", "EVALSHA", "FCALL")
    return request["command"], request["arguments"][0] if is_script else ""

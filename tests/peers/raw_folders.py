"""Random run folders, written as plain JSON: clients that overlap, are paused, killed, restarted or cut off, locks that
extend, leave keys behind or report nothing, a resource that forgets, and files that are missing or damaged.

Nothing here tries to be a likely run. Times are a few units apart, so that many are equal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

UNIT_NS: Final = 10_000_000
TTL: Final = 10
BASE: Final = 100
LASTS: Final = {"granted_ms": 3 * UNIT_NS / 1e6}
NODES: Final = ("n1", "n2", "n3")


@dataclass
class _Made:
    random: Random
    fencing: str
    over: bool
    """The run has an end."""
    ops: dict[tuple[str, int], list[dict[str, Any]]] = field(default_factory=dict)
    ends: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    writes: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    keys_set: list[tuple[int, int, str, str]] = field(default_factory=list)
    """From, to, key, value."""
    grants: int = 0

    def often(self, chance: float) -> bool:
        return self.random.random() < chance


def ns(units: float) -> int:
    return round((BASE + units) * UNIT_NS)


def write_folder(path: Path, config: dict[str, object], seed: int, size: int) -> None:
    """Write a run's files into an empty folder. `config`: the run's configuration as JSON. `size`: how many sections a
    client has, at the most."""
    random = Random(seed)
    made = _Made(random, random.choice(["none", "none", "writes", "all"]), random.random() < 0.8)
    keys = ["k1", "k2"][: random.choice([1, 1, 2])]
    clients = [f"c{number}" for number in range(1, random.randint(2, 4) + 1)]
    for client in clients:
        _client(made, client, keys, size)
    _pauses(made, clients)
    _unplanned(made, clients)
    require = random.choice(["lease", "lease", "lease", "exclusion", "data"])
    own = {"ttl_ms": TTL * UNIT_NS // 1_000_000, "fencing": made.fencing, "require": require, "nodes": len(NODES)}
    for folder in ("clients", "logs"):
        (path / folder).mkdir(parents=True)
    schema_version = 1 if made.over else random.choice([1, 2])
    _json(path / "config.json", {"schema_version": schema_version} | config | own)
    _resource(made, path, keys)
    _timeline(made, path)
    planned = [fault["fault"] for fault in made.faults if fault["event"] == "injected" and not fault.get("unplanned")]
    _json(path / "schedule.json", [{"id": name} for name in planned + ["late"] * made.often(0.1)])
    for life, ops in made.ops.items():
        _lines(path / "clients" / f"{life[0]}.{life[1]}.jsonl", ops)
    _gaps(made, path)
    _lines(path / "nemesis.jsonl", made.faults)
    _lines(path / "client-ends.jsonl", made.ends)
    if made.often(0.6):
        _lines(path / "nodes.jsonl", _witness(made))


def _client(made: _Made, client: str, keys: list[str], size: int) -> None:
    random, at, life = made.random, made.random.randint(0, 6), 1
    for number in range(1, random.randint(0, size) + 1):
        at, ending = _section(made, (client, life), number, random.choice(keys), at)
        if ending in ("killed", "cut-off", "died", "unrecorded", "left"):
            if ending != "unrecorded":
                _end(made, (client, life), "finished" if ending == "left" else ending, at)
            if ending != "killed" or made.often(0.3):
                return
            life += 1
            at += random.randint(0, 3)
    if (client, life) in made.ops and (made.often(0.7) or made.over):
        made.ends.append({"client": client, "life": life, "how": "finished", "at_ns": ns(at + random.randint(0, 2))})


def _end(made: _Made, life: tuple[str, int], how: str, at: int) -> None:
    end: dict[str, Any] = {"client": life[0], "life": life[1], "how": how, "at_ns": ns(at)}
    if how != "finished":
        end["under_way"] = made.random.choice(["inside", "inside", "releasing", "acquiring"])
    made.ends.append(end)


def _section(made: _Made, life: tuple[str, int], number: int, key: str, at: int) -> tuple[int, str]:
    random = made.random
    ops = made.ops.setdefault(life, [])
    same = {"key": key, "section": number}

    def record(name: str, outcome: str, length: int, **more: object) -> dict[str, Any]:
        nonlocal at
        op = {"f": name, "outcome": outcome, **same, "invoke_ns": ns(at), "complete_ns": ns(at + length), **more}
        at += length
        ops.append(op)
        return op

    while made.often(0.3):
        record("acquire", random.choice(["fail", "info"]), random.randint(0, 3))
        if made.often(0.3):
            made.keys_set.append((at - 1, at + random.randint(0, 8), key, f"{life[0]}-{number}-tried"))
    if made.often(0.05):
        return at, "killed"
    asked, style = at, random.choice(["deadline", "bounds", "bounds", "call", "nothing", "at return"])
    length = random.randint(1, 4)
    record("acquire", "ok", length, **_lease(made, style, at, length))
    made.grants += 1
    token = made.grants + random.choice([0, 0, 0, 0, 0, 1, -1])
    source = random.choice(["lock", "resource"])
    fenced = made.fencing != "none" and made.often(0.95)
    if fenced and source == "lock":
        ops[-1] |= {"token": token, "token_source": "lock"}
    value = "shared" if made.often(0.03) else f"{life[0]}-{number}"
    left = at + random.randint(0, 8)
    if fenced and source == "resource":
        record("token", "ok" if made.often(0.95) else "info", 0, token=token, token_source="resource")
    carried = {"token": token, "token_source": source} if fenced else {}
    read = sum(1 for when, write in made.writes if write["key"] == key and when <= at)
    record("read", "ok", 0, value=read)
    while made.often(0.25):
        length = random.randint(0, 2)
        record("extend", random.choice(["ok", "ok", "ok", "fail", "info"]), length, **_lease(made, style, at, length))
        at += random.randint(0, 5)
    while made.often(0.1):
        record("held", random.choice(["ok", "ok", "fail"]), random.randint(0, 1), **made.random.choice([{}, LASTS]))
        at += random.randint(0, 5)
    if made.often(0.9):
        at = max(at, left)
        outcome = random.choice(["ok"] * 8 + ["info", "fail"])
        written = read + (1 if made.often(0.97) else random.choice([0, 2, -1]))
        record("write", outcome, random.randint(0, 1), value=written, **carried)
        if (outcome == "ok" and made.often(0.98)) or (outcome == "info" and made.often(0.5)):
            write = {"key": key, "client": life[0], "section": number, "value": written}
            made.writes.append((at, write | ({"token": token} if fenced else {})))
    at = max(at, left)
    ending = random.choice(["release"] * 12 + ["killed", "cut-off", "died"])
    if made.often(0.02) or (not made.over and made.often(0.1)):
        ending = random.choice(["unrecorded", "left", "went on"])
    gone = at + random.randint(0, 2)
    if ending == "release":
        record("release", random.choice(["ok"] * 8 + ["fail", "info"]), random.randint(0, 2))
        gone = at if made.often(0.85) else at + random.randint(0, 9)
    else:
        gone = at + random.randint(0, 9)
    if made.often(0.95):
        made.keys_set.append((random.randint(asked, max(asked, at)), gone, key, value))
    return at + random.randint(0, 2), ending


def _lease(made: _Made, style: str, invoke: int, length: int) -> dict[str, object]:
    random, complete = made.random, invoke + length
    computed = random.randint(invoke, complete)
    validity = random.choice([TTL, TTL - 1, TTL - 1, TTL - 2, 5, 3, 1, 0, -1, TTL + 1])
    lease: dict[str, object] = {"validity_ms": validity * UNIT_NS / 1e6 + random.choice([0, 0, 0.0000005, 0.7])}
    if made.often(0.5):
        lease["requested_ns"] = ns(random.randint(invoke, computed))
    if made.often(0.1):
        lease["granted_ms"] = random.choice([100, 100, 200, 1000])
    if style == "nothing":
        return {} if made.often(0.3) else lease
    if style == "at return":
        return {"granted_ms": random.choice([100, 100, 2, 200])}
    if style == "deadline":
        lease["deadline_ns"] = ns(computed + validity)
    elif style == "bounds":
        after, before = random.randint(invoke, computed), random.randint(computed, complete)
        lease |= {"computed_after_ns": ns(after), "computed_before_ns": ns(before)}
    return lease


def _pauses(made: _Made, clients: list[str]) -> None:
    random = made.random
    for number in range(random.choice([0, 0, 1, 2, 3])):
        began = random.randint(0, 40)
        fault = {
            "fault": f"f{number}",
            "nemesis": "pause",
            "what": "a pause",
            "seen": "so",
            "paused_clients": random.sample(clients, random.randint(1, len(clients))),
        }
        if made.often(0.3):
            fault |= {"wrong_clocks": random.sample(NODES, 1), "clock_off_ms": random.choice([0, 10, 300])}
        made.faults.append(
            {"event": "injected", "began_ns": ns(began), "done_ns": ns(began), "holds": made.often(0.8)} | fault
        )
        if made.often(0.9):
            done = began + random.randint(0, 12)
            made.faults.append({"event": "healed", "began_ns": ns(done), "done_ns": ns(done), "holds": True} | fault)


def _unplanned(made: _Made, clients: list[str]) -> None:
    """Pauses that somebody ended early, for some of their clients, and clients that somebody stopped."""
    random = made.random
    for fault in [fault for fault in made.faults if fault["event"] == "injected" and made.often(0.3)]:
        at = fault["began_ns"] + random.randint(0, 12) * UNIT_NS
        some = random.sample(fault["paused_clients"], random.randint(1, len(fault["paused_clients"])))
        early = {"event": "undone", "began_ns": at, "done_ns": at, "unplanned": True, "paused_clients": some}
        made.faults.append(fault | early)
    for number in range(random.choice([0, 0, 1])):
        began = random.randint(0, 40)
        fault = {"fault": f"u{number}", "nemesis": "unplanned", "what": "a stop", "seen": "so", "holds": True}
        fault |= {"unplanned": True, "paused_clients": [random.choice(clients)]}
        for event, at in (("injected", began), ("healed", began + random.randint(0, 12))):
            made.faults.append(fault | {"event": event, "began_ns": ns(at), "done_ns": ns(at)})


def _gaps(made: _Made, path: Path) -> None:
    """Gaps in the heartbeats, some of which were waits for a processor or pauses that are recorded anyway."""
    random = made.random
    for life in made.ops:
        lines = []
        for _ in range(random.choice([0, 0, 1, 2])):
            began, length = random.randint(0, 40), random.randint(1, 30)
            gap = {"from_ns": ns(began), "to_ns": ns(began + length)}
            waited = {"waited_ns": random.randint(0, length) * UNIT_NS} if made.often(0.3) else {}
            lines.append(gap | waited | ({"pid": 77} if made.often(0.2) else {}))
        if lines:
            (path / "gaps").mkdir(exist_ok=True)
            _lines(path / "gaps" / f"{life[0]}.{life[1]}.jsonl", lines)


def _resource(made: _Made, path: Path, keys: list[str]) -> None:
    random, last, index = made.random, dict.fromkeys(keys, 0), dict.fromkeys(keys, 0)
    lines = []
    for _, write in sorted(made.writes, key=lambda each: each[0] + random.choice([0, 0, 0, 0.5])):
        index[write["key"]] += 1
        last[write["key"]] = write["value"]
        lines.append({"index": index[write["key"]], **write})
    if made.often(0.95):
        _lines(path / "resource.jsonl", lines)
    if made.often(0.9):
        if made.often(0.03):
            last["k1"] += 1
        _json(path / "final.json", last)


def _timeline(made: _Made, path: Path) -> None:
    if made.often(0.05):
        return
    timeline: dict[str, object] = {"start_ns": ns(0), "interrupted": made.often(0.05)}
    if made.over:
        timeline |= {"healed_ns": ns(500), "stop_ns": ns(510), "end_ns": ns(530)}
        if made.often(0.05):
            timeline["healed_ns"] = None
    _json(path / "timeline.json", timeline)


def _witness(made: _Made) -> list[dict[str, Any]]:
    """What each node reports: of each key that was set on it, in the order of the times."""
    random, lines = made.random, []
    prefix = random.choice(["", "", "lock:"])
    form = random.choice(["{}", "{}", "{}", '{{"owner": "{}"}}', "-1"])
    beside = random.choice(["", "", "", ":seen", ":2"])
    for node in NODES[: random.choice([1, 3, 3])]:
        events: list[tuple[int, str, dict[str, Any]]] = []
        for from_, to, key, value in made.keys_set:
            if made.often(0.15):
                continue
            shown: dict[str, Any] = {"key": prefix + key, "ttl_ms": random.choice([100, 100, 95, 30])}
            if made.often(0.93):
                shown["value"] = form.format(value)
            events.append((from_, "set", shown))
            if beside and made.often(0.7):
                events.append((from_, "set", {"key": prefix + key + beside, "ttl_ms": 100, "value": value}))
                if beside == ":2":  # another slot, and not a copy of the key
                    events.remove((from_, "set", shown))
            if made.often(0.15):
                events.append((random.randint(from_, to), "prolonged", {"key": prefix + key, "ttl_ms": 100}))
            if made.often(0.9):
                events.append((to, random.choice(["deleted", "deleted", "expired"]), {"key": prefix + key}))
        run, up = 0, 0
        while made.often(0.4):
            down, run = up + random.randint(1, 30), run + made.often(0.6)
            up = down + random.randint(1, 15)
            events = [event for event in events if not down < event[0] <= up]
            events += [(down, "blind", {}), (up, "watching", {"value": f"{node}-{run}"})]
            if made.often(0.6) and made.keys_set:
                _, _, key, value = random.choice(made.keys_set)
                ttl_ms = random.choice([100, 60, 20])
                events.append((up, "seen", {"key": prefix + key, "value": value, "ttl_ms": ttl_ms}))
        first = {"seen": 0, "watching": 1}
        events.sort(key=lambda event: (event[0], first.get(event[1], 2)))
        since, at = ns(-2), ns(-1)
        lines.append({"node": node, "at_ns": at, "event": "watching", "value": f"{node}-0", "since_ns": since})
        for when, name, more in events:
            since = max(since, ns(when - random.choice([0, 0, 1, 1, 3])))
            at = max(at, ns(when + random.choice([0, 0, 1])))
            line = {"node": node, "at_ns": at, "event": name, "since_ns": since, **more}
            if name == "blind":
                del line["since_ns"]
            lines.append(line)
        if made.often(0.8):
            lines.append({"node": node, "at_ns": max(at, ns(530)), "event": "blind"})
    return lines


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


def _lines(path: Path, lines: Iterable[object]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def tear(path: Path, seed: int) -> str:
    """Damage one line in the middle of one of the folder's logs; returns the log's name, or nothing if none has two
    lines."""
    random = Random(seed)
    logs = [log for log in sorted(path.rglob("*.jsonl")) if log.read_bytes().count(b"\n") > 1]
    if not logs:
        return ""
    log = random.choice(logs)
    lines = log.read_bytes().split(b"\n")
    place = random.randrange(len(lines) - 2)
    lines[place] = lines[place][: random.randrange(1, len(lines[place]))]
    log.write_bytes(b"\n".join(lines))
    return log.name

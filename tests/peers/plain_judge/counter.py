"""What it cost: lost updates, stale writes, tokens, and a record that contradicts itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.peers.plain_judge.folder import Folder, Line
from tests.peers.plain_judge.sections import Section, blame, meet, overlaps

Of = dict[tuple[str, int], Section]
"""The section of a client with this number."""


@dataclass
class Cost:
    lost: Counter[str] = field(default_factory=Counter)
    lost_unacknowledged: int = 0
    stale_accepted: Counter[str] = field(default_factory=Counter)
    tokens_not_increasing: int = 0
    contradictions: list[str] = field(default_factory=list)


def cost(folder: Folder, sections: list[Section]) -> Cost:
    found = Cost()
    of = {(s.life[0], s.number): s for s in sections}
    acknowledged = {
        (life[0], op["section"], op["value"])
        for life, ops in folder.ops.items()
        for op in ops
        if op["f"] == "write" and op["outcome"] == "ok"
    }
    overlapping = {a.key for a, _ in overlaps(sections)}
    complete = folder.final is not None and (folder.timeline or {}).get("end_ns") is not None
    for key in sorted({write["key"] for write in folder.writes}):
        writes = [write for write in folder.writes if write["key"] == key]
        _lost_updates(found, writes, acknowledged, of, key in overlapping or not complete)
        _stale_writes(found, writes, of, folder.config["fencing"] != "none")
        _values(found, key, writes)
    if folder.final is not None:
        accepted = {(w["client"], w["section"], w["value"]) for w in folder.writes}
        found.contradictions += [f"{write} was acknowledged and is missing" for write in acknowledged - accepted]
        last = {write["key"]: write["value"] for write in folder.writes}
        for key in last | folder.final:
            if last.get(key, 0) != folder.final.get(key, 0):
                found.contradictions.append(f"{key} ended as {folder.final.get(key, 0)} and not as {last.get(key, 0)}")
    _tokens(found, sections)
    return found


def _lost_updates(found: Cost, writes: list[Line], acknowledged: set[Any], of: Of, excused: bool) -> None:
    """`excused`: sections of the key overlapped, or the record is not whole."""

    def told(write: Line) -> bool:
        return (write["client"], write["section"], write["value"]) in acknowledged

    for i, write in enumerate(writes):
        over = next((w for w in writes[i + 1 :] if w["value"] <= write["value"]), None)
        if over is None:
            continue
        if not told(write):
            found.lost_unacknowledged += 1
            continue
        mine, theirs = of.get((write["client"], write["section"])), of.get((over["client"], over["section"]))
        if mine and theirs and mine.life != theirs.life and meet((mine.start, mine.end), (theirs.start, theirs.end)):
            found.lost[blame(mine, theirs)] += 1
        elif mine and theirs and theirs.start < mine.start and not told(over):
            found.lost["client"] += 1
        elif excused:
            found.lost["undecided"] += 1
        else:
            found.lost["harness"] += 1
            found.contradictions.append(f"{write} was lost although nothing overlapped")


def _stale_writes(found: Cost, writes: list[Line], of: Of, checked: bool) -> None:
    by_token = all(write.get("token") is not None for write in writes)
    known = [w for w in writes if by_token or (w["client"], w["section"]) in of]

    def rank(write: Line) -> float:
        return write["token"] if by_token else of[write["client"], write["section"]].start

    for i, write in enumerate(known):
        holder = max(known[:i], key=rank, default=write)
        if rank(holder) <= rank(write):
            continue
        if by_token and checked:
            found.stale_accepted["resource"] += 1
            continue
        mine, theirs = of.get((write["client"], write["section"])), of.get((holder["client"], holder["section"]))
        if mine and theirs and mine.life != theirs.life and meet((mine.start, mine.end), (theirs.start, theirs.end)):
            found.stale_accepted[blame(mine, theirs)] += 1
        else:
            found.stale_accepted["client"] += 1


def _values(found: Cost, key: str, writes: list[Line]) -> None:
    earlier = {0}
    for write in writes:
        if write["value"] - 1 not in earlier:
            found.contradictions.append(f"{key} got the value {write['value']} out of nothing")
        earlier.add(write["value"])


def _tokens(found: Cost, sections: list[Section]) -> None:
    """Counts the sections whose token is not larger than that of every section that had ended before."""
    with_token = [s for s in sections if s.token is not None]
    found.tokens_not_increasing = sum(
        any(a.key == b.key and a.end < b.start and a.token >= b.token for a in with_token)  # type: ignore[operator]
        for b in with_token
    )

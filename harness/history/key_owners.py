"""Who owns the keys that the nodes hold? The value decides if the lock exposes it; else the client that was trying
then.

A lock's key may have a different name on the nodes (a library's prefix); the values show which name belongs to which
key.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd

from harness.history.groups import Ints
from harness.history.key_holdings import Watched
from harness.history.recorded import Recorded


@dataclass(frozen=True, slots=True)
class Owners:
    """`holdings`: those of the lock's keys, with the lock's own name of the key (`lock_key`) and the place in
    `sections` of the section that it was set for (`section`, -1 if unknown).

    `value`: by place in `sections`, the value that the lock exposed for that section and no other. `shared`: values
    that the lock exposed for several sections, with the places of those; such a value identifies no section."""

    holdings: pd.DataFrame
    value: dict[int, str]
    shared: dict[str, list[int]]

    @property
    def are_shown(self) -> bool:
        """Whether any value that the lock exposed was seen on a node."""
        return bool((self.holdings["section"] >= 0).any())


def find_owners(run: Recorded, watched: Watched) -> Owners:
    """Match the nodes' holdings with the granted sections."""
    place = _places(run.sections)
    shown: dict[str, list[int]] = {}
    for *which, value in rows_of(watched.held, "client", "life", "section", "value"):
        if value and (row := place.get(tuple(which))) is not None:
            shown.setdefault(value, []).append(row)
    seen = set(watched.holdings["value"])
    shared = {value: rows for value, rows in shown.items() if len(rows) > 1 and value in seen}
    single = {value: rows[0] for value, rows in shown.items() if len(rows) == 1}
    holdings = watched.holdings
    section = np.array([single.get(value, -1) for value in holdings["value"]], np.int64)
    keys = run.sections["key"].astype(str).to_numpy()
    names = {str(key): str(key) for key in run.ops["key"].unique()}
    matched = np.flatnonzero(section >= 0)
    names |= dict(zip(holdings["key"].astype(str).to_numpy()[matched], keys[section[matched]], strict=True))
    lock_key = holdings["key"].astype(str).map(names)
    ours = lock_key.notna().to_numpy()
    holdings = holdings.assign(lock_key=lock_key, section=section)[ours].reset_index(drop=True)
    return Owners(holdings, {row: value for value, row in single.items()}, shared)


def left_ns(run: Recorded) -> Ints:
    """For each section when its client no longer owned the key: the release had returned, or the client was gone."""
    releases = rows_of(run.ops[run.ops["f"] == "release"], "client", "life", "section", "complete_ns")
    done = {tuple(section): complete for *section, complete in releases}
    gone = {(end.client, end.life): end.at_ns for end in run.ends}
    places = zip(_places(run.sections), run.sections["end_ns"].tolist(), strict=True)
    return np.array([done.get(section, gone.get(section[:2], end_ns)) for section, end_ns in places], np.int64)


def rows_of(frame: pd.DataFrame, *names: str) -> Iterator[tuple[Any, ...]]:
    """These columns, row by row, as plain Python values."""
    return zip(*(frame[name].tolist() for name in names), strict=True)


def _places(sections: pd.DataFrame) -> dict[tuple[Any, ...], int]:
    return {section: row for row, section in enumerate(rows_of(sections, "client", "life", "section"))}


class Tries:
    """All attempts to acquire one key: when each started, and when its client no longer owned anything from it."""

    def __init__(self, run: Recorded, key: str, owners: Owners, left: Ints) -> None:
        """`left`: the result of `left_ns`. A client that was killed may have been trying since its last operation."""
        ops = run.ops
        place = _places(run.sections)
        tries: list[tuple[int, int, bool]] = []
        acquires = ops[(ops["f"] == "acquire") & (ops["key"] == key)]
        columns = ("client", "life", "section", "outcome", "invoke_ns", "complete_ns")
        for client, life, section, outcome, invoke, complete in rows_of(acquires, *columns):
            row = place[client, life, section] if outcome == "ok" else -1
            # If a granted section's value is known, its key is matched by value; only its earlier rounds matter here.
            is_unknown = row >= 0 and row not in owners.value
            tries.append((invoke, int(left[row]) if is_unknown else complete, False))
        # Each client's operations are in the order in which it recorded them.
        last = {(client, life): complete for client, life, complete in rows_of(ops, "client", "life", "complete_ns")}
        for end in run.ends:
            if end.how != "finished":
                tries.append((last.get((end.client, end.life), 0), end.at_ns, True))  # noqa: PERF401  (plain words)
        tries.sort()
        self._began = [began for began, _, _ in tries]
        nobody = (-1, False)
        self._latest = list(accumulate(((until, died) for _, until, died in tries), max, initial=nobody))

    def last_owner(self, by_ns: int) -> tuple[int, bool]:
        """The latest end of the attempts that had started by then, and whether that attempt ended because its client
        died; a time before all others if none had started. If it is before the key was set, no client was trying."""
        return self._latest[bisect_right(self._began, by_ns)]

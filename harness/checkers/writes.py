"""An accepted write: how an example shows it, and when its client made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from harness.explain.words import at
from harness.history.groups import Ints, where
from harness.history.overlaps import BLAMES
from harness.history.recorded import Recorded
from harness.verdict import Blame

WHOSE: Final[dict[Blame, str]] = {
    "lock": "in overlaps blamed on the lock",
    "client": "by a client that had outlived its lease",
    "undecided": "in overlaps of undecided blame",
    "harness": "although no two sections of the key overlapped: the harness or its resource is wrong",
}
"""Through whose fault a write did harm."""


def by_blame(whose: Ints, last: Blame) -> Iterator[tuple[Blame, Ints]]:
    """Each part to blame, and the places of what is blamed on it: an index in `BLAMES`, or for `last` the next one."""
    for place, blame in enumerate((*BLAMES, last)):
        if len(which := np.flatnonzero(whose == place)):
            yield blame, which


def shown(writes: pd.DataFrame, row: int) -> dict[str, Any]:
    """An accepted write, for an example."""
    write = writes.iloc[row]
    return {"client": str(write.client), "section": int(write.section), "value": int(write.value)}


def write_of(run: Recorded, client: str, section: int, value: int) -> Any:
    """The operation of a write; None if it was not recorded."""
    is_its = (run.ops["value"] == value).fillna(False)
    ops = where(run.ops, is_its, f="write", client=client, section=section)
    return ops.iloc[0] if len(ops) else None


def by_when(run: Recorded, write: Mapping[str, Any]) -> str:
    """By when the write of an example was made, or given up, if its operation was recorded."""
    op = write_of(run, str(write["client"]), int(write["section"]), int(write["value"]))
    if op is None:
        return ""
    moment = at(run, int(op.complete_ns))
    return f" by {moment}" if op.outcome == "ok" else f" (late: it had been given up at {moment})"


def moment_of(run: Recorded, row: int) -> dict[str, float]:
    """`at_ms` of an accepted write: by when its client had been told so, or had given up; nothing if that is not on
    record."""
    op = write_of(run, **shown(run.writes, row))
    return {} if op is None else {"at_ms": run.at_ms(op.complete_ns)}


def first_ms(run: Recorded, rows: Ints) -> float | None:
    """When the first of these accepted writes was made, if that is on record. They are in the resource's order."""
    return moment_of(run, int(rows.min())).get("at_ms")

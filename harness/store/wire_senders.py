"""Which task of a client sent a request, as its process recorded it (`workloads.senders`).

Both sides of a connection count the same bytes, so a request is of the task that its bytes are noted for. The client
names the connection by its own port, which the proxy saw. A client may have a port again when its connection is closed,
so the time of the note counts, too. Of two connections from one port at one time nothing is told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa

from fencepost.history import Sender
from harness.history.groups import Ints
from harness.store.append_log import read_lines
from harness.store.columns import NAME

_OF_NO_TASK: Final = -1
_MOST_BYTES: Final = 1 << 40
"""More than a connection carries in a run."""
_ACCEPTED_WITHIN_NS: Final = 500_000_000
"""The proxy may see a connection so much later than its client."""


class Senders:
    """`opened`: the connections, in the order of their places: `client`, its `port` (missing if that did not open it),
    `opened_ns` and `closed_ns`. Raises UsageError for damaged files."""

    def __init__(self, folder: Path, opened: pd.DataFrame) -> None:
        notes = [
            (path.name.rsplit(".", 2)[0], each.at_ns, each.port, each.after_bytes, each.task)
            for path in sorted(folder.glob("*.jsonl"))
            for piece in read_lines(path, Sender)
            for each in piece
        ]
        noted = pd.DataFrame(notes, columns=["client", "at_ns", "port", "after_bytes", "task"])
        known = opened.assign(place=np.arange(len(opened))).dropna()
        known = known.astype({"client": object, "port": np.int64})
        noted = noted.astype({"client": object, "at_ns": np.int64, "port": np.int64, "after_bytes": np.int64})
        noted = _of_one(noted.assign(note=np.arange(len(noted))).merge(known, on=["client", "port"]))
        codes, self._tasks = pd.factorize(noted["task"])
        at = _on_line(noted["place"].to_numpy(np.int64), noted["after_bytes"].to_numpy(np.int64))
        order = np.argsort(at, kind="stable")
        self._at, self._code = at[order], np.append(codes[order], _OF_NO_TASK)

    def of(self, place: Ints, ends: Ints) -> pa.DictionaryArray:
        """The task whose bytes reached so far on these connections; missing where it is none, or not known."""
        note = np.searchsorted(self._at, _on_line(place, ends), "left") - 1
        is_its = (note >= 0) & (np.append(self._at, -1)[note] >= _on_line(place, 0)) & (ends >= 0)
        codes = self._code[np.where(is_its, note, -1)].astype(np.int32)
        tasks = pa.array(self._tasks, pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), tasks).cast(NAME)


def _of_one(noted: pd.DataFrame) -> pd.DataFrame:
    """The notes that may be of one connection alone, without those of connections of which some may be another's."""
    was_open = noted["opened_ns"] <= noted["at_ns"] + _ACCEPTED_WITHIN_NS
    noted = noted[was_open & (noted["at_ns"] <= noted["closed_ns"])]
    several = noted["place"][noted["note"].duplicated(keep=False)]
    return noted[~noted["place"].isin(several)].sort_values("note", kind="stable")


def _on_line(place: Ints, count: Ints | int) -> Ints:
    """The bytes of all connections on one line of numbers."""
    return place * _MOST_BYTES + count

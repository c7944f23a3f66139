"""Which task of a client sent a request, as its process recorded it (`workloads.senders`).

Both sides of a connection count the same bytes, so a request is of the task that its bytes are noted for. The client
names the connection by its own port, which the proxy saw. Of a port that a client had twice nothing is told.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class Senders:
    """`clients`, `ports`: of each connection, in the order of their places. Raises UsageError for damaged files."""

    def __init__(self, folder: Path, clients: Sequence[str], ports: Sequence[int | None]) -> None:
        notes = [
            (path.name.rsplit(".", 2)[0], each.port, each.after_bytes, each.task)
            for path in sorted(folder.glob("*.jsonl"))
            for piece in read_lines(path, Sender)
            for each in piece
        ]
        noted = pd.DataFrame(notes, columns=["client", "port", "after_bytes", "task"])
        known = pd.DataFrame({"client": clients, "port": ports}).dropna().drop_duplicates(keep=False)
        known = known.assign(place=known.index).astype({"client": object, "port": np.int64, "place": np.int64})
        noted = noted.astype({"client": object, "port": np.int64, "after_bytes": np.int64})
        noted = noted.merge(known, on=["client", "port"])
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


def _on_line(place: Ints, count: Ints | int) -> Ints:
    """The bytes of all connections on one line of numbers."""
    return place * _MOST_BYTES + count

"""Comma-separated values, a row a line, with the names of the columns in the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.export.formats import Choice
from harness.export.tables import frame_of
from harness.history.recorded import Recorded

_ROWS: Final = 1 << 14


def write(run: Recorded, choice: Choice) -> Iterator[bytes]:
    frame = frame_of(run, choice.table)
    for at in range(0, max(1, len(frame)), _ROWS):
        part = frame.iloc[at : at + _ROWS]
        yield part.to_csv(index=False, header=at == 0, lineterminator="\n").encode()

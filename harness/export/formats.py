"""What can be exported: the formats, and the part of the run that goes into one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal

from fencepost.errors import UsageError

if TYPE_CHECKING:
    from harness.history.recorded import Recorded
    from harness.store.wire import Wire

Format = Literal["perfetto", "pcapng", "porcupine", "jepsen", "parquet", "csv"]
"""Each is a module of this package."""
Table = Literal["ops", "sections", "writes", "faults"]
Window = Literal["section", "possible", "certain"]
"""How long a section counts: from acquire to release; cut at the latest end of its lease; cut at the earliest."""
TABULAR: Final = ("parquet", "csv")
BINARY: Final = ("parquet", "pcapng")
OF_THE_WIRE: Final = ("perfetto", "pcapng")
"""These show what went over the links."""
HISTORIES: Final = ("porcupine", "jepsen")


@dataclass(frozen=True, slots=True)
class Choice:
    """What was asked for. `table`: for formats with one table. `window`: for histories of a mutex. `wire`: what went
    over the links, for formats that show it."""

    table: Table = "ops"
    window: Window = "section"
    wire: Wire | None = None


Writer = Callable[["Recorded", Choice], Iterator[bytes]]
"""The run in this format, piece by piece. Raises UsageError for a run that the format has no room for."""


def writer_of(name: Format) -> Writer:
    """Nothing of a format is imported before it is asked for."""
    write: Writer = import_module(f"harness.export.{name}").write
    return write


def only_key(run: Recorded, key: str) -> Recorded:
    """The run with nothing but this key's operations, sections and writes, and all of its faults. Raises UsageError for
    a key that no client asked for."""
    keys = keys_of(run)
    if key not in keys:
        raise UsageError(f"no client asked for the key {key!r}; the run has {', '.join(keys) or 'none'}")
    ops, sections, writes = (
        table[(table["key"] == key).to_numpy()].reset_index(drop=True) for table in (run.ops, run.sections, run.writes)
    )
    return replace(run, ops=ops, sections=sections, writes=writes)


def keys_of(run: Recorded) -> list[str]:
    return sorted(str(key) for key in run.ops["key"].unique())

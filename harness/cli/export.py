"""`fencepost export`: a recorded run in the format of another tool."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from fencepost.boundary import say_bytes
from fencepost.errors import UsageError
from fencepost.files import beside, kind_of, on_disk
from fencepost.options import Option
from harness.cli.command import ARecordedRun, Call, Command
from harness.config import RESULTS
from harness.export.formats import (
    BINARY,
    HISTORIES,
    OF_THE_WIRE,
    TABULAR,
    Choice,
    Format,
    Table,
    Window,
    only_key,
    writer_of,
)


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    run: ARecordedRun = RESULTS / "latest"
    to: Annotated[Format | None, Option("--to", "the format; must be given")] = None
    output: Annotated[
        Path | None, Option("--output", "the file to write", metavar="FILE", shown_default="standard output")
    ] = None
    key: Annotated[
        str | None, Option("--key", "only what concerns this key", metavar="KEY", shown_default="all keys")
    ] = None
    table: Annotated[Table | None, Option("--table", "parquet and csv: which table", shown_default="ops")] = None
    window: Annotated[
        Window | None,
        Option("--window", "porcupine and jepsen: how long a section counts", shown_default="section"),
    ] = None


def _export(call: Call) -> int:
    arguments: Arguments = call.arguments
    if arguments.to is None:
        raise UsageError("which format? give --to; see `fencepost export --help`")
    if arguments.table is not None and arguments.to not in TABULAR:
        raise UsageError(f"--table is for {' and '.join(TABULAR)}; --to is {arguments.to}")
    if arguments.window is not None and arguments.to not in HISTORIES:
        raise UsageError(f"--window is for {' and '.join(HISTORIES)}; --to is {arguments.to}")
    if arguments.output is None and arguments.to in BINARY and sys.stdout.isatty():
        raise UsageError(f"--to {arguments.to} is not for a terminal; name a file with --output")

    from harness.store.run_folder import RunFolder
    from harness.store.tables import load_recorded
    from harness.store.wire_folder import load_wire

    folder = RunFolder.open(arguments.run)
    run = load_recorded(folder)
    wire = load_wire(folder) if arguments.to in OF_THE_WIRE else None
    if arguments.key is not None:
        run, wire = only_key(run, arguments.key), wire and wire.of_key(arguments.key)
    pieces = writer_of(arguments.to)(run, Choice(arguments.table or "ops", arguments.window or "section", wire))
    if arguments.output is None:
        say_bytes(pieces)
    else:
        _write(arguments.output, pieces)
    return 0


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    """Raises UsageError for a path that no file can have; what was there stays if anything fails."""
    if (there := kind_of(path)) not in ("file", None):
        what = "a folder" if there == "folder" else "not a regular file; leave --output out, and redirect"
        raise UsageError(f"--output {path} is {what}")
    if kind_of(path.parent) != "folder":
        raise UsageError(f"--output {path}: there is no folder {path.parent}")
    with on_disk(path), beside(path) as half, half.open("wb") as file:
        for piece in pieces:
            file.write(piece)


COMMAND = Command(
    description="""
Write a recorded run in the format of another tool, to a file or to standard output.

  perfetto   a trace for ui.perfetto.dev: clients, nodes, faults and overlaps as tracks, and every request
  pcapng     what went over the links, for Wireshark
  porcupine  acquire and release of each key, for a linearizability checker in Go
  jepsen     acquire and release of one key in EDN, for Jepsen and Knossos
  parquet    one table, for pandas, DuckDB, Spark, …
  csv        one table, for everything else""",
    arguments=Arguments,
    do=_export,
    usage="fencepost export [RUN] --to FORMAT [options]",
    epilog="""examples:
  fencepost export --to perfetto --output trace.json
  fencepost export latest --to csv --table sections --output sections.csv
  fencepost export latest --to jepsen --key k1 --window certain --output history.edn

A mutex knows no leases: of a section that outlived its lease, it blames the lock. `--window certain` leaves only what
is certainly the lock's fault; see docs/export.md.
exit codes: 0 written, 254 bad arguments or a damaged folder, 255 the file cannot be written
""",
)

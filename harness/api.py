"""A recorded run for a user's own Python: `fencepost.load`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pandas as pd

from fencepost.history import FaultEvent
from harness.checkers.judge import judge, recorded_verdict
from harness.config import RunConfig
from harness.store.columns import widened
from harness.store.run_folder import RunFolder
from harness.store.tables import load_recorded
from harness.store.wire import frame
from harness.store.wire_folder import load_wire
from harness.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Run:
    """A recorded run in tables. Times are CLOCK_MONOTONIC in nanoseconds, as everywhere.

    `ops`: one row an operation, the fields of `fencepost.history.Op` with `client` and `life`. `sections`: one row a
    granted section (`harness.history.sections`). `faults`: one row an observation (`fencepost.history.FaultEvent`).
    `writes`: one row a write that the resource accepted, in its order. `requests`: one row a request that went over a
    link, `connections`: one row a connection (`harness.store.wire`); without rows where they were not recorded.
    `ledger`: one row a change of a key on a node, with the request that made it (`harness.history.ledger`); None where
    the nodes were not watched, or requests not recorded.
    """

    path: Path
    config: RunConfig
    ops: pd.DataFrame
    sections: pd.DataFrame
    faults: pd.DataFrame
    writes: pd.DataFrame
    requests: pd.DataFrame
    connections: pd.DataFrame
    ledger: pd.DataFrame | None
    verdict: Verdict


def load(run: str | Path = "latest") -> Run:
    """The run in this folder; a bare name, like `latest`, is looked for in `results/runs`.

    The verdict is the recorded one; if this version of fencepost has not judged the run yet, it does so now. Nothing is
    written. Raises UsageError for what is no run folder.
    """
    folder = RunFolder.open(run)
    recorded, wire = load_recorded(folder), load_wire(folder)
    columns = [field.name for field in msgspec.structs.fields(FaultEvent)]
    return Run(
        path=folder.path,
        config=recorded.config,
        ops=widened(recorded.ops),
        sections=widened(recorded.sections),
        faults=pd.DataFrame([msgspec.structs.asdict(event) for event in recorded.faults], columns=columns),
        writes=widened(recorded.writes),
        requests=frame(wire.requests),
        connections=frame(wire.connections),
        ledger=None if recorded.ledger is None else recorded.ledger.table(),
        verdict=recorded_verdict(folder) or judge(recorded),
    )

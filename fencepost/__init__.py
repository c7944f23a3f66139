"""What a user imports: `load` for a recorded run, and the protocols that a lock of one's own implements.

    import fencepost
    run = fencepost.load("results/runs/latest")
    run.sections.groupby("client").size()

Importing this package imports nothing heavy; what is named here is fetched when it is first used.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from harness.checkers.base import Verdict
    from harness.config import RunConfig
    from workloads.base import Lease, Lock, LockSettings, NodeAddress

__all__ = ["Lease", "Lock", "LockSettings", "NodeAddress", "Run", "check_module_names", "load"]

_FOLDERS = ("cluster", "workloads", "nemesis", "harness")
_FROM_WORKLOADS = frozenset({"Lease", "Lock", "LockSettings", "NodeAddress"})


@dataclass(frozen=True, slots=True)
class Run:
    """A recorded run in tables. Times are CLOCK_MONOTONIC in nanoseconds, as everywhere.

    `ops`: one row an operation, the fields of `harness.history.Op` with `client` and `life`. `sections`: one row a
    granted section (`harness.sections`). `faults`: one row an observation (`harness.history.FaultEvent`). `writes`: one
    row a write that the resource accepted, in its order.
    """

    path: Path
    config: RunConfig
    ops: pd.DataFrame
    sections: pd.DataFrame
    faults: pd.DataFrame
    writes: pd.DataFrame
    verdict: Verdict


def load(run: str | Path = "latest") -> Run:
    """The run in this folder; a bare name, like `latest`, is looked for in `results/runs`.

    The verdict is the recorded one, or made now if the run was never judged. Nothing is written. Raises UsageError for
    what is no run folder.
    """
    check_module_names()
    import msgspec
    import pandas as pd

    from harness.history import FaultEvent
    from harness.judge import judge
    from harness.store import RunFolder, load_recorded

    folder = RunFolder.open(run)
    recorded = load_recorded(folder)
    columns = [field.name for field in msgspec.structs.fields(FaultEvent)]
    return Run(
        path=folder.path,
        config=recorded.config,
        ops=recorded.ops,
        sections=recorded.sections,
        faults=pd.DataFrame([msgspec.structs.asdict(event) for event in recorded.faults], columns=columns),
        writes=recorded.writes,
        verdict=folder.read_verdict() or judge(recorded),
    )


def check_module_names() -> None:
    """Raise UsageError if another project's module hides one of ours: their names are common words."""
    from fencepost.errors import UsageError

    home = Path(__file__).resolve().parent.parent
    for name in _FOLDERS:
        spec = find_spec(name)
        found = spec.origin if spec else None
        if found is None or Path(found).resolve().parent != home / name:
            raise UsageError(
                f"the module {name} comes from {found or 'nowhere'}, not from {home / name}; "
                "fencepost needs that name: use an environment of its own or another folder"
            )


def __getattr__(name: str) -> Any:
    if name in _FROM_WORKLOADS:
        check_module_names()
        return getattr(import_module("workloads.base"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
